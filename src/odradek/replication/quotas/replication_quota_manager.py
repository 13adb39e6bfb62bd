"""Quota of one role in replication: bytes per second, and the replicas it applies to.

The leader's quota limits what it sends to followers, the follower's what it fetches. Bytes of all throttled
replicas count, also of those in sync; but only replicas that are not in sync have to wait, so that a throttle
does not shrink the ISR.
"""

from __future__ import annotations

from typing import Final

from odradek.model.ids import TopicPartition
from odradek.ports.clock import Clock
from odradek.replication.quotas.simple_rate import SimpleRate

UNBOUNDED: Final = 2**63 - 1


class ReplicationQuotaManager:
    """``is_active`` says whether any replica is throttled: without one nothing else need be asked."""

    __slots__ = ("_clock", "_rate", "_throttled", "bytes_per_second_max", "is_active")

    def __init__(self, clock: Clock, sample_count: int, window_ms: int) -> None:
        self._clock = clock
        self._rate = SimpleRate(sample_count, window_ms)
        self._throttled: dict[str, frozenset[int] | None] = {}
        self.bytes_per_second_max = UNBOUNDED
        self.is_active = False

    def mark_throttled(self, topic: str, partitions: frozenset[int] | None) -> None:
        """Throttle these partitions of a topic, and no others of it; None for all."""
        if partitions is None or partitions:
            self._throttled[topic] = partitions
        else:
            self._throttled.pop(topic, None)
        self.is_active = bool(self._throttled)

    def replace_throttled(self, throttled: dict[str, frozenset[int] | None]) -> None:
        """Throttle these partitions, and no others."""
        self._throttled = {}
        self.is_active = False
        for topic, partitions in throttled.items():
            self.mark_throttled(topic, partitions)

    def is_throttled(self, topic_partition: TopicPartition) -> bool:
        topic, number = topic_partition
        partitions = self._throttled.get(topic, _NONE)
        return partitions is None or number in partitions

    @property
    def is_exceeded(self) -> bool:
        return self._rate.per_second(self._clock.monotonic_ms()) > self.bytes_per_second_max

    def record(self, size_bytes: int) -> None:
        """Count bytes of throttled replicas, whether the quota is exceeded or not."""
        self._rate.record(size_bytes, self._clock.monotonic_ms())


_NONE: Final[frozenset[int]] = frozenset()
