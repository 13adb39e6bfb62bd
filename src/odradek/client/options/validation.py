"""Rules about combinations of a client's options: rejected ones, and values derived from others.

The rules are Kafka 3.9's. Like Kafka, they adjust a default and reject an explicit value:
``enable.idempotence`` is disabled by ``acks=1`` if it was not set explicitly.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple

from odradek.config.client import connection, consumer, producer
from odradek.config.definition import AnySetting, Settings
from odradek.config.types import INT_MAX

_IDEMPOTENT_IN_FLIGHT_MAX: Final = 5


class ParsedOptions(NamedTuple):
    """A client's settings, and those that were set explicitly."""

    settings: Settings
    explicit: Collection[AnySetting]


class Validation(NamedTuple):
    """Result of the rules: problems, adjusted values, and warnings about adjustments."""

    problems: list[str]
    changes: dict[AnySetting, Any]
    warnings: list[str]


def producer_rules(options: ParsedOptions) -> Validation:
    validation = _connection_rules(options)
    _check_idempotence(options, validation)
    _check_delivery_timeout(options, validation)
    return validation


def consumer_rules(options: ParsedOptions) -> Validation:
    settings, explicit = options
    validation = _connection_rules(options)
    if settings[consumer.GROUP_ID] is None:
        if consumer.ENABLE_AUTO_COMMIT not in explicit:
            validation.changes[consumer.ENABLE_AUTO_COMMIT] = False
        elif settings[consumer.ENABLE_AUTO_COMMIT]:
            validation.problems.append("enable.auto.commit=true requires group.id")
    elif settings[consumer.HEARTBEAT_INTERVAL_MS] >= settings[consumer.SESSION_TIMEOUT_MS]:
        validation.problems.append(
            f"heartbeat.interval.ms must be < session.timeout.ms ({settings[consumer.SESSION_TIMEOUT_MS]}),"
            f" got {settings[consumer.HEARTBEAT_INTERVAL_MS]}"
        )
    return validation


def admin_rules(options: ParsedOptions) -> Validation:
    settings, explicit = options
    validation = _connection_rules(options)
    request_ms = settings[connection.REQUEST_TIMEOUT_MS]
    if settings[connection.DEFAULT_API_TIMEOUT_MS] < request_ms:
        if connection.DEFAULT_API_TIMEOUT_MS in explicit:
            validation.problems.append(
                f"default.api.timeout.ms must be >= request.timeout.ms ({request_ms}),"
                f" got {settings[connection.DEFAULT_API_TIMEOUT_MS]}"
            )
        else:
            validation.changes[connection.DEFAULT_API_TIMEOUT_MS] = request_ms
            validation.warnings.append(f"default.api.timeout.ms raised to request.timeout.ms, {request_ms}")
    return validation


RULES: Final[dict[str, Callable[[ParsedOptions], Validation]]] = {
    "producer": producer_rules,
    "consumer": consumer_rules,
    "admin": admin_rules,
}


def _connection_rules(options: ParsedOptions) -> Validation:
    settings, explicit = options
    changes: dict[AnySetting, Any] = {}
    if connection.RECONNECT_BACKOFF_MS in explicit and connection.RECONNECT_BACKOFF_MAX_MS not in explicit:
        changes[connection.RECONNECT_BACKOFF_MAX_MS] = settings[connection.RECONNECT_BACKOFF_MS]
    warnings = [
        f"{initial.name} is larger than {maximum.name}; using {settings[maximum]} ms"
        for initial, maximum in (
            (connection.RETRY_BACKOFF_MS, connection.RETRY_BACKOFF_MAX_MS),
            (
                connection.SOCKET_CONNECTION_SETUP_TIMEOUT_MS,
                connection.SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS,
            ),
        )
        if settings[initial] > settings[maximum]
    ]
    return Validation([], changes, warnings)


def _check_idempotence(options: ParsedOptions, validation: Validation) -> None:
    settings, explicit = options
    idempotent = settings[producer.ENABLE_IDEMPOTENCE]
    unmet = _unmet_requirements(settings) if idempotent else []
    if unmet and producer.ENABLE_IDEMPOTENCE in explicit:
        validation.problems.extend(f"enable.idempotence requires {requirement}" for requirement in unmet)
    elif unmet:
        idempotent = False
        validation.changes[producer.ENABLE_IDEMPOTENCE] = False
        validation.warnings.append(f"enable.idempotence disabled; it requires {' and '.join(unmet)}")
    if not idempotent and producer.TRANSACTIONAL_ID in explicit:
        reason = f", which requires {' and '.join(unmet)}" if unmet else ""
        validation.problems.append(f"transactional.id requires enable.idempotence{reason}")


def _unmet_requirements(settings: Settings) -> list[str]:
    unmet = []
    if settings[producer.RETRIES] == 0:
        unmet.append("retries > 0, got 0")
    if settings[producer.ACKS] != "all":
        unmet.append(f"acks=all, got {settings[producer.ACKS]}")
    in_flight = settings[connection.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION]
    if in_flight > _IDEMPOTENT_IN_FLIGHT_MAX:
        unmet.append(f"max.in.flight.requests.per.connection <= {_IDEMPOTENT_IN_FLIGHT_MAX}, got {in_flight}")
    return unmet


def _check_delivery_timeout(options: ParsedOptions, validation: Validation) -> None:
    settings, explicit = options
    linger_ms = min(settings[producer.LINGER_MS], INT_MAX)
    minimum_ms = min(linger_ms + settings[connection.REQUEST_TIMEOUT_MS], INT_MAX)
    timeout_ms = settings[producer.DELIVERY_TIMEOUT_MS]
    if timeout_ms >= minimum_ms:
        return
    if producer.DELIVERY_TIMEOUT_MS in explicit:
        validation.problems.append(
            f"delivery.timeout.ms must be >= linger.ms + request.timeout.ms ({minimum_ms}), got {timeout_ms}"
        )
    else:
        validation.changes[producer.DELIVERY_TIMEOUT_MS] = minimum_ms
        validation.warnings.append(
            f"delivery.timeout.ms raised to linger.ms + request.timeout.ms, {minimum_ms}"
        )
