"""Duration of the failover of a dead broker: until the last replica has its new leader.

It begins when the store reports that the broker's registration is gone. Elections are complete with the
response to the first LeaderAndIsr request to each broker, which has the new leaders; the failover with the
response to the last one, after the dead broker has been removed from all ISRs. A broker that dies meanwhile
begins it anew, because its requests get no response.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from odradek.controller.actions import SendLeaderAndIsr
from odradek.telemetry import events

log = events.logger("controller")


class BrokerFailureTimer:
    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        self._monotonic_ms = monotonic_ms
        self._began_ms = 0
        self._dead: list[int] = []
        self._led_count = 0
        self._is_deciding = False
        self._unanswered: set[tuple[int, int]] = set()
        self._elections: dict[int, SendLeaderAndIsr] = {}
        """First request to each broker."""
        self._election_ms: int | None = None
        """Until the last response to one of them so far."""

    def begin(self, dead: Collection[int], led_count: int, noticed_ms: int | None) -> None:
        """Begin with the brokers that died and the number of partitions that they led."""
        self._began_ms = self._monotonic_ms() if noticed_ms is None else noticed_ms
        self._dead, self._led_count = sorted(dead), led_count
        self._is_deciding = True
        self._unanswered.clear()
        self._elections.clear()
        self._election_ms = None

    def on_sent(self, request: SendLeaderAndIsr) -> None:
        if self._is_deciding:
            self._unanswered.add((request.broker_id, id(request)))
            self._elections.setdefault(request.broker_id, request)

    def on_decided(self) -> None:
        """All requests are queued."""
        self._is_deciding = False
        self._complete()

    def on_answered(self, request: SendLeaderAndIsr) -> None:
        self._unanswered.discard((request.broker_id, id(request)))
        if self._elections.get(request.broker_id) is request:
            self._election_ms = self._monotonic_ms() - self._began_ms
        self._complete()

    def _complete(self) -> None:
        if self._dead and not self._is_deciding and not self._unanswered:
            log.info(
                "broker_failure_handled",
                brokers=self._dead,
                partitions=self._led_count,
                election_ms=self._election_ms,
                milliseconds=self._monotonic_ms() - self._began_ms,
            )
            self._dead = []
