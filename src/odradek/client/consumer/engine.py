"""All parts of a consumer, put together: what the asyncio and the blocking consumer have in common.

Lives on one event loop. Only what takes records, gives them back, or wakes is called from elsewhere: records
that are at hand are read where the application is, as ``fetch_buffer`` explains. Nothing here guards against
two calls at once; that is done by the consumers, each in the way of its environment.
"""

from __future__ import annotations

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
from odradek.client.consumer.positions.offset_fetcher import Offsets
from odradek.client.consumer.positions.offset_requests import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from odradek.client.consumer.positions.partition_state import FetchPosition, OffsetReset
from odradek.client.consumer.positions.subscription_state import SubscriptionKind, SubscriptionState
from odradek.client.consumer.rebalance_listener import RebalanceListener
from odradek.client.consumer.topic_metadata import describe_topics
from odradek.client.consumer.validation import (
    OffsetsToCommit,
    read_offset,
    read_offsets,
    read_pattern,
    read_timeout_ms,
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
from odradek.records.codec import ColumnBuilder

CLOSE_TIMEOUT_MS: Final = 30_000
AT_HAND_MS: Final = 50
"""How long records are taken without a look at the group after the last poll that had one."""

RANGE_TOPICS_MAX: Final = 64
"""Topics that are kept in mind when ranges of one after the other are read."""

CommitCallback = Callable[[Mapping[TopicPartition, OffsetAndMetadata], Any], Any]


class ConsumerEngine:
    """Starts nothing until ``start``. ``drained`` has ``send_fetches`` called on the loop."""

    def __init__(
        self,
        environment: ClientEnvironment,
        settings: Settings,
        *,
        deserialize: Deserialize | None,
        interceptors: ConsumerInterceptors,
        assignors: Sequence[Assignor],
        on_caller: OnCaller,
        drained: Callable[[], None] | None = None,
    ) -> None:
        self.settings = settings
        self._clock = environment.clock
        self._entropy = environment.entropy
        self._interceptors = interceptors
        self._api_timeout_ms = settings[connection.DEFAULT_API_TIMEOUT_MS]
        self._rest_ms = settings[connection.RETRY_BACKOFF_MS]
        self._reads_committed = settings[consumer.ISOLATION_LEVEL] == "read_committed"
        self._is_closing = False
        self._is_closed = False
        self._at_hand_until_ms = 0
        self._is_settled = False
        self._range_topics: dict[str, None] = {}
        self.records_max = settings[consumer.MAX_POLL_RECORDS]
        self.notifier = Notifier()
        self.subscription = SubscriptionState(OffsetReset(settings[consumer.AUTO_OFFSET_RESET]))
        self._network = NetworkClient(environment, settings, client_id=settings[connection.CLIENT_ID])
        self._buffer = FetchBuffer(self.subscription, drained or self.send_fetches, deserialize)
        self._ahead = IterationBuffer(
            self.subscription, self._buffer, interceptors, self.records_max, self.now_ms
        )
        self.return_unread = self._ahead.return_unread
        """Gives back what a loop has not been given: see ``taken_ahead``."""
        self._fetcher = _fetcher_of(
            settings, self._network, environment, self.subscription, self._buffer, self.notifier
        )
        self._offsets = Offsets(
            self._network,
            environment.clock,
            environment.entropy,
            settings,
            self.subscription,
            self.notifier.tell,
        )
        self._polling = Poller(
            self._network,
            environment.clock,
            self.subscription,
            self._buffer,
            self._fetcher,
            self._offsets,
            self.notifier,
            on_caller=on_caller,
            rest_ms=self._rest_ms,
        )
        self._coordinator: ConsumerCoordinator | None = None
        if settings[consumer.GROUP_ID] is not None:
            self._coordinator = self._polling.coordinator = self._in_group(assignors)
        self._network.add_listener(lambda _: self.notifier.tell())
        self._declare_metrics()

    def _in_group(self, assignors: Sequence[Assignor]) -> ConsumerCoordinator:
        return ConsumerCoordinator(
            self._network,
            self.settings,
            self.subscription,
            self._clock,
            self._entropy,
            assignors,
            self._interceptors,
            self._polling.call_back,
            on_news=self.notifier.tell,
        )

    def _declare_metrics(self) -> None:
        self._metrics = PollMetrics(self._network.metrics, self._clock.monotonic_ms)
        metrics, buffer = self._network.metrics, self._buffer
        metrics.gauge("records-consumed-total", "Records that polls gave.", lambda: buffer.records_read)
        metrics.gauge("bytes-consumed-total", "Bytes of batches they were in.", lambda: buffer.bytes_read)
        metrics.gauge("records-lag-max", "The farthest that a partition is behind its end.", self._lag_max)

    def _lag_max(self) -> float:
        lags = [each.lag(self._reads_committed) for each in self.subscription.assigned.values()]
        return max((lag for lag in lags if lag is not None), default=float("nan"))

    # Life.

    async def start(self) -> None:
        self.check_open()
        await self._network.start()

    def check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("the consumer has been closed")

    async def close(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Commit if that is automatic, leave the group, end all that is under way. May be called again."""
        if self._is_closing:
            return
        self._is_closing = True
        try:
            if self._coordinator is not None:
                await self._network.start()
                with self._polling.inside_call():
                    await self._polling.close()
                    await self._coordinator.close(timeout_ms)
        finally:
            self._is_closed = True
            await self._polling.close()
            await self._offsets.close()
            await self._fetcher.close()
            await self._network.close()
            self._interceptors.close()

    def metrics(self) -> dict[str, float]:
        return self._network.metrics.read()

    # What is read.

    def subscribe(
        self,
        topics: Names | None,
        pattern: str | re.Pattern[str] | None,
        listener: RebalanceListener | None,
    ) -> None:
        self._need_group("subscribe")
        if (topics is None) is (pattern is None):
            raise InvalidState("subscribe takes either topics or a pattern")
        if pattern is not None:
            self.subscription.subscribe_pattern(read_pattern(pattern), listener)
            self._network.track_all_topics(True)
            return
        wanted = read_names(topics or (), "topics")
        if not wanted or not all(isinstance(topic, str) and topic.strip() for topic in wanted):
            raise InvalidState("subscribe needs the names of topics; unsubscribe reads none")
        self.subscription.subscribe(wanted, listener)
        self._follow()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        wanted = [TopicPartition(*each) for each in partitions]
        if self.subscription.assign(wanted):
            self._follow()

    def read_range(self, partition: TopicPartition, start_offset: int, stop_offset: int) -> None:
        """Read this partition alone, from one offset up to another.

        If the position is there already, what was fetched beyond it is read next.
        """
        self.subscription.assign([partition])
        # Whoever reads ranges of several topics in turn need not look for each anew.
        self._range_topics.pop(partition.topic, None)
        self._range_topics[partition.topic] = None
        if len(self._range_topics) > RANGE_TOPICS_MAX:
            del self._range_topics[next(iter(self._range_topics))]
        self._network.track_only_topics(self._range_topics)
        state = self.subscription.of(partition)
        state.stop_offset = stop_offset
        if not state.has_valid_position or state.position is None or state.position.offset != start_offset:
            self.seek(partition, start_offset)
        self._is_settled = False
        self._at_hand_until_ms = 0

    async def unsubscribe(self) -> None:
        if self._coordinator is not None and self.subscription.is_by_group:
            with self._polling.inside_call():
                reason = "the consumer unsubscribed from all topics"
                await self._coordinator.leave(self._api_timeout_ms, reason)
        self.subscription.unsubscribe()
        self._network.track_all_topics(False)
        self._follow()

    def _follow(self) -> None:
        self._network.track_only_topics(self.subscription.group_topics | self._range_topics.keys())

    def _need_group(self, what: str) -> ConsumerCoordinator:
        if self._coordinator is None:
            raise InvalidState(f"{what} needs a group: set group.id")
        return self._coordinator

    # Records.

    def take(self, records_max: int | None) -> list[AnyRecord]:
        """Records that are at hand, as the application gets them."""
        if not self._is_settled:
            return []
        records = self._buffer.take(self.records_max if records_max is None else records_max)
        return self._interceptors.on_consume(records) if records and self._interceptors else records

    def take_for_iteration(self) -> Iterator[AnyRecord] | None:
        """Records that are at hand for a loop; None if there are none."""
        return self._ahead.take() if self._is_settled else None

    def check_max_records(self, records_max: int | None) -> None:
        if records_max is not None and records_max < 1:
            raise InvalidState(f"max_records must be at least 1, and not {records_max}")

    def take_columns(self, rows_max: int, into: ColumnBuilder) -> int:
        return self._buffer.take_columns(rows_max, into) if self._is_settled else 0

    def begin_poll(self) -> bool:
        """Whether records may be taken without looking after the group and positions first."""
        now_ms = self._clock.monotonic_ms()
        self._metrics.polled(now_ms)
        return now_ms < self._at_hand_until_ms and not self.notifier.is_woken

    async def wait_for_records(self, timeout_ms: int) -> None:
        """Wait for records to be at hand."""
        if self.subscription.kind is SubscriptionKind.NOTHING:
            raise InvalidState("the consumer reads nothing: subscribe to topics or assign partitions first")
        await self.start()
        self._is_settled = False
        self._is_settled = await self._polling.wait_for_records(timeout_ms)
        # Nothing is taken by a poll whose time is over: what it leaves under way commits what was taken.
        self._at_hand_until_ms = self._clock.monotonic_ms() + AT_HAND_MS if self._is_settled else 0

    def now_ms(self) -> int:
        return self._clock.monotonic_ms()

    def deadline_ms(self, timeout_s: float | None) -> int:
        return self.now_ms() + read_timeout_ms(timeout_s)

    def send_fetches(self) -> None:
        if not self._is_closed:
            self._fetcher.send()

    # Positions.

    def seek(self, partition: TopicPartition, to: int | OffsetAndMetadata) -> None:
        target = read_offset(partition, to)
        leader = self._network.metadata.leader(partition)
        position = FetchPosition(target.offset, target.leader_epoch, *leader)
        self.subscription.of(partition).seek_unvalidated(position)

    def seek_by(self, reset: OffsetReset, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions or list(self.subscription.assigned):
            self.subscription.request_reset(partition, reset)

    def pause(self, partitions: Iterable[TopicPartition], is_paused: bool) -> None:
        states = [self.subscription.of(partition) for partition in partitions]
        for state in states:
            state.paused = is_paused
        self.notifier.tell()

    async def position(self, partition: TopicPartition) -> int:
        await self.start()
        deadline_ms = self.now_ms() + self._api_timeout_ms
        with self._polling.inside_call():
            while True:
                since = self.notifier.count
                state = self.subscription.of(partition)
                if state.has_valid_position and state.position is not None:
                    return state.position.offset
                self.notifier.raise_if_woken()
                await self._polling.update_positions()
                left_ms = deadline_ms - self.now_ms()
                if self._polling.is_unknown(partition):
                    await self._network.wait_for_topic(
                        partition.topic, left_ms, partition=partition.partition
                    )
                if left_ms <= 0:
                    raise TimedOut(f"no position of {partition} within {self._api_timeout_ms} ms")
                await self.notifier.wait(since, min(left_ms, self._rest_ms))

    def current_lag(self, partition: TopicPartition) -> int | None:
        lag = self.subscription.of(partition).lag(self._reads_committed)
        if lag is None:
            self._offsets.ask_end_soon(partition)
        return lag

    # Offsets that brokers know.

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        for partition, timestamp in timestamps.items():
            if timestamp < 0:
                raise InvalidState(f"{timestamp} is no time to look for in {partition}: times begin at 0")
        return await self._look_up(timestamps)

    async def ends(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        found = await self._look_up(dict.fromkeys(partitions, timestamp))
        if timestamp == LATEST_TIMESTAMP:
            self._offsets.note_ends(found)
        return {each: end.offset for each, end in found.items() if end is not None}

    async def _look_up(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        await self.start()
        wanted = {TopicPartition(*each): when for each, when in timestamps.items()}
        return await self.notifier.unless_woken(self._looked_up(wanted))

    async def _looked_up(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        deadline_ms = self.now_ms() + self._api_timeout_ms
        try:
            for partition in timestamps:
                left_ms = max(deadline_ms - self.now_ms(), 0)
                await self._network.wait_for_topic(partition.topic, left_ms, partition=partition.partition)
            return await self._offsets.look_up(timestamps, max(deadline_ms - self.now_ms(), 0))
        finally:
            self._follow()

    # The group.

    def consumed(self, offsets: OffsetsToCommit | None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Offsets to commit: those given, or all that polls have given."""
        if offsets is None:
            return self.subscription.all_consumed()
        return read_offsets(offsets)

    async def commit(self, offsets: OffsetsToCommit | None) -> None:
        coordination = self._need_group("commit")
        await self.start()
        with self._polling.inside_call():
            await self.notifier.unless_woken(
                coordination.commit(self.consumed(offsets), self._api_timeout_ms)
            )

    def commit_async(self, offsets: OffsetsToCommit | None, on_commit: CommitCallback | None) -> None:
        self._need_group("commit_async").commit_async(self.consumed(offsets), on_commit)

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        coordination = self._need_group("committed")
        await self.start()
        wanted = [TopicPartition(*each) for each in partitions]
        return await self.notifier.unless_woken(coordination.committed(wanted, self._api_timeout_ms))

    def group_metadata(self) -> GroupMetadata:
        return self._need_group("group_metadata").group_metadata()

    def enforce_rebalance(self, reason: str | None) -> None:
        self._need_group("enforce_rebalance").request_rejoin(reason or "the application asked for it")

    # Topics.

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        known = self._network.metadata.partitions_for(topic)
        return known or (await self._described([topic])).get(topic, [])

    async def list_topics(self) -> dict[str, list[PartitionInfo]]:
        return await self._described(None)

    async def _described(self, names: list[str] | None) -> dict[str, list[PartitionInfo]]:
        await self.start()
        metadata = await self.notifier.unless_woken(
            describe_topics(
                self._network, self._clock, self._entropy, self.settings, names, self._api_timeout_ms
            )
        )
        return {name: list(topic.partitions) for name, topic in metadata.topics.items()}


def _fetcher_of(
    settings: Settings,
    network: NetworkClient,
    environment: ClientEnvironment,
    subscription: SubscriptionState,
    buffer: FetchBuffer,
    news: Notifier,
) -> Fetcher:
    limits = FetchConfig(
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
        limits,
        news.tell,
        check_crcs=settings[consumer.CHECK_CRCS],
        rest_ms=settings[connection.RETRY_BACKOFF_MS],
        preference_ms=settings[connection.METADATA_MAX_AGE_MS],
        request_timeout_ms=settings[connection.REQUEST_TIMEOUT_MS],
    )


BEGINNING: Final = EARLIEST_TIMESTAMP
END: Final = LATEST_TIMESTAMP
