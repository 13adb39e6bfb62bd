"""Odradek's own settings: their names start with ``odradek.`` to avoid conflicts with Kafka's."""

from __future__ import annotations

from odradek.config.types import HIGH, LOW, MEDIUM, MIB, boolean, choice, declared, int32, password, string

ODRADEK_ALLOW_ANONYMOUS = boolean(
    "odradek.allow.anonymous",
    False,
    HIGH,
    "Whether listeners that other machines can reach may serve clients without authentication. If "
    "false, a broker with such a listener does not start.",
)

ODRADEK_SASL_PLAIN_USERS_FILE = string(
    "odradek.sasl.plain.users.file",
    None,
    MEDIUM,
    "File with the users of SASL PLAIN, a line name:password each, beside or instead of sasl.jaas.config. "
    "May have a listener prefix.",
)

ODRADEK_AUTHENTICATION_TIMEOUT_MS = int32(
    "odradek.authentication.timeout.ms",
    30_000,
    MEDIUM,
    "Time for a client to complete its TLS handshake and authentication, before its connection is closed.",
    at_least=1,
)

# Clients have five requests in flight, busy ones some tens; the bound is for those that never read.
ODRADEK_CONNECTION_UNANSWERED_MAX = int32(
    "odradek.connection.unanswered.max",
    100,
    MEDIUM,
    "Maximum number of requests of a connection without a response before the broker stops reading from it.",
    at_least=1,
)

# Batches are at most socket.request.max.bytes (100 MiB), usually 1 MiB. Ordinary text, which compresses
# tenfold, stays far below 256 MiB, while a decompression bomb is stopped well before memory is exhausted.
ODRADEK_DECOMPRESSED_BYTES_MAX = int32(
    "odradek.decompressed.bytes.max",
    256 * MIB,
    LOW,
    "Maximum size of a batch after decompression. A larger batch is rejected.",
    at_least=1024,
)

ODRADEK_LOG_LEVEL = choice(
    "odradek.log.level",
    "warning",
    LOW,
    "Minimum level of events written to stderr. `odradek serve --log-level` overrides it.",
    among=("debug", "info", "warning", "error"),
)

ODRADEK_LOG_FORMAT = choice(
    "odradek.log.format",
    "text",
    LOW,
    "Format of events on stderr: `text`, or `json`, one object per line with time, level, event and "
    "its fields. `odradek serve --log-format` overrides it.",
    among=("text", "json"),
)

ODRADEK_ZOOKEEPER_DIGEST_CREDENTIALS = password(
    "odradek.zookeeper.digest.credentials",
    MEDIUM,
    "`user:password` with which sessions with ZooKeeper authenticate by its digest scheme. "
    "`zookeeper.set.acl` requires it, or a client certificate.",
)

ODRADEK_SETTINGS = declared(globals())
