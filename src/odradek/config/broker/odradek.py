"""Odradek's own settings: the names begin with ``odradek.``, so that none can meet one of Kafka's."""

from __future__ import annotations

from odradek.config.types import HIGH, LOW, MEDIUM, MIB, boolean, choice, declared, int32

ODRADEK_ALLOW_ANONYMOUS = boolean(
    "odradek.allow.anonymous",
    False,
    HIGH,
    "Whether listeners that other machines can reach may serve clients that have not authenticated. "
    "Without this word a broker with such a listener does not start.",
)

# A pipelining client keeps five in flight, a busy one some tens; the bound is for those that never read.
ODRADEK_CONNECTION_UNANSWERED_MAX = int32(
    "odradek.connection.unanswered.max",
    100,
    MEDIUM,
    "Requests of one connection that may be unanswered before the broker stops reading from it.",
    at_least=1,
)

# Batches are at most socket.request.max.bytes (100 MiB) as sent, and usually 1 MiB. 256 MiB leaves ordinary
# text, which packs tenfold, far from the bound, while a bomb stops well before memory does.
ODRADEK_DECOMPRESSED_BYTES_MAX = int32(
    "odradek.decompressed.bytes.max",
    256 * MIB,
    LOW,
    "Largest size a compressed batch may unpack to. A batch beyond it is refused as too large.",
    at_least=1024,
)

ODRADEK_LOG_LEVEL = choice(
    "odradek.log.level",
    "warning",
    LOW,
    "Least severe events that are written to stderr. `odradek serve --log-level` sets it too.",
    among=("debug", "info", "warning", "error"),
)

ODRADEK_LOG_FORMAT = choice(
    "odradek.log.format",
    "text",
    LOW,
    "Format of events on stderr: `text` for people, or `json`, one object a line with time, level, event and "
    "its fields. `odradek serve --log-format` sets it too.",
    among=("text", "json"),
)

ODRADEK_SETTINGS = declared(globals())
