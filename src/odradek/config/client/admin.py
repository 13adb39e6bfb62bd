"""Options of admin clients."""

from __future__ import annotations

from odradek.config.client import connection
from odradek.config.client.definition import ClientConfigDef
from odradek.config.types import HIGH, INT_MAX, LOW, MINUTE_MS, declared, int32, words

RETRIES = int32(
    "retries",
    INT_MAX,
    LOW,
    "How often a request that failed is sent again; default.api.timeout.ms bounds the whole.",
    at_least=0,
    at_most=INT_MAX,
)

BOOTSTRAP_CONTROLLERS = words(
    "bootstrap.controllers",
    (),
    HIGH,
    "KRaft controllers to ask in place of brokers. Not available: brokers are always asked.",
    check=lambda value: "KRaft controllers cannot be asked: give bootstrap.servers" if value else None,
    allowed="nothing",
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
    # One request at a time, as in Kafka's: the time of a request begins when it is sent, not while it waits
    # behind a slow one.
    fixed={
        connection.ALLOW_AUTO_CREATE_TOPICS: False,
        connection.CONNECTIONS_MAX_IDLE_MS: 5 * MINUTE_MS,
        connection.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION: 1,
    },
)
