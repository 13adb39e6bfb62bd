"""A partition in a fetcher: its follower, its fetch state, and the reactions to responses.

All methods are synchronous, so that a role change happens before or after them, never in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from odradek.log.leader_epoch_cache import EpochEnd
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.model.ids import NO_LEADER_EPOCH, TopicId, TopicPartition
from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy
from odradek.ports.files import Buffer, FileSlice
from odradek.replication.fetchers import truncation
from odradek.replication.fetchers.fetch_state import (
    ErrorAction,
    PartitionFetchState,
    ReplicaState,
    action_for,
    initial_fetch_state,
)
from odradek.replication.fetchers.fetcher_settings import FetcherSettings
from odradek.replication.follower import Follower
from odradek.replication.quotas.replication_quota_manager import ReplicationQuotaManager
from odradek.telemetry import events
from odradek.telemetry.rate_limited_events import RateLimitedEvents
from odradek.wire.messages.fetch import PartitionData

log = events.logger("replica_fetcher")

JITTER_PERCENT: Final = 20
"""Added to a backoff at most, so that partitions and brokers do not retry in step."""

UNINFORMED_MS_MIN: Final = 20
"""Wait after the first answer of a leader that does not know yet that it leads. It doubles each time."""
_UNINFORMED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Answers of a leader that the controller's request has not reached yet."""
_CORRUPT: Final = frozenset({ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD})


class FetcherPorts(NamedTuple):
    """Dependencies and callbacks shared by all fetchers of a broker."""

    settings: Callable[[], FetcherSettings]
    clock: Clock
    entropy: Entropy
    on_appended: Callable[[TopicPartition], None]
    on_failure: Callable[[TopicPartition, Exception], None]
    limited_events: RateLimitedEvents
    quota: ReplicationQuotaManager | None = None
    """Throttle of this broker's fetches."""


class FetchedPartition:
    """Valid while the fetcher still has it and its ``Follower`` is active. ``source_id`` is the leader."""

    __slots__ = (
        "_on_changed",
        "_ports",
        "_state",
        "_uninformed_count",
        "corrupt_count",
        "follower",
        "is_in_session",
        "source_id",
        "topic_partition",
    )

    def __init__(
        self,
        follower: Follower,
        topic_id: TopicId,
        source_id: int,
        ports: FetcherPorts,
        on_changed: Callable[[FetchedPartition], None] = lambda _: None,
    ) -> None:
        """``on_changed`` is called after each change of ``state``."""
        self._ports = ports
        self._on_changed = on_changed
        self.topic_partition = follower.topic_partition
        self.follower = follower
        self.source_id = source_id
        self._uninformed_count = 0
        """Answers of a leader that does not know of this leader epoch, one after the other."""
        self.corrupt_count = 0
        """Responses with a corrupt batch, which was fetched again."""
        self.is_in_session = False
        """True if the last request was made for this object: a response is for the one in the session."""
        self._state = initial_fetch_state(
            topic_id,
            follower.leader_epoch,
            follower.log_end_offset,
            follower.high_watermark,
            follower.latest_epoch,
            is_truncation_on_fetch_supported=self._truncates_on_fetch,
        )

    @property
    def state(self) -> PartitionFetchState:
        return self._state

    @state.setter
    def state(self, state: PartitionFetchState) -> None:
        self._state = state
        self._on_changed(self)

    @property
    def is_failed(self) -> bool:
        return self.state.state is ReplicaState.FAILED

    @property
    def has_epochs(self) -> bool:
        return self.follower.latest_epoch != NO_LEADER_EPOCH

    @property
    def _truncates_on_fetch(self) -> bool:
        return self._ports.settings().metadata_version.is_truncation_on_fetch_supported

    # Errors.

    def delay(self, backoff_ms_min: int = 0) -> None:
        """Leave this partition out of the requests for ``replica.fetch.backoff.ms``."""
        self._delay_ms(max(self._ports.settings().backoff_ms, backoff_ms_min))

    def _delay_until_informed(self) -> None:
        """Wait for the controller's request to reach the leader, which it mostly does in milliseconds.

        Kafka waits for ``replica.fetch.backoff.ms``. But acks=all waits too, after each election in which the
        follower hears of the leader before the leader does.
        """
        wait_ms = UNINFORMED_MS_MIN << min(self._uninformed_count, 16)
        self._uninformed_count += 1
        self._delay_ms(min(wait_ms, self._ports.settings().backoff_ms))

    def _delay_ms(self, backoff_ms: int) -> None:
        jitter_ms = self._ports.entropy.below(backoff_ms * JITTER_PERCENT // 100 + 1)
        now_ms = self._ports.clock.monotonic_ms()
        self.state = self.state.delay(now_ms + backoff_ms + jitter_ms, now_ms)

    def fail(self, error: Exception) -> None:
        """Stop fetching until the partition is added again."""
        self.state = self.state.fail()
        self._ports.limited_events.error(
            "replica_failed",
            f"replica_failed {type(error).__name__}",
            partition=self.topic_partition,
            source=self.source_id,
            reason=str(error),
        )
        self._ports.on_failure(self.topic_partition, error)

    def handle_error(self, error: ErrorCode) -> ErrorAction:
        """React to an error code of the leader; the caller resets an offset that is out of range."""
        action = action_for(error)
        if action is ErrorAction.RESET_OFFSET:
            return action
        self._ports.limited_events.warning(
            "partition_not_fetched",
            f"partition_not_fetched {error.name}",
            partition=self.topic_partition,
            source=self.source_id,
            error=error.name,
            leader_epoch=self.state.leader_epoch,
            offset=self.state.fetch_offset,
        )
        if action is ErrorAction.AWAIT_CONTROLLER:
            self.state = self.state.fail()
        elif error in _UNINFORMED:
            self._delay_until_informed()
        else:
            self.delay()
        return action

    # Truncation.

    def truncate_to_high_watermark(self) -> None:
        self._truncate(truncation.truncate_to_high_watermark(self._local_offsets()))

    def truncate_to_epoch_end(self, leader: EpochEnd) -> None:
        """Truncate to where the log diverges, by the end of an epoch in the leader's log."""
        self._truncate(truncation.truncate_to_epoch_end(leader, self._local_offsets()))

    def _local_offsets(self) -> truncation.LocalOffsets:
        follower = self.follower
        return truncation.LocalOffsets(
            follower.log_end_offset, follower.high_watermark, follower.end_offset_for_epoch
        )

    def _truncate(self, target: truncation.OffsetTruncation) -> None:
        follower = self.follower
        if target.offset < follower.log_end_offset:
            log.info(
                "log_truncated",
                partition=self.topic_partition,
                offset=target.offset,
                log_end_offset=follower.log_end_offset,
                high_watermark=follower.high_watermark,
                leader=self.source_id,
                leader_epoch=follower.leader_epoch,
            )
        try:
            follower.truncate_to(target.offset, self._ports.clock.wall_ms())
        except Exception as error:  # noqa: BLE001 - the other partitions must go on
            self.fail(error)
            return
        self.state = self.state.after_truncation(
            target, follower.latest_epoch, is_truncation_on_fetch_supported=self._truncates_on_fetch
        )

    def reset_offset(self, leader_start_offset: int, leader_end_offset: int) -> None:
        """Continue at an offset that the leader has, after OFFSET_OUT_OF_RANGE."""
        log_end_offset = self.follower.log_end_offset
        reset = truncation.reset_out_of_range(log_end_offset, leader_start_offset, leader_end_offset)
        log.warning(
            "fetch_offset_reset",
            partition=self.topic_partition,
            log_end_offset=log_end_offset,
            leader_start_offset=leader_start_offset,
            leader_end_offset=leader_end_offset,
            offset=reset.offset,
            source=self.source_id,
        )
        if reset.is_full:
            try:
                self.follower.truncate_fully_and_start_at(reset.offset, self._ports.clock.wall_ms())
            except Exception as error:  # noqa: BLE001 - the other partitions must go on
                self.fail(error)
                return
        self._truncate(truncation.OffsetTruncation(reset.offset, is_complete=True))
        if reset.offset == log_end_offset:
            self.delay()

    # Data.

    def handle_data(self, data: PartitionData) -> int:
        """Append fetched batches or truncate; return the number of bytes fetched."""
        self._uninformed_count = 0
        diverging = data.diverging_epoch
        if diverging is not None and diverging.epoch >= 0 and self._truncates_on_fetch:
            # Without a change of the high watermark, which the next response gives for the truncated log.
            self.truncate_to_epoch_end(EpochEnd(diverging.epoch, diverging.end_offset))
            return 0
        records = data.records.read() if isinstance(data.records, FileSlice) else data.records or b""
        try:
            self._append(records, data)
        except BrokerError as error:
            self._handle_append_error(error)
        except Exception as error:  # noqa: BLE001 - the other partitions must go on
            self.fail(error)
        return len(records)

    def _append(self, records: Buffer, data: PartitionData) -> None:
        follower, offset = self.follower, self.state.fetch_offset
        before = follower.log_end_offset, follower.high_watermark, follower.log_start_offset
        if offset != before[0]:
            raise StorageError(f"log end offset of {self.topic_partition} must be {offset}, got {before[0]}")
        end_offset = follower.append(
            records, data.high_watermark, data.log_start_offset, self._ports.clock.wall_ms()
        )
        lag = max(data.high_watermark - end_offset, 0)
        self.state = self.state.after_append(end_offset, follower.latest_epoch, lag)
        if before != (end_offset, follower.high_watermark, follower.log_start_offset):
            self._ports.on_appended(self.topic_partition)
        if records and end_offset == offset:
            self._ports.limited_events.warning(
                "batches_skipped",
                "batches_skipped",
                partition=self.topic_partition,
                source=self.source_id,
                offset=offset,
                leader_epoch=follower.leader_epoch,
                size_bytes=len(records),
            )
            self.delay()

    def _handle_append_error(self, error: BrokerError) -> None:
        """Fetch again what is corrupt or did not fit on a full disk; anything else must not happen."""
        if error.code not in _CORRUPT and error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
            self.fail(error)
            return
        self.corrupt_count += error.code in _CORRUPT
        self._ports.limited_events.error(
            "batches_not_appended",
            f"batches_not_appended {error.code.name}",
            partition=self.topic_partition,
            source=self.source_id,
            offset=self.state.fetch_offset,
            reason=str(error),
        )
        # Batches before the one that failed may be in the log.
        follower = self.follower
        self.state = self.state._replace(
            fetch_offset=follower.log_end_offset, last_fetched_epoch=follower.latest_epoch
        )
        self.delay()

    async def flush(self) -> None:
        """Flush the log as ``flush.messages`` requires: the next fetch acknowledges the append."""
        try:
            await self.follower.flush()
        except StorageError as error:
            if self.follower.log.failure is None:
                self.delay()
            else:
                self.fail(error)
