"""Options of sessions with ZooKeeper, from the broker's ``zookeeper.*`` settings."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from odradek.config import broker
from odradek.config.definition import Settings
from odradek.config.derived import zookeeper_connection_timeout_ms
from odradek.model.errors import ConfigError
from odradek.model.secret import Secret
from odradek.store.zookeeper.connect_string import ConnectString, parse_connect_string
from odradek.store.zookeeper.tls import create_tls_context


@dataclass(frozen=True, slots=True)
class ZooKeeperOptions:
    """``credentials`` are ``user:password`` of ZooKeeper's digest scheme."""

    connect: ConnectString
    session_timeout_ms: int
    connection_timeout_ms: int
    in_flight_max: int
    sets_acl: bool = False
    credentials: Secret | None = None
    tls: ssl.SSLContext | None = None


def read_options(settings: Settings) -> ZooKeeperOptions:
    """Return the options; raises ``ConfigError`` with one line for each invalid or unsupported setting."""
    problems: list[str] = []
    connect = ConnectString((), "")
    try:
        connect = parse_connect_string(settings[broker.ZOOKEEPER_CONNECT] or "")
    except ValueError as error:
        problems.append(f"{broker.ZOOKEEPER_CONNECT.name}: {error}")
    tls = None
    try:
        if settings[broker.ZOOKEEPER_SSL_CLIENT_ENABLE]:
            tls = create_tls_context(settings)
    except ConfigError as error:
        problems += error.problems
    problems += _credentials_problems(settings) + _timeout_problems(settings)
    if problems:
        raise ConfigError(problems)
    return ZooKeeperOptions(
        connect,
        settings[broker.ZOOKEEPER_SESSION_TIMEOUT_MS],
        zookeeper_connection_timeout_ms(settings),
        settings[broker.ZOOKEEPER_MAX_IN_FLIGHT_REQUESTS],
        settings[broker.ZOOKEEPER_SET_ACL],
        settings[broker.ODRADEK_ZOOKEEPER_DIGEST_CREDENTIALS],
        tls,
    )


def _credentials_problems(settings: Settings) -> list[str]:
    credentials = settings[broker.ODRADEK_ZOOKEEPER_DIGEST_CREDENTIALS]
    name = broker.ODRADEK_ZOOKEEPER_DIGEST_CREDENTIALS.name
    if credentials is not None:
        user, colon, _ = credentials.reveal().partition(":")
        return [] if user and colon else [f"{name}: must be user:password"]
    has_certificate = (
        settings[broker.ZOOKEEPER_SSL_CLIENT_ENABLE]
        and settings[broker.ZOOKEEPER_SSL_KEYSTORE_LOCATION] is not None
    )
    if settings[broker.ZOOKEEPER_SET_ACL] and not has_certificate:
        return [
            f"{broker.ZOOKEEPER_SET_ACL.name}: requires an authenticated session. Set {name}, or "
            f"{broker.ZOOKEEPER_SSL_CLIENT_ENABLE.name} and {broker.ZOOKEEPER_SSL_KEYSTORE_LOCATION.name}"
        ]
    return []


def _timeout_problems(settings: Settings) -> list[str]:
    timeouts = {
        broker.ZOOKEEPER_SESSION_TIMEOUT_MS.name: settings[broker.ZOOKEEPER_SESSION_TIMEOUT_MS],
        broker.ZOOKEEPER_CONNECTION_TIMEOUT_MS.name: zookeeper_connection_timeout_ms(settings),
    }
    return [f"{name}: must be at least 1, got {value}" for name, value in timeouts.items() if value < 1]
