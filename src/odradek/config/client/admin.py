"""Options of admin clients."""

from __future__ import annotations

from odradek.config.client import connection
from odradek.config.client.definition import ClientConfigDef
from odradek.config.types import HIGH, INT_MAX, LOW, MINUTE_MS, declared, int32, string_list

RETRIES = int32(
    "retries",
    INT_MAX,
    LOW,
    "Maximum number of retries of a request; default.api.timeout.ms bounds them.",
    at_least=0,
    at_most=INT_MAX,
)

BOOTSTRAP_CONTROLLERS = string_list(
    "bootstrap.controllers",
    (),
    HIGH,
    "KRaft controllers for the initial connection. Not available: use bootstrap.servers.",
    check=lambda value: "must not be set; use bootstrap.servers" if value else None,
    allowed="empty",
)

ADMIN_SETTINGS = declared(globals())

ADMIN = ClientConfigDef(
    "admin",
    ADMIN_SETTINGS,
    without=(
        connection.CLIENT_RACK,
        connection.METADATA_MAX_IDLE_MS,
        connection.ALLOW_AUTO_CREATE_TOPICS,
        connection.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION,
    ),
    # One request at a time, as in Kafka: the timeout of a request starts when it is sent, not while it waits
    # behind a slow one.
    fixed={
        connection.ALLOW_AUTO_CREATE_TOPICS: False,
        connection.CONNECTIONS_MAX_IDLE_MS: 5 * MINUTE_MS,
        connection.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION: 1,
    },
)
