"""Options of all clients: where the cluster is, how connections are made and kept, what is retried.

``Cluster`` reads these from the settings of any client. Those that a kind of client does not offer have their
default there (see ``tables.ClientConfigDef.fixed``), so that shared parts need not ask whom they serve.
"""

from __future__ import annotations

import re
from typing import Final

from odradek.config.definition import Setting, Settings
from odradek.config.endpoints import split_list
from odradek.config.types import (
    HIGH,
    KIB,
    LOW,
    MEDIUM,
    MINUTE_MS,
    boolean,
    choice,
    declared,
    int32,
    int64,
    text,
)
from odradek.model.protocol_enums import ConfigType

# A listener's name may stand before the address, as in a broker's advertised.listeners.
_ADDRESS: Final = re.compile(r"(?:[0-9A-Za-z\-%._]*://)?\[?([0-9A-Za-z\-%._:]+)\]?:([0-9]{1,5})")
_PORT_MAX: Final = 65_535


def parse_address(given: str) -> tuple[str, int] | None:
    """Host and port of ``host:port``, ``[::1]:9092`` or ``PLAINTEXT://host:port``; None for other texts."""
    match = _ADDRESS.fullmatch(given)
    if match is None or not 0 < int(match[2]) <= _PORT_MAX:
        return None
    return match[1], int(match[2])


def bootstrap_addresses(settings: Settings) -> tuple[tuple[str, int], ...]:
    """The addresses of ``bootstrap.servers``, each once, in the order given."""
    found = (parse_address(server) for server in settings[BOOTSTRAP_SERVERS])
    return tuple(dict.fromkeys(address for address in found if address is not None))


def _addresses(servers: tuple[str, ...]) -> str | None:
    wrong = [server for server in servers if parse_address(server) is None]
    return f"{wrong[0]!r} is not of the form host:port" if wrong else None


def _security_protocol(value: str) -> str | None:
    if value == "PLAINTEXT":
        return None
    if value in {"SSL", "SASL_PLAINTEXT", "SASL_SSL"}:
        return "TLS and SASL are not available in this version: only PLAINTEXT connections can be made"
    return "String must be one of (case insensitive): PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"


def _recovery(value: str) -> str | None:
    words = ("none", "rebootstrap")
    return None if value in words else f"String must be one of (case insensitive): {', '.join(words)}"


BOOTSTRAP_SERVERS: Setting[tuple[str, ...]] = Setting(
    "bootstrap.servers",
    ConfigType.LIST,
    (),
    HIGH,
    "Brokers to ask first, as host:port; the others are learned from them. Name two or three, in case one is "
    "away. Also called metadata.broker.list.",
    lambda given: tuple(split_list(given)),
    check=_addresses,
    allowed="host:port, …",
)

CLIENT_ID = text(
    "client.id",
    "",
    MEDIUM,
    "Name of this client in the broker's logs, metrics and quotas. Without one it is made: producer-1, "
    "consumer-{group}-1, adminclient-1.",
)

CLIENT_DNS_LOOKUP = choice(
    "client.dns.lookup",
    "use_all_dns_ips",
    MEDIUM,
    "Whether bootstrap names are first replaced by the canonical names of their addresses. Here all "
    "addresses of a name are tried in turn, whatever is chosen.",
    among=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    inert=True,
)

CLIENT_RACK = text(
    "client.rack",
    "",
    LOW,
    "Where this client runs: a broker with a replica in the same rack may be read instead of the leader.",
)

METADATA_MAX_AGE_MS = int64(
    "metadata.max.age.ms",
    5 * MINUTE_MS,
    LOW,
    "Metadata older than this is asked for again, even if nothing seems to have changed.",
    at_least=0,
)

METADATA_MAX_IDLE_MS = int64(
    "metadata.max.idle.ms",
    5 * MINUTE_MS,
    LOW,
    "A topic that nothing was sent to for so long is no longer asked about.",
    at_least=5000,
)

METADATA_RECOVERY_STRATEGY = Setting(
    "metadata.recovery.strategy",
    ConfigType.STRING,
    "none",
    LOW,
    "What to do when none of the known brokers can be reached: go on trying them (none), or begin again with "
    "bootstrap.servers (rebootstrap).",
    str.lower,
    check=_recovery,
    allowed="one of none, rebootstrap",
)

ALLOW_AUTO_CREATE_TOPICS = boolean(
    "allow.auto.create.topics",
    True,
    MEDIUM,
    "Whether asking about a topic may create it, if the broker allows that too.",
)

SEND_BUFFER_BYTES = int32(
    "send.buffer.bytes",
    -1,
    MEDIUM,
    "Size of a socket's send buffer. -1 leaves it to the system, whose buffers grow with traffic; Kafka's "
    "default, 131072, is less than a large request.",
    at_least=-1,
)

RECEIVE_BUFFER_BYTES = int32(
    "receive.buffer.bytes",
    64 * KIB,
    MEDIUM,
    "Least size of a socket's receive buffer, which the system may make larger; -1 leaves it to the system.",
    at_least=-1,
)

RECONNECT_BACKOFF_MS = int64(
    "reconnect.backoff.ms",
    50,
    LOW,
    "First wait before a broker that could not be reached is tried again.",
    at_least=0,
)

RECONNECT_BACKOFF_MAX_MS = int64(
    "reconnect.backoff.max.ms",
    1000,
    LOW,
    "Longest such wait: it doubles with each failure, and varies by a fifth. Is reconnect.backoff.ms if only "
    "that is given.",
    at_least=0,
)

RETRY_BACKOFF_MS = int64(
    "retry.backoff.ms",
    100,
    LOW,
    "First wait before a request that failed is sent again.",
    at_least=0,
)

RETRY_BACKOFF_MAX_MS = int64(
    "retry.backoff.max.ms",
    1000,
    LOW,
    "Longest such wait: it doubles with each failure, and varies by a fifth.",
    at_least=0,
)

REQUEST_TIMEOUT_MS = int32(
    "request.timeout.ms",
    30_000,
    MEDIUM,
    "How long an answer is waited for. An overdue one ends its connection.",
    at_least=0,
)

DEFAULT_API_TIMEOUT_MS = int32(
    "default.api.timeout.ms",
    60_000,
    MEDIUM,
    "How long a call may take, retries included, if it is not given a time of its own.",
    at_least=0,
)

CONNECTIONS_MAX_IDLE_MS = int64(
    "connections.max.idle.ms",
    9 * MINUTE_MS,
    MEDIUM,
    "A connection unused for so long is closed; a negative number keeps it.",
)

SOCKET_CONNECTION_SETUP_TIMEOUT_MS = int64(
    "socket.connection.setup.timeout.ms",
    10_000,
    MEDIUM,
    "How long the first attempt to connect may take.",
)

SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS = int64(
    "socket.connection.setup.timeout.max.ms",
    30_000,
    MEDIUM,
    "How long later attempts may take: the time doubles with each failure up to this, and varies by a fifth.",
)

MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION = int32(
    "max.in.flight.requests.per.connection",
    5,
    LOW,
    "Requests sent to a broker and not yet answered. More than one may change the order of records when a "
    "request is retried, unless the producer is idempotent; then at most 5 are allowed.",
    at_least=1,
)

SECURITY_PROTOCOL = Setting(
    "security.protocol",
    ConfigType.STRING,
    "PLAINTEXT",
    MEDIUM,
    "How brokers are spoken to. Only PLAINTEXT is available yet.",
    str.upper,
    check=_security_protocol,
    allowed="PLAINTEXT",
)
CONNECTION_SETTINGS = declared(globals())
