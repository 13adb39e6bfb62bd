"""A fetcher: replicates partitions from one leader, with one request in flight.

A task repeats: truncate the partitions that need it, fetch the ready ones, append. A partition with an error
is delayed or fails alone. Partitions are added and removed synchronously, also while a request is in flight:
its response is used only for partitions whose ``FetchedPartition`` is still the same object.

A round takes time in proportion to the partitions that have changed since the last one, and to those that
wait: delayed and truncating ones, and those whose follower was replaced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from odradek.cluster.fetch_session_handler import INITIAL_EPOCH, PartitionFetch
from odradek.model.client_errors import ClientError
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicId, TopicPartition
from odradek.net.broker_requests import BrokerChannel
from odradek.replication.fetchers import fetch_requests
from odradek.replication.fetchers.fetch_requests import ReplicaFetch
from odradek.replication.fetchers.fetch_state import ErrorAction
from odradek.replication.fetchers.fetched_partition import FetchedPartition, FetcherPorts
from odradek.replication.fetchers.fetcher_settings import FetcherSettings
from odradek.replication.fetchers.follower_fetch_session import FollowerFetchSession
from odradek.replication.follower import Follower
from odradek.replication.quotas.replication_quota_manager import ReplicationQuotaManager
from odradek.telemetry import events
from odradek.wire.messages.fetch import PartitionData

log = events.logger("replica_fetcher")

APPEND_BYTES_PER_TURN: Final = 1 << 20
"""Bytes appended before other tasks of the event loop get a turn."""

THROTTLED_MS_MIN: Final = 100
"""Wait of a throttled partition at least, also without a backoff: a shorter one would be a busy loop."""

_SESSION_ERRORS: Final = frozenset(
    {ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH}
)

Partitions = dict[TopicPartition, FetchedPartition]


class Fetcher:
    """Fetcher of partitions led by broker ``source_id``. ``on_idle`` is called when it has none left."""

    def __init__(
        self,
        source_id: int,
        channel: BrokerChannel,
        ports: FetcherPorts,
        on_idle: Callable[[Fetcher], None] = lambda _: None,
    ) -> None:
        self.source_id = source_id
        self.partitions: Partitions = {}
        self._channel = channel
        self._ports = ports
        self._on_idle = on_idle
        self._clock = ports.clock
        self._session = FollowerFetchSession()
        self._changed: dict[TopicPartition, None] = {}
        """Partitions to compare with the session before the next request."""
        self._waiting: Partitions = {}
        """Partitions that are left out of the session for now: delayed, truncating, or replaced."""
        self._task: asyncio.Task[None] | None = None
        self._sleep: asyncio.Future[None] | None = None
        self._is_woken = False
        self._is_closing = False

    # Partitions.

    def add(self, follower: Follower, topic_id: TopicId) -> None:
        """Add a partition, or replace it in a new leader epoch. Otherwise only the topic id may change."""
        partition = self.partitions.get(follower.topic_partition)
        if partition is not None and partition.follower is follower and not partition.is_failed:
            partition.state = partition.state._replace(topic_id=topic_id)
            return
        self.partitions[follower.topic_partition] = FetchedPartition(
            follower, topic_id, self.source_id, self._ports, self._on_changed
        )
        self._changed[follower.topic_partition] = None
        self._wake()

    def remove(self, topic_partition: TopicPartition) -> None:
        if self.partitions.pop(topic_partition, None) is not None:
            self._changed[topic_partition] = None
            self._wake()

    def refresh(self, topic_partition: TopicPartition) -> None:
        """Send the log start offset of a partition with the next request: it has moved."""
        if topic_partition in self.partitions:
            self._changed[topic_partition] = None

    def _on_changed(self, partition: FetchedPartition) -> None:
        self._changed[partition.topic_partition] = None

    def _is_current(self, partition: FetchedPartition) -> bool:
        """Return whether a partition was neither removed nor replaced."""
        return self.partitions.get(partition.topic_partition) is partition and partition.follower.is_active

    # Life cycle.

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        self._is_closing = True
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self._channel.close()

    async def _run(self) -> None:
        while not self._is_closing:
            try:
                await self._truncate()
                if await self._fetch():
                    continue
            except Exception as error:  # noqa: BLE001 - the edge of a task: it must go on
                log.failure("replica_fetcher_failed", error, source=self.source_id)
                self._session.handle_error()
                self._delay(self.partitions.values())
            await self._wait()

    async def _wait(self) -> None:
        """Wait until a partition is added or removed, or its delay ends."""
        now_ms = self._clock.monotonic_ms()
        due = [
            partition.state.delayed_until_ms
            for partition in self._unsettled()
            if not partition.is_failed and partition.follower.is_active
        ]
        wait_ms = min(due, default=now_ms + self._ports.settings().backoff_ms) - now_ms
        if not self._is_woken:
            await self._sleep_ms(max(wait_ms, 0))
        if not self.partitions and not self._is_woken:
            self._on_idle(self)
        self._is_woken = False

    async def _sleep_ms(self, duration_ms: int) -> None:
        self._sleep = asyncio.ensure_future(self._clock.sleep_ms(duration_ms))
        try:
            await self._sleep
        except asyncio.CancelledError:
            if self._is_closing or not self._is_woken:
                raise
        finally:
            self._sleep = None

    def _wake(self) -> None:
        self._is_woken = True
        if self._sleep is not None:
            self._sleep.cancel()

    def _delay(self, partitions: Iterable[FetchedPartition]) -> None:
        for partition in partitions:
            partition.delay()

    def _note_unreachable(self, error: ClientError) -> None:
        self._ports.limited_events.warning(
            "leader_unreachable",
            f"leader_unreachable {self.source_id}",
            source=self.source_id,
            reason=str(error),
        )

    # Truncation.

    async def _truncate(self) -> None:
        """Truncate the partitions whose divergence is not reported in Fetch responses."""
        now_ms = self._clock.monotonic_ms()
        truncating = [
            partition
            for partition in self._unsettled()
            if partition.state.is_truncating(now_ms) and partition.follower.is_active
        ]
        for partition in truncating:
            if not partition.has_epochs and self._is_current(partition):
                partition.truncate_to_high_watermark()
                await asyncio.sleep(0)
        with_epochs = [
            partition for partition in truncating if partition.has_epochs and self._is_current(partition)
        ]
        if with_epochs:
            await self._truncate_to_epoch_ends(with_epochs)

    async def _truncate_to_epoch_ends(self, truncating: list[FetchedPartition]) -> None:
        settings = self._ports.settings()
        request = fetch_requests.build_epochs(
            {
                partition.topic_partition: (partition.state.leader_epoch, partition.follower.latest_epoch)
                for partition in truncating
            },
            settings,
        )
        try:
            response = await self._channel.send(
                request,
                settings.request_timeout_ms,
                version_max=settings.metadata_version.offset_for_leader_epoch_version,
            )
        except ClientError as error:
            self._note_unreachable(error)
            self._delay(truncating)
            return
        results = fetch_requests.read_epochs(response)
        for partition in truncating:
            result = results.get(partition.topic_partition)
            if not self._is_current(partition):
                continue
            if result is None:
                partition.delay()
            elif result.error is not ErrorCode.NONE:
                partition.handle_error(result.error)
            else:
                partition.truncate_to_epoch_end(result.end)
                await asyncio.sleep(0)

    # Fetching.

    async def _fetch(self) -> bool:
        """Fetch the ready partitions once; return False if there are none."""
        settings, now_ms = self._ports.settings(), self._clock.monotonic_ms()
        if self._ports.quota is not None and self._ports.quota.is_active:
            self._delay_throttled(self._ports.quota)
        fetch = fetch_requests.build_fetch(
            self._session,
            self._take_changes(now_ms, settings),
            settings._replace(wait_max_ms=self._fetch_wait_ms(settings.wait_max_ms, now_ms)),
        )
        if fetch is None:
            return False
        try:
            response = await self._channel.send(
                fetch.request, settings.request_timeout_ms, version_max=fetch.version
            )
        except ClientError as error:
            self._session.handle_error()
            self._note_unreachable(error)
            self._delay(self.partitions.values())
            return True
        result = fetch_requests.read_fetch_response(self._session, response)
        if result.error is ErrorCode.NONE:
            await self._handle_partitions(result.partitions)
        else:
            self._handle_session_error(result.error, fetch)
        return True

    def _fetch_wait_ms(self, wait_max_ms: int, now_ms: int) -> int:
        """Return how long the leader may wait for records: a delayed partition waits for the response."""
        due = [
            partition.state.delayed_until_ms - now_ms
            for partition in self._waiting.values()
            if partition.state.is_delayed(now_ms)
        ]
        return min([wait_max_ms, *due])

    def _take_changes(
        self, now_ms: int, settings: FetcherSettings
    ) -> dict[TopicPartition, PartitionFetch | None]:
        """Return the changes of the session: the parameters of ready partitions, None for others."""
        changes: dict[TopicPartition, PartitionFetch | None] = dict.fromkeys(self._changed)
        unsettled = self._unsettled()
        self._changed.clear()
        self._waiting.clear()
        for partition in unsettled:
            is_ready = partition.state.is_ready_for_fetch(now_ms) and partition.follower.is_active
            partition.is_in_session = is_ready
            if is_ready:
                changes[partition.topic_partition] = fetch_requests.partition_fetch(
                    partition.state, partition.follower.log_start_offset, settings
                )
            elif not partition.is_failed:
                self._waiting[partition.topic_partition] = partition
        return changes

    def _unsettled(self) -> list[FetchedPartition]:
        """Return the partitions that may not be as the session has them."""
        keys = {**self._waiting, **self._changed}
        return [self.partitions[key] for key in keys if key in self.partitions]

    def _delay_throttled(self, quota: ReplicationQuotaManager) -> None:
        """Leave throttled partitions out for a while if the quota is exceeded, unless they are in sync."""
        if not quota.is_exceeded:
            return
        now_ms = self._clock.monotonic_ms()
        for topic_partition, partition in self.partitions.items():
            state = partition.state
            if (
                not state.is_replica_in_sync
                and state.is_ready_for_fetch(now_ms)
                and quota.is_throttled(topic_partition)
            ):
                partition.delay(THROTTLED_MS_MIN)

    def _handle_session_error(self, error: ErrorCode, fetch: ReplicaFetch) -> None:
        """Start a new session at once, or after a backoff if this was the start of one."""
        self._ports.limited_events.warning(
            "fetch_session_failed",
            f"fetch_session_failed {error.name}",
            source=self.source_id,
            error=error.name,
        )
        if error not in _SESSION_ERRORS or fetch.request.session_epoch == INITIAL_EPOCH:
            self._delay(self.partitions.values())

    async def _handle_partitions(self, results: dict[TopicPartition, PartitionData]) -> None:
        turn_bytes, quota = 0, self._ports.quota
        out_of_range, to_flush = [], []
        for topic_partition, data in results.items():
            partition = self.partitions.get(topic_partition)
            if partition is None:
                continue
            if not partition.is_in_session or not partition.follower.is_active:
                # Replaced. The leader repeats offsets only after a change, or in a new session.
                self._session.handle_error()
                self._changed[topic_partition] = None
                continue
            error = ErrorCode(data.error_code)
            if error is not ErrorCode.NONE:
                if partition.handle_error(error) is ErrorAction.RESET_OFFSET:
                    out_of_range.append(partition)
                continue
            size_bytes = partition.handle_data(data)
            turn_bytes += size_bytes
            if quota is not None and quota.is_active and quota.is_throttled(topic_partition):
                quota.record(size_bytes)
            if partition.follower.is_flush_due:
                to_flush.append(partition)
            if turn_bytes >= APPEND_BYTES_PER_TURN:
                turn_bytes = 0
                await asyncio.sleep(0)
        for partition in to_flush:
            if self._is_current(partition):
                await partition.flush()
        for partition in out_of_range:
            await self._reset_offset(partition)

    # Offsets out of range.

    async def _reset_offset(self, partition: FetchedPartition) -> None:
        leader_end = await self._leader_offset(partition, fetch_requests.LATEST_TIMESTAMP)
        if leader_end is None:
            return
        leader_start: int | None = 0
        if leader_end >= partition.follower.log_end_offset:
            leader_start = await self._leader_offset(partition, fetch_requests.EARLIEST_TIMESTAMP)
        if leader_start is not None:
            partition.reset_offset(leader_start, leader_end)

    async def _leader_offset(self, partition: FetchedPartition, timestamp: int) -> int | None:
        """Return the leader's start or end offset; None after an error or if the partition was replaced."""
        settings, topic_partition = self._ports.settings(), partition.topic_partition
        request = fetch_requests.build_list_offsets(
            topic_partition, partition.state.leader_epoch, timestamp, settings
        )
        try:
            response = await self._channel.send(
                request,
                settings.request_timeout_ms,
                version_max=settings.metadata_version.list_offsets_version,
            )
        except ClientError as error:
            self._note_unreachable(error)
            partition.delay()
            return None
        result = fetch_requests.read_list_offsets(response, topic_partition)
        if not self._is_current(partition):
            return None
        if result.error is ErrorCode.NONE:
            return result.offset
        if partition.handle_error(result.error) is ErrorAction.RESET_OFFSET:
            partition.delay()
        return None
