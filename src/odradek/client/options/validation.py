"""What options of one client mean for each other: combinations refused, and values that follow from others.

The rules are Kafka 3.9's. Where it corrects a value nobody asked for, and refuses one that somebody did,
these do so too: ``enable.idempotence`` is switched off by ``acks=1`` if it was merely on by default.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple

from odradek.config.client import connection, consumer, producer
from odradek.config.definition import Setting, Settings
from odradek.config.types import INT_MAX

_IDEMPOTENT_IN_FLIGHT_MAX: Final = 5


class Given(NamedTuple):
    """A client's settings, and which of them were given rather than left as they are."""

    settings: Settings
    chosen: Collection[Setting[Any]]


class Outcome(NamedTuple):
    """What the rules find: reasons to refuse, values to change, and lines about changes that may surprise."""

    problems: list[str]
    changes: dict[Setting[Any], Any]
    notes: list[str]


def producer_rules(given: Given) -> Outcome:
    outcome = _connection_rules(given)
    _idempotence(given, outcome)
    _delivery_timeout(given, outcome)
    return outcome


def consumer_rules(given: Given) -> Outcome:
    settings, chosen = given
    outcome = _connection_rules(given)
    if settings[consumer.GROUP_ID] is None:
        if consumer.ENABLE_AUTO_COMMIT not in chosen:
            outcome.changes[consumer.ENABLE_AUTO_COMMIT] = False
        elif settings[consumer.ENABLE_AUTO_COMMIT]:
            outcome.problems.append("enable.auto.commit cannot be true without a group.id")
    elif settings[consumer.HEARTBEAT_INTERVAL_MS] >= settings[consumer.SESSION_TIMEOUT_MS]:
        outcome.problems.append("heartbeat.interval.ms must be lower than session.timeout.ms")
    return outcome


def admin_rules(given: Given) -> Outcome:
    settings, chosen = given
    outcome = _connection_rules(given)
    request_ms = settings[connection.REQUEST_TIMEOUT_MS]
    if settings[connection.DEFAULT_API_TIMEOUT_MS] < request_ms:
        if connection.DEFAULT_API_TIMEOUT_MS in chosen:
            outcome.problems.append("default.api.timeout.ms must be no smaller than request.timeout.ms")
        else:
            outcome.changes[connection.DEFAULT_API_TIMEOUT_MS] = request_ms
            outcome.notes.append(f"default.api.timeout.ms is {request_ms}, as request.timeout.ms")
    return outcome


RULES: Final[dict[str, Callable[[Given], Outcome]]] = {
    "producer": producer_rules,
    "consumer": consumer_rules,
    "admin": admin_rules,
}


def _connection_rules(given: Given) -> Outcome:
    settings, chosen = given
    changes: dict[Setting[Any], Any] = {}
    if connection.RECONNECT_BACKOFF_MS in chosen and connection.RECONNECT_BACKOFF_MAX_MS not in chosen:
        changes[connection.RECONNECT_BACKOFF_MAX_MS] = settings[connection.RECONNECT_BACKOFF_MS]
    notes = [
        f"{first.name} is larger than {most.name}: the wait is {settings[most]} ms every time"
        for first, most in (
            (connection.RETRY_BACKOFF_MS, connection.RETRY_BACKOFF_MAX_MS),
            (
                connection.SOCKET_CONNECTION_SETUP_TIMEOUT_MS,
                connection.SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS,
            ),
        )
        if settings[first] > settings[most]
    ]
    return Outcome([], changes, notes)


def _idempotence(given: Given, outcome: Outcome) -> None:
    settings, chosen = given
    idempotent = settings[producer.ENABLE_IDEMPOTENCE]
    hindrances = _hindrances(settings) if idempotent else []
    if hindrances and producer.ENABLE_IDEMPOTENCE in chosen:
        outcome.problems.extend(f"enable.idempotence needs {needed}" for needed in hindrances)
    elif hindrances:
        idempotent = False
        outcome.changes[producer.ENABLE_IDEMPOTENCE] = False
        outcome.notes.append(f"enable.idempotence is off, as it needs {' and '.join(hindrances)}")
    if not idempotent and producer.TRANSACTIONAL_ID in chosen:
        reason = f", which needs {' and '.join(hindrances)}" if hindrances else ""
        outcome.problems.append(f"transactional.id needs enable.idempotence{reason}")


def _hindrances(settings: Settings) -> list[str]:
    found = []
    if settings[producer.RETRIES] == 0:
        found.append("retries other than 0")
    if settings[producer.ACKS] != "all":
        found.append("acks=all")
    if settings[connection.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION] > _IDEMPOTENT_IN_FLIGHT_MAX:
        found.append(f"max.in.flight.requests.per.connection of at most {_IDEMPOTENT_IN_FLIGHT_MAX}")
    return found


def _delivery_timeout(given: Given, outcome: Outcome) -> None:
    settings, chosen = given
    linger_ms = min(settings[producer.LINGER_MS], INT_MAX)
    least_ms = min(linger_ms + settings[connection.REQUEST_TIMEOUT_MS], INT_MAX)
    if settings[producer.DELIVERY_TIMEOUT_MS] >= least_ms:
        return
    if producer.DELIVERY_TIMEOUT_MS in chosen:
        outcome.problems.append(
            f"delivery.timeout.ms must be at least linger.ms and request.timeout.ms together, {least_ms}"
        )
    else:
        outcome.changes[producer.DELIVERY_TIMEOUT_MS] = least_ms
        outcome.notes.append(f"delivery.timeout.ms is {least_ms}, to hold linger.ms and request.timeout.ms")
