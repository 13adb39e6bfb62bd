"""Options of all clients: bootstrap servers, connections, metadata and retries.

``Cluster`` reads these from the settings of any client. Options that a client does not have get a fixed value
(see ``ClientConfigDef.fixed``), so that shared code need not distinguish clients.
"""

from __future__ import annotations

import re
from typing import Final

from odradek.config.definition import Setting, Settings
from odradek.config.endpoints import SecurityProtocol, split_list
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
    string,
)
from odradek.model.protocol_enums import ConfigType

# A listener name may precede the address, as in advertised.listeners.
_ADDRESS: Final = re.compile(r"(?:[0-9A-Za-z\-%._]*://)?\[?([0-9A-Za-z\-%._:]+)\]?:([0-9]{1,5})")
_PORT_MAX: Final = 65_535

PROTOCOLS: Final = tuple(protocol.value for protocol in SecurityProtocol)


def parse_address(text: str) -> tuple[str, int] | None:
    """Parse ``host:port``, ``[::1]:9092`` or ``PLAINTEXT://host:port``; return None if it is malformed."""
    match = _ADDRESS.fullmatch(text)
    if match is None or not 0 < int(match[2]) <= _PORT_MAX:
        return None
    return match[1], int(match[2])


def bootstrap_addresses(settings: Settings) -> tuple[tuple[str, int], ...]:
    """Return the distinct addresses of ``bootstrap.servers``, in order."""
    addresses = (parse_address(server) for server in settings[BOOTSTRAP_SERVERS])
    return tuple(dict.fromkeys(address for address in addresses if address is not None))


def _addresses(servers: tuple[str, ...]) -> str | None:
    malformed = [server for server in servers if parse_address(server) is None]
    return f"must be a list of host:port; {malformed[0]!r} is not of this form" if malformed else None


def _security_protocol(value: str) -> str | None:
    return None if value in PROTOCOLS else f"must be one of {', '.join(PROTOCOLS)}"


def _recovery(value: str) -> str | None:
    strategies = ("none", "rebootstrap")
    if value in strategies:
        return None
    return f"must be one of {', '.join(strategies)}"


BOOTSTRAP_SERVERS: Setting[tuple[str, ...]] = Setting(
    "bootstrap.servers",
    ConfigType.LIST,
    (),
    HIGH,
    "Brokers for the initial connection, as host:port; the others are discovered. Use two or three, "
    "in case one is down. Alias: metadata.broker.list.",
    lambda text: tuple(split_list(text)),
    check=_addresses,
    allowed="host:port, …",
)

CLIENT_ID = string(
    "client.id",
    "",
    MEDIUM,
    "Name of this client in the broker's logs, metrics and quotas. Generated if not set: "
    "producer-1, consumer-{group}-1, adminclient-1.",
)

CLIENT_DNS_LOOKUP = choice(
    "client.dns.lookup",
    "use_all_dns_ips",
    MEDIUM,
    "Whether bootstrap host names are replaced by canonical names. All addresses of a host name are "
    "tried in any case.",
    among=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    inert=True,
)

CLIENT_RACK = string(
    "client.rack",
    "",
    LOW,
    "Rack of this client. It may fetch from a replica in the same rack instead of the leader.",
)

METADATA_MAX_AGE_MS = int64(
    "metadata.max.age.ms",
    5 * MINUTE_MS,
    LOW,
    "Age after which metadata is refreshed, even without a known change.",
    at_least=0,
)

METADATA_MAX_IDLE_MS = int64(
    "metadata.max.idle.ms",
    5 * MINUTE_MS,
    LOW,
    "Time after which the metadata of an unused topic is no longer refreshed.",
    at_least=5000,
)

METADATA_RECOVERY_STRATEGY = Setting(
    "metadata.recovery.strategy",
    ConfigType.STRING,
    "none",
    LOW,
    "Behavior if none of the known brokers is reachable: keep trying them (none), or start again "
    "with bootstrap.servers (rebootstrap).",
    str.lower,
    check=_recovery,
    allowed="one of none, rebootstrap",
)

ALLOW_AUTO_CREATE_TOPICS = boolean(
    "allow.auto.create.topics",
    True,
    MEDIUM,
    "Whether a metadata request may create a topic, if the broker allows it too.",
)

SEND_BUFFER_BYTES = int32(
    "send.buffer.bytes",
    -1,
    MEDIUM,
    "Send buffer (SO_SNDBUF). -1 uses the system's default, which grows with traffic; Kafka's "
    "default, 131072, is smaller than a large request.",
    at_least=-1,
)

RECEIVE_BUFFER_BYTES = int32(
    "receive.buffer.bytes",
    64 * KIB,
    MEDIUM,
    "Minimum receive buffer (SO_RCVBUF), which the system may enlarge; -1 uses the system's default.",
    at_least=-1,
)

RECONNECT_BACKOFF_MS = int64(
    "reconnect.backoff.ms",
    50,
    LOW,
    "Initial backoff before an unreachable broker is tried again.",
    at_least=0,
)

RECONNECT_BACKOFF_MAX_MS = int64(
    "reconnect.backoff.max.ms",
    1000,
    LOW,
    "Maximum reconnect backoff. It doubles with each failure, with 20% jitter. Equals "
    "reconnect.backoff.ms if only that is set.",
    at_least=0,
)

RETRY_BACKOFF_MS = int64(
    "retry.backoff.ms",
    100,
    LOW,
    "Initial backoff before a failed request is retried.",
    at_least=0,
)

RETRY_BACKOFF_MAX_MS = int64(
    "retry.backoff.max.ms",
    1000,
    LOW,
    "Maximum retry backoff. It doubles with each failure, with 20% jitter.",
    at_least=0,
)

REQUEST_TIMEOUT_MS = int32(
    "request.timeout.ms",
    30_000,
    MEDIUM,
    "Maximum time to wait for a response. A timeout closes the connection.",
    at_least=0,
)

DEFAULT_API_TIMEOUT_MS = int32(
    "default.api.timeout.ms",
    60_000,
    MEDIUM,
    "Default timeout of a call, including retries.",
    at_least=0,
)

CONNECTIONS_MAX_IDLE_MS = int64(
    "connections.max.idle.ms",
    9 * MINUTE_MS,
    MEDIUM,
    "Idle time after which a connection is closed; a negative value disables this.",
)

SOCKET_CONNECTION_SETUP_TIMEOUT_MS = int64(
    "socket.connection.setup.timeout.ms",
    10_000,
    MEDIUM,
    "Timeout of the first connection attempt.",
)

SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS = int64(
    "socket.connection.setup.timeout.max.ms",
    30_000,
    MEDIUM,
    "Maximum timeout of later attempts. It doubles with each failure, with 20% jitter.",
)

MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION = int32(
    "max.in.flight.requests.per.connection",
    5,
    LOW,
    "Maximum number of unacknowledged requests per connection. More than one may reorder records on "
    "retries, unless the producer is idempotent, which allows at most 5.",
    at_least=1,
)

SECURITY_PROTOCOL = Setting(
    "security.protocol",
    ConfigType.STRING,
    "PLAINTEXT",
    MEDIUM,
    "Whether connections are encrypted (SSL, SASL_SSL) and authenticated (SASL_PLAINTEXT, SASL_SSL).",
    str.upper,
    check=_security_protocol,
    allowed=", ".join(PROTOCOLS),
)
CONNECTION_SETTINGS = declared(globals())
