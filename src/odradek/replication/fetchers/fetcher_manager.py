"""The replica fetchers of a broker: one per source broker and partition hash.

``add_partitions`` and ``remove_partitions`` take effect at once: a response in flight is dropped for the
partitions concerned, because their ``Follower`` was replaced or removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from odradek.model.ids import ZERO_TOPIC_ID, TopicId, TopicPartition
from odradek.net.broker_requests import BrokerRequests
from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy
from odradek.replication.fetchers.fetched_partition import FetcherPorts
from odradek.replication.fetchers.fetcher import Fetcher
from odradek.replication.fetchers.fetcher_settings import FetcherSettings
from odradek.replication.follower import Follower
from odradek.replication.quotas.replication_quota_manager import ReplicationQuotaManager
from odradek.telemetry import events
from odradek.telemetry.rate_limited_events import RateLimitedEvents

log = events.logger("replica_fetcher")


class _FetcherKey(NamedTuple):
    source_id: int
    number: int


class ReplicaFetcherManager:
    """``on_appended`` is called when a log or its offsets change, ``on_failure`` when a replica fails."""

    def __init__(
        self,
        requests: BrokerRequests,
        settings: Callable[[], FetcherSettings],
        clock: Clock,
        entropy: Entropy,
        on_appended: Callable[[TopicPartition], None],
        on_failure: Callable[[TopicPartition, Exception], None],
        quota: ReplicationQuotaManager | None = None,
    ) -> None:
        self._requests = requests
        self._settings = settings
        limited_events = RateLimitedEvents(log, clock.monotonic_ms)
        self._ports = FetcherPorts(settings, clock, entropy, on_appended, on_failure, limited_events, quota)
        self._fetchers: dict[_FetcherKey, Fetcher] = {}
        self._assigned: dict[TopicPartition, tuple[_FetcherKey, TopicId]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._is_closed = False

    # Partitions.

    def add_partitions(
        self, partitions: Mapping[TopicPartition, Follower], topic_ids: Mapping[TopicPartition, TopicId]
    ) -> None:
        """Fetch these partitions from their leaders, in their current epochs.

        A partition that is already fetched with the same ``Follower`` goes on, with its new topic id.
        """
        if self._is_closed:
            return
        count = max(self._settings().fetcher_count, 1)
        for partition, follower in partitions.items():
            key = _FetcherKey(follower.leader_id, fetcher_number(partition, count))
            topic_id = topic_ids.get(partition, ZERO_TOPIC_ID)
            assigned = self._assigned.get(partition)
            if assigned is not None and assigned[0] != key:
                self.remove_partitions([partition])
            self._assigned[partition] = (key, topic_id)
            self._fetcher(key).add(follower, topic_id)

    def remove_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching these partitions."""
        for partition in partitions:
            assigned = self._assigned.pop(partition, None)
            fetcher = None if assigned is None else self._fetchers.get(assigned[0])
            if fetcher is not None:
                fetcher.remove(partition)

    def refresh(self, topic_partition: TopicPartition) -> None:
        """Send the log start offset of a partition to its leader: retention has moved it."""
        assigned = self._assigned.get(topic_partition)
        fetcher = None if assigned is None else self._fetchers.get(assigned[0])
        if fetcher is not None:
            fetcher.refresh(topic_partition)

    def resize(self) -> None:
        """Divide the partitions among the fetchers again, after ``num.replica.fetchers`` has changed.

        Failed ones stay where they are: to add them would start them again.
        """
        followers = {
            topic_partition: partition.follower
            for fetcher in self._fetchers.values()
            for topic_partition, partition in fetcher.partitions.items()
            if not partition.is_failed
        }
        self.add_partitions(followers, {partition: self._assigned[partition][1] for partition in followers})

    @property
    def failed_partitions(self) -> list[TopicPartition]:
        """Partitions that wait for the controller or have a failed log."""
        return [
            topic_partition
            for fetcher in self._fetchers.values()
            for topic_partition, partition in fetcher.partitions.items()
            if partition.is_failed
        ]

    @property
    def max_lag(self) -> int:
        """Largest lag of a partition behind its leader's high watermark, as of its last fetch."""
        return max(
            (
                partition.state.lag or 0
                for fetcher in self._fetchers.values()
                for partition in fetcher.partitions.values()
            ),
            default=0,
        )

    # Fetchers.

    def _fetcher(self, key: _FetcherKey) -> Fetcher:
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            name = f"broker-{self._settings().broker_id}-fetcher-{key.number}"
            channel = self._requests.open_channel(key.source_id, name)
            fetcher = Fetcher(key.source_id, channel, self._ports, lambda idle: self._close_idle(key, idle))
            self._fetchers[key] = fetcher
            fetcher.start()
        return fetcher

    def _close_idle(self, key: _FetcherKey, fetcher: Fetcher) -> None:
        if self._fetchers.get(key) is fetcher and not fetcher.partitions:
            del self._fetchers[key]
            task = asyncio.get_running_loop().create_task(fetcher.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Stop all fetchers, and start none any more.

        A LeaderAndIsr request of a controller on this broker may still be applied: a fetcher that it started
        would append to logs that are being closed.
        """
        self._is_closed = True
        fetchers = list(self._fetchers.values())
        self._fetchers.clear()
        self._assigned.clear()
        await asyncio.gather(*(fetcher.close() for fetcher in fetchers), *self._closing)


def fetcher_number(partition: TopicPartition, fetcher_count: int) -> int:
    """Return the fetcher of a partition among those of its leader, by the hash that Kafka uses."""
    topic_hash = 0
    for character in partition.topic:
        topic_hash = (31 * topic_hash + ord(character)) & 0xFFFFFFFF
    total = (31 * topic_hash + partition.partition) & 0xFFFFFFFF
    signed = total - (1 << 32) if total >> 31 else total
    # As in Kafka, the absolute value of the smallest integer is 0.
    return (0 if signed == -(1 << 31) else abs(signed)) % fetcher_count
