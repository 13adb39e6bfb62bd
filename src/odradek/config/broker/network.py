"""Listeners, connections and their bounds."""

from __future__ import annotations

from odradek.config import endpoints
from odradek.config.broker.unavailable_reasons import NO_RATE
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
    text,
)

LISTENERS = text(
    "listeners",
    "PLAINTEXT://:9092",
    HIGH,
    "Where the broker listens: a list of NAME://host:port. An empty host means all interfaces.",
    dynamic=PER_BROKER,
    check=endpoints.check_list,
    allowed="NAME://host:port, …",
)

ADVERTISED_LISTENERS = text(
    "advertised.listeners",
    None,
    HIGH,
    "The addresses told to clients, by listener name; the listeners themselves if not set.",
    dynamic=PER_BROKER,
    check=endpoints.check_list,
    allowed="NAME://host:port, …",
)

LISTENER_SECURITY_PROTOCOL_MAP = text(
    "listener.security.protocol.map",
    "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
    LOW,
    "Which security protocol each listener name uses.",
    dynamic=PER_BROKER,
    check=endpoints.check_protocols,
    allowed="NAME:PROTOCOL, …",
)

CONTROL_PLANE_LISTENER_NAME = text(
    "control.plane.listener.name",
    None,
    HIGH,
    "Listener on which only the controller speaks to this broker; not set, it uses the inter-broker "
    "listener.",
)

INTER_BROKER_LISTENER_NAME = text(
    "inter.broker.listener.name",
    None,
    MEDIUM,
    "Listener the brokers use among themselves; not set, the one named like security.inter.broker.protocol.",
)

SECURITY_INTER_BROKER_PROTOCOL = choice(
    "security.inter.broker.protocol",
    "PLAINTEXT",
    MEDIUM,
    "Security protocol between brokers, for when inter.broker.listener.name is not set.",
    among=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
)

SOCKET_SEND_BUFFER_BYTES = int32(
    "socket.send.buffer.bytes",
    100 * KIB,
    HIGH,
    "Send buffer asked of the system for each connection; -1 leaves the system's choice.",
)

SOCKET_RECEIVE_BUFFER_BYTES = int32(
    "socket.receive.buffer.bytes",
    100 * KIB,
    HIGH,
    "Receive buffer asked of the system for each connection; -1 leaves the system's choice.",
)

SOCKET_REQUEST_MAX_BYTES = int32(
    "socket.request.max.bytes",
    100 * MIB,
    HIGH,
    "Largest request the broker reads. A longer one closes its connection.",
    at_least=1,
)

SOCKET_LISTEN_BACKLOG_SIZE = int32(
    "socket.listen.backlog.size",
    50,
    MEDIUM,
    "Connections the system may hold before they are accepted; 1024 if it is less.",
    at_least=1,
)

SOCKET_CONNECTION_SETUP_TIMEOUT_MS = int64(
    "socket.connection.setup.timeout.ms",
    10_000,
    MEDIUM,
    "First wait for a connection to another broker; doubled on each failure.",
    inert=True,
)

SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS = int64(
    "socket.connection.setup.timeout.max.ms", 30_000, MEDIUM, "Upper bound of that wait.", inert=True
)

MAX_CONNECTIONS = int32(
    "max.connections",
    INT_MAX,
    MEDIUM,
    "Most open connections of the whole broker. Also as listener.name.{name}.max.connections.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

MAX_CONNECTIONS_PER_IP = int32(
    "max.connections.per.ip",
    INT_MAX,
    MEDIUM,
    "Most open connections from one address.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

MAX_CONNECTIONS_PER_IP_OVERRIDES = text(
    "max.connections.per.ip.overrides",
    "",
    MEDIUM,
    "Other limits for single addresses or host names, as a list of address:limit.",
    dynamic=CLUSTER_WIDE,
    check=endpoints.check_limits,
    allowed="address:limit, …",
)

MAX_CONNECTION_CREATION_RATE = int32(
    "max.connection.creation.rate",
    INT_MAX,
    MEDIUM,
    "New connections accepted per second, for the broker or with a listener prefix.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
    refused=NO_RATE,
)

CONNECTIONS_MAX_IDLE_MS = int64(
    "connections.max.idle.ms",
    10 * MINUTE_MS,
    MEDIUM,
    "A connection without traffic for this long is closed; a negative number keeps it.",
)

CONNECTION_FAILED_AUTHENTICATION_DELAY_MS = int32(
    "connection.failed.authentication.delay.ms",
    100,
    LOW,
    "Wait before a connection that failed to authenticate is closed, against guessing.",
    at_least=0,
    inert=True,
)

QUEUED_MAX_REQUESTS = int32(
    "queued.max.requests",
    500,
    HIGH,
    "Requests that may wait for a handler in the whole broker before reading pauses.",
    at_least=1,
)

QUEUED_MAX_REQUEST_BYTES = int64(
    "queued.max.request.bytes",
    -1,
    MEDIUM,
    "Bytes of requests that may be held, received in part or not answered yet, before connections that hold "
    "much are not read from. A number below 1 means 512 MiB; there is always room for the largest request.",
)

NUM_NETWORK_THREADS = int32(
    "num.network.threads",
    3,
    HIGH,
    "Threads that read and write sockets. Here one event loop serves all of them, so the number changes "
    "nothing.",
    at_least=1,
    dynamic=CLUSTER_WIDE,
    inert=True,
)

NETWORK_SETTINGS = declared(globals())
