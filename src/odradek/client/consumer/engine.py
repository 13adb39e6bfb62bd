"""The consumer without its facade: shared by the asyncio and the blocking consumer.

Runs on one event loop. Only taking records, returning them, and ``wakeup`` happen on other threads: buffered
records are read in the application's thread, as ``fetch.buffer`` explains. The consumers guard against
concurrent calls (``call_guard``); the engine does not.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from odradek.client.consumer.assignors import Assignor
from odradek.client.consumer.fetch.buffer import AnyRecord, Deserialize, FetchBuffer
from odradek.client.consumer.fetch.fetcher import Fetcher
from odradek.client.consumer.fetch.metrics import PollMetrics
from odradek.client.consumer.fetch.plan import FetchConfig
from odradek.client.consumer.group.callbacks import OnCaller
from odradek.client.consumer.group.consumer_coordinator import ConsumerCoordinator
from odradek.client.consumer.iteration import IterationBuffer
from odradek.client.consumer.notifier import Notifier
from odradek.client.consumer.poller import Poller
from odradek.client.consumer.positions.offset_fetcher import OffsetFetcher
from odradek.client.consumer.positions.offset_requests import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.client.consumer.positions.partition_state import FetchPosition, OffsetReset
from odradek.client.consumer.positions.subscription_state import SubscriptionState, SubscriptionType
from odradek.client.consumer.rebalance_listener import AnyRebalanceListener
from odradek.client.consumer.topic_metadata import fetch_topic_metadata
from odradek.client.consumer.validation import (
    OffsetsToCommit,
    compile_pattern,
    plain_partition,
    timeout_ms_of,
    validate_offset,
    validate_offsets,
)
from odradek.client.environment import ClientEnvironment
from odradek.client.interceptors import ConsumerInterceptors
from odradek.client.names import Names, read_names
from odradek.client.network.network_client import NetworkClient
from odradek.client.values import GroupMetadata, OffsetAndMetadata, OffsetAndTimestamp, PartitionInfo
from odradek.config.client import connection, consumer
from odradek.config.definition import Settings
from odradek.model.client_errors import ClientClosed, InvalidState, TimedOut
from odradek.model.ids import TopicPartition
from odradek.records.client.consumer import ColumnBuilder

CLOSE_TIMEOUT_MS: Final = 30_000
BUFFERED_POLL_MS: Final = 50
"""Time after a full poll in which buffered records are returned without serving the group."""

RANGE_TOPICS_MAX: Final = 64
"""Topics whose metadata is kept while ranges of different topics are read in turn."""

CommitCallback = Callable[[Mapping[TopicPartition, OffsetAndMetadata], Any], Any]


class ConsumerEngine:
    """Starts nothing until ``start``. ``on_drained`` must have ``send_fetches`` called on the loop."""

    def __init__(
        self,
        environment: ClientEnvironment,
        settings: Settings,
        *,
        deserialize: Deserialize | None,
        interceptors: ConsumerInterceptors,
        assignors: Sequence[Assignor],
        on_caller: OnCaller,
        on_drained: Callable[[], None] | None = None,
    ) -> None:
        self.settings = settings
        self._clock = environment.clock
        self._entropy = environment.entropy
        self._interceptors = interceptors
        self._api_timeout_ms = settings[connection.DEFAULT_API_TIMEOUT_MS]
        self._retry_backoff_ms = settings[connection.RETRY_BACKOFF_MS]
        self._reads_committed = settings[consumer.ISOLATION_LEVEL] == "read_committed"
        self._is_closing = False
        self._is_closed = False
        self._buffered_until_ms = 0
        self._has_polled = False
        self._range_topics: dict[str, None] = {}
        self.records_max = settings[consumer.MAX_POLL_RECORDS]
        self.notifier = Notifier()
        self.subscription = SubscriptionState(OffsetReset(settings[consumer.AUTO_OFFSET_RESET]))
        self._network = NetworkClient(environment, settings, client_id=settings[connection.CLIENT_ID])
        self._buffer = FetchBuffer(self.subscription, on_drained or self.send_fetches, deserialize)
        self._iteration = IterationBuffer(
            self.subscription, self._buffer, interceptors, self.records_max, self.now_ms
        )
        self.return_unread = self._iteration.return_unread
        """Returns records that a loop took and did not consume: see ``iteration``."""
        self._fetcher = _build_fetcher(
            settings, self._network, environment, self.subscription, self._buffer, self.notifier
        )
        self._offsets = OffsetFetcher(
            self._network,
            environment.clock,
            environment.entropy,
            settings,
            self.subscription,
            self.notifier.notify,
        )
        self._poller = Poller(
            self._network,
            environment.clock,
            self.subscription,
            self._buffer,
            self._fetcher,
            self._offsets,
            self.notifier,
            on_caller=on_caller,
            retry_backoff_ms=self._retry_backoff_ms,
        )
        self._coordinator: ConsumerCoordinator | None = None
        if settings[consumer.GROUP_ID] is not None:
            self._coordinator = self._poller.coordinator = self._build_coordinator(assignors)
        self._network.add_listener(lambda _: self.notifier.notify())
        self._declare_metrics()

    def _build_coordinator(self, assignors: Sequence[Assignor]) -> ConsumerCoordinator:
        return ConsumerCoordinator(
            self._network,
            self.settings,
            self.subscription,
            self._clock,
            self._entropy,
            assignors,
            self._interceptors,
            self._poller.call_back,
            notify=self.notifier.notify,
        )

    def _declare_metrics(self) -> None:
        metrics, buffer = self._network.metrics, self._buffer
        self._metrics = PollMetrics(metrics, self._clock.monotonic_ms)
        metrics.gauge("records-consumed-total", "Records consumed.", lambda: buffer.records_read)
        metrics.gauge("bytes-consumed-total", "Bytes of record batches consumed.", lambda: buffer.bytes_read)
        metrics.gauge("records-lag-max", "Maximum lag in records of any partition.", self._lag_max)

    def _lag_max(self) -> float:
        lags = [state.lag(self._reads_committed) for state in self.subscription.assigned.values()]
        return max((lag for lag in lags if lag is not None), default=float("nan"))

    # Lifecycle.

    async def start(self) -> None:
        self.check_open()
        await self._network.start()

    def check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("the consumer has been closed")

    async def close(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Commit if auto commit is enabled, leave the group, and stop all tasks. Idempotent."""
        if self._is_closing:
            return
        self._is_closing = True
        try:
            if self._coordinator is not None:
                await self._network.start()
                with self._poller.inside_call():
                    await self._poller.close()
                    await self._coordinator.close(timeout_ms)
        finally:
            self._is_closed = True
            await self._poller.close()
            await self._offsets.close()
            await self._fetcher.close()
            await self._network.close()
            self._interceptors.close()

    def metrics(self) -> dict[str, float]:
        return self._network.metrics.read()

    # Subscription and assignment.

    def subscribe(
        self,
        topics: Names | None,
        pattern: str | re.Pattern[str] | None,
        listener: AnyRebalanceListener | None,
    ) -> None:
        self._require_group("subscribe")
        if (topics is None) is (pattern is None):
            got = "neither" if topics is None else "both"
            raise InvalidState(f"subscribe must be called with either topics or a pattern, got {got}")
        if pattern is not None:
            self.subscription.subscribe_pattern(compile_pattern(pattern), listener)
            self._network.track_all_topics(True)
            return
        names = read_names(topics or (), "topics")
        if not names or not all(isinstance(topic, str) and topic.strip() for topic in names):
            raise InvalidState(
                f"topics must be non-empty names, got {names!r}; use unsubscribe to clear them"
            )
        self.subscription.subscribe(names, listener)
        self._track_topics()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        if self.subscription.assign([plain_partition(partition) for partition in partitions]):
            self._track_topics()

    def read_range(self, partition: TopicPartition, start_offset: int, stop_offset: int) -> None:
        """Assign this partition alone, and read it from ``start_offset`` up to ``stop_offset``.

        If the position is at ``start_offset`` already, records buffered from there are used.
        """
        self.subscription.assign([partition])
        # Ranges of several topics read in turn need no metadata request for each.
        self._range_topics.pop(partition.topic, None)
        self._range_topics[partition.topic] = None
        if len(self._range_topics) > RANGE_TOPICS_MAX:
            del self._range_topics[next(iter(self._range_topics))]
        self._network.track_only_topics(self._range_topics)
        state = self.subscription.of(partition)
        state.stop_offset = stop_offset
        if not state.has_valid_position or state.position is None or state.position.offset != start_offset:
            self.seek(partition, start_offset)
        self._has_polled = False
        self._buffered_until_ms = 0

    async def unsubscribe(self) -> None:
        if self._coordinator is not None and self.subscription.is_auto_assigned:
            with self._poller.inside_call():
                reason = "the consumer unsubscribed from all topics"
                await self._coordinator.leave(self._api_timeout_ms, reason)
        self.subscription.unsubscribe()
        self._network.track_all_topics(False)
        self._track_topics()

    def _track_topics(self) -> None:
        self._network.track_only_topics(self.subscription.group_topics | self._range_topics.keys())

    def _require_group(self, method: str) -> ConsumerCoordinator:
        if self._coordinator is None:
            raise InvalidState(f"group.id must be set for {method}, got None")
        return self._coordinator

    # Records.

    def take(self, records_max: int | None) -> list[AnyRecord]:
        """Return buffered records, intercepted."""
        if not self._has_polled:
            return []
        records = self._buffer.take(self.records_max if records_max is None else records_max)
        return self._interceptors.on_consume(records) if records and self._interceptors else records

    def take_for_iteration(self) -> Iterator[AnyRecord] | None:
        """Return buffered records for iteration; None if there are none."""
        return self._iteration.take() if self._has_polled else None

    def check_max_records(self, records_max: int | None) -> None:
        if records_max is not None and records_max < 1:
            raise InvalidState(f"max_records must be >= 1, got {records_max}")

    def take_columns(self, rows_max: int, into: ColumnBuilder) -> int:
        return self._buffer.take_columns(rows_max, into) if self._has_polled else 0

    def begin_poll(self) -> bool:
        """Return True if buffered records may be taken without serving the group and positions first."""
        now_ms = self._clock.monotonic_ms()
        self._metrics.record_poll(now_ms)
        return now_ms < self._buffered_until_ms and not self.notifier.is_woken

    async def wait_for_records(self, timeout_ms: int) -> None:
        """Serve the group, positions and fetches until records are buffered, or the timeout."""
        if self.subscription.type is SubscriptionType.NONE:
            raise InvalidState("consumer has no subscription: call subscribe or assign first")
        await self.start()
        self._has_polled = False
        self._has_polled = await self._poller.wait_for_records(timeout_ms)
        # A poll that timed out takes no records: steps it leaves running would commit them.
        self._buffered_until_ms = self._clock.monotonic_ms() + BUFFERED_POLL_MS if self._has_polled else 0

    def now_ms(self) -> int:
        return self._clock.monotonic_ms()

    def deadline_ms(self, timeout_s: float | None) -> int:
        return self.now_ms() + timeout_ms_of(timeout_s)

    def send_fetches(self) -> None:
        if not self._is_closed:
            self._fetcher.send()

    # Positions.

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        target = validate_offset(partition, offset)
        leader = self._network.metadata.leader(partition)
        position = FetchPosition(target.offset, target.leader_epoch, *leader)
        self.subscription.of(partition).seek_unvalidated(position)

    def seek_to(self, reset: OffsetReset, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions or list(self.subscription.assigned):
            self.subscription.request_reset(partition, reset)

    def pause(self, partitions: Iterable[TopicPartition], is_paused: bool) -> None:
        states = [self.subscription.of(partition) for partition in partitions]
        for state in states:
            state.paused = is_paused
        self.notifier.notify()

    async def position(self, partition: TopicPartition) -> int:
        await self.start()
        deadline_ms = self.now_ms() + self._api_timeout_ms
        with self._poller.inside_call():
            while True:
                since = self.notifier.count
                state = self.subscription.of(partition)
                if state.has_valid_position and state.position is not None:
                    return state.position.offset
                self.notifier.raise_if_woken()
                await self._poller.update_positions()
                remaining_ms = deadline_ms - self.now_ms()
                if self._poller.is_unknown(partition):
                    await self._network.wait_for_topic(
                        partition.topic, remaining_ms, partition=partition.partition
                    )
                if remaining_ms <= 0:
                    raise TimedOut(f"position of {partition} not known within {self._api_timeout_ms} ms")
                await self.notifier.wait(since, min(remaining_ms, self._retry_backoff_ms))

    def current_lag(self, partition: TopicPartition) -> int | None:
        lag = self.subscription.of(partition).lag(self._reads_committed)
        if lag is None:
            self._offsets.fetch_end_offset_async(partition)
        return lag

    # ListOffsets.

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        for partition, timestamp in timestamps.items():
            if timestamp < 0:
                raise InvalidState(f"timestamp for {partition} must be >= 0, got {timestamp}")
        return await self._list_offsets(timestamps)

    async def list_offsets(
        self, partitions: Iterable[TopicPartition], timestamp: int
    ) -> dict[TopicPartition, int]:
        """Return the beginning or end offsets of partitions: ``timestamp`` is ``BEGINNING`` or ``END``."""
        offsets = await self._list_offsets(dict.fromkeys(partitions, timestamp))
        if timestamp == LATEST_TIMESTAMP:
            self._offsets.update_end_offsets(offsets)
        return {partition: offset.offset for partition, offset in offsets.items() if offset is not None}

    async def _list_offsets(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        await self.start()
        by_partition = {
            plain_partition(partition): operator.index(timestamp)
            for partition, timestamp in timestamps.items()
        }
        return await self.notifier.run_interruptible(self._fetch_offsets(by_partition))

    async def _fetch_offsets(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        deadline_ms = self.now_ms() + self._api_timeout_ms
        try:
            for partition in timestamps:
                remaining_ms = max(deadline_ms - self.now_ms(), 0)
                await self._network.wait_for_topic(
                    partition.topic, remaining_ms, partition=partition.partition
                )
            return await self._offsets.fetch_offsets(timestamps, max(deadline_ms - self.now_ms(), 0))
        finally:
            self._track_topics()

    # Group.

    def offsets_to_commit(self, offsets: OffsetsToCommit | None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return these offsets, validated, or else the positions of all assigned partitions."""
        if offsets is None:
            return self.subscription.all_consumed()
        return validate_offsets(offsets)

    async def commit(self, offsets: OffsetsToCommit | None) -> None:
        coordinator = self._require_group("commit")
        await self.start()
        with self._poller.inside_call():
            commit = coordinator.commit(self.offsets_to_commit(offsets), self._api_timeout_ms)
            await self.notifier.run_interruptible(commit)

    def commit_async(self, offsets: OffsetsToCommit | None, on_commit: CommitCallback | None) -> None:
        self._require_group("commit_async").commit_async(self.offsets_to_commit(offsets), on_commit)

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        coordinator = self._require_group("committed")
        await self.start()
        listed = [plain_partition(partition) for partition in partitions]
        return await self.notifier.run_interruptible(coordinator.committed(listed, self._api_timeout_ms))

    def group_metadata(self) -> GroupMetadata:
        return self._require_group("group_metadata").group_metadata()

    def enforce_rebalance(self, reason: str | None) -> None:
        self._require_group("enforce_rebalance").request_rejoin(reason or "enforce_rebalance was called")

    # Topics.

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        known = self._network.metadata.partitions_for(topic)
        return known or (await self._fetch_topics([topic])).get(topic, [])

    async def list_topics(self) -> dict[str, list[PartitionInfo]]:
        return await self._fetch_topics(None)

    async def _fetch_topics(self, names: list[str] | None) -> dict[str, list[PartitionInfo]]:
        await self.start()
        metadata = await self.notifier.run_interruptible(
            fetch_topic_metadata(
                self._network, self._clock, self._entropy, self.settings, names, self._api_timeout_ms
            )
        )
        return {name: list(topic.partitions) for name, topic in metadata.topics.items()}


def _build_fetcher(
    settings: Settings,
    network: NetworkClient,
    environment: ClientEnvironment,
    subscription: SubscriptionState,
    buffer: FetchBuffer,
    notifier: Notifier,
) -> Fetcher:
    config = FetchConfig(
        settings[consumer.FETCH_MIN_BYTES],
        settings[consumer.FETCH_MAX_BYTES],
        settings[consumer.FETCH_MAX_WAIT_MS],
        settings[consumer.MAX_PARTITION_FETCH_BYTES],
        settings[consumer.ISOLATION_LEVEL] == "read_committed",
        settings[connection.CLIENT_RACK] or "",
    )
    return Fetcher(
        network,
        environment.clock,
        subscription,
        buffer,
        config,
        notifier.notify,
        check_crcs=settings[consumer.CHECK_CRCS],
        retry_backoff_ms=settings[connection.RETRY_BACKOFF_MS],
        preferred_replica_ms=settings[connection.METADATA_MAX_AGE_MS],
        request_timeout_ms=settings[connection.REQUEST_TIMEOUT_MS],
    )


BEGINNING: Final = EARLIEST_TIMESTAMP
END: Final = LATEST_TIMESTAMP
