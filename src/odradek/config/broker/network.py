"""Settings of listeners and connections."""

from __future__ import annotations

from odradek.config import endpoints
from odradek.config.types import (
    CLUSTER_WIDE,
    HIGH,
    INT_MAX,
    KIB,
    LOW,
    MEDIUM,
    MIB,
    MINUTE_MS,
    PER_BROKER,
    choice,
    declared,
    int32,
    int64,
    string,
)

LISTENERS = string(
    "listeners",
    "PLAINTEXT://:9092",
    HIGH,
    "Listeners of the broker: a list of NAME://host:port. An empty host means all interfaces.",
    dynamic=PER_BROKER,
    check=endpoints.check_list,
    allowed="NAME://host:port, …",
)

ADVERTISED_LISTENERS = string(
    "advertised.listeners",
    None,
    HIGH,
    "Addresses that clients connect to, by listener name; the listeners themselves if not set.",
    dynamic=PER_BROKER,
    check=endpoints.check_list,
    allowed="NAME://host:port, …",
)

LISTENER_SECURITY_PROTOCOL_MAP = string(
    "listener.security.protocol.map",
    "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
    LOW,
    "Security protocol of each listener name.",
    dynamic=PER_BROKER,
    check=endpoints.check_protocols,
    allowed="NAME:PROTOCOL, …",
)

CONTROL_PLANE_LISTENER_NAME = string(
    "control.plane.listener.name",
    None,
    HIGH,
    "Listener for requests of the controller; the inter-broker listener if not set.",
)

INTER_BROKER_LISTENER_NAME = string(
    "inter.broker.listener.name",
    None,
    MEDIUM,
    "Listener for requests of other brokers; the one named like security.inter.broker.protocol if not set.",
)

SECURITY_INTER_BROKER_PROTOCOL = choice(
    "security.inter.broker.protocol",
    "PLAINTEXT",
    MEDIUM,
    "Security protocol between brokers if inter.broker.listener.name is not set.",
    among=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
)

SOCKET_SEND_BUFFER_BYTES = int32(
    "socket.send.buffer.bytes",
    100 * KIB,
    HIGH,
    "Send buffer (SO_SNDBUF) of each connection; -1 uses the system's default.",
)

SOCKET_RECEIVE_BUFFER_BYTES = int32(
    "socket.receive.buffer.bytes",
    100 * KIB,
    HIGH,
    "Receive buffer (SO_RCVBUF) of each connection; -1 uses the system's default.",
)

SOCKET_REQUEST_MAX_BYTES = int32(
    "socket.request.max.bytes",
    100 * MIB,
    HIGH,
    "Maximum size of a request. A larger one closes the connection.",
    at_least=1,
)

SOCKET_LISTEN_BACKLOG_SIZE = int32(
    "socket.listen.backlog.size",
    50,
    MEDIUM,
    "Maximum number of connections waiting to be accepted; at least 1024 is used.",
    at_least=1,
)

SOCKET_CONNECTION_SETUP_TIMEOUT_MS = int64(
    "socket.connection.setup.timeout.ms",
    10_000,
    MEDIUM,
    "Timeout of the first connection attempt to another broker; doubled on each failure.",
    inert=True,
)

SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS = int64(
    "socket.connection.setup.timeout.max.ms", 30_000, MEDIUM, "Maximum connection setup timeout.", inert=True
)

MAX_CONNECTIONS = int32(
    "max.connections",
    INT_MAX,
    MEDIUM,
    "Maximum number of connections of the broker, or of a listener with its prefix.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

MAX_CONNECTIONS_PER_IP = int32(
    "max.connections.per.ip",
    INT_MAX,
    MEDIUM,
    "Maximum number of connections from one address.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

MAX_CONNECTIONS_PER_IP_OVERRIDES = string(
    "max.connections.per.ip.overrides",
    "",
    MEDIUM,
    "Limits for individual addresses or host names, as a list of address:limit.",
    dynamic=CLUSTER_WIDE,
    check=endpoints.check_limits,
    allowed="address:limit, …",
)

MAX_CONNECTION_CREATION_RATE = int32(
    "max.connection.creation.rate",
    INT_MAX,
    MEDIUM,
    "Maximum number of new connections per second, of the broker or of a listener with its prefix.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

CONNECTIONS_MAX_IDLE_MS = int64(
    "connections.max.idle.ms",
    10 * MINUTE_MS,
    MEDIUM,
    "Idle time after which a connection is closed; a negative value disables this.",
)

CONNECTION_FAILED_AUTHENTICATION_DELAY_MS = int32(
    "connection.failed.authentication.delay.ms",
    100,
    LOW,
    "Delay before a connection is closed after a failed authentication.",
    at_least=0,
)

QUEUED_MAX_REQUESTS = int32(
    "queued.max.requests",
    500,
    HIGH,
    "Maximum number of requests that wait for a handler before the broker stops reading.",
    at_least=1,
)

QUEUED_MAX_REQUEST_BYTES = int64(
    "queued.max.request.bytes",
    -1,
    MEDIUM,
    "Maximum bytes of requests that are partly received or not answered yet, before the broker "
    "stops reading from the largest connections. A value below 1 means 512 MiB; the largest request "
    "always fits.",
)

NUM_NETWORK_THREADS = int32(
    "num.network.threads",
    3,
    HIGH,
    "Threads that read and write sockets. Odradek uses one event loop, so the number has no effect.",
    at_least=1,
    dynamic=CLUSTER_WIDE,
    inert=True,
)

NETWORK_SETTINGS = declared(globals())
