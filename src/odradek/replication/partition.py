"""One partition's replica on this broker: leader or follower, with the rules of each.

The leader appends, decides what is committed, and answers readers; all of it is fenced by the leader epoch.
A partition with one replica is a partition with replicas: its high watermark follows the log's end at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar

from odradek.log.log import Log, LogAppendInfo
from odradek.log.segments import page_in
from odradek.log.segments.log_segment import TimestampOffset, WouldBlock
from odradek.log.segments.log_segments import LogSegments
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.model.ids import NO_LEADER, NO_LEADER_EPOCH, UNKNOWN_OFFSET, TopicId, TopicPartition
from odradek.model.protocol_enums import ACKS_ALL, IsolationLevel
from odradek.ports.files import Buffer
from odradek.records.append_rules import EVENT_LOOP_LIMITS, AppendOrigin
from odradek.records.control_records import EndTransactionMarker
from odradek.records.validation import ValidatedRecords
from odradek.replication import acks as ack_rules
from odradek.replication.fetch_session import FetchPartition, FetchPartitionData
from odradek.replication.isr_state import IsrState

T = TypeVar("T")

CONSUMER_REPLICA_ID: Final = -1
"""The replica id that consumers give."""
DEBUGGING_CONSUMER_ID: Final = -2
"""The replica id of tools that may read a replica that does not lead, up to its log's end."""

# Timestamps of ListOffsets that mean a place, not a time.
LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5

TO_HIGH_WATERMARK: Final = -1
"""As an offset of DeleteRecords: all that may be deleted."""


def requires_timestamp_search(timestamp: int) -> bool:
    """Whether ListOffsets has to search for this, and cannot just name a place."""
    return timestamp >= 0 or timestamp == MAX_TIMESTAMP


class LeaderAndIsr(NamedTuple):
    """What the controller says about a partition."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    partition_epoch: int


class TimestampAndOffset(NamedTuple):
    timestamp: int = -1
    offset: int = UNKNOWN_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH


NOT_FOUND: Final = TimestampAndOffset()


class Partition:
    __slots__ = (
        "_progress",
        "broker_id",
        "is_flush_pending",
        "is_leader",
        "is_offline",
        "leader",
        "leader_epoch",
        "log",
        "min_isr",
        "partition_epoch",
        "queued_appends",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self, topic_partition: TopicPartition, topic_id: TopicId, log: Log, broker_id: int, min_isr: int
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.broker_id = broker_id
        self.min_isr = min_isr
        self.is_leader = False
        self.is_flush_pending = False
        """Whether what was appended last is to be flushed before it is acknowledged and read."""
        self.queued_appends = 0
        """Sources whose appends wait in an ``AppendQueue``."""
        self.is_offline = False
        self.leader = NO_LEADER
        self.leader_epoch = NO_LEADER_EPOCH
        self.partition_epoch = -1
        self._progress: IsrState | None = None

    # Roles.

    def lead(self, order: LeaderAndIsr, progress: IsrState, now_ms: int) -> None:
        """Become the leader of this epoch, or stay it with other replicas. Stale orders are passed over."""
        if order.leader_epoch < self.leader_epoch or order.partition_epoch < self.partition_epoch:
            return
        if self._progress is None or order.leader_epoch > self.leader_epoch:
            self.log.assign_leader_epoch(order.leader_epoch)
        self._progress = self._progress or progress
        self._progress.lead(order.replicas, order.isr, order.leader_epoch, self.log.log_end_offset, now_ms)
        self._take(order, is_leader=True)
        self._advance_high_watermark(now_ms)

    def follow(self, order: LeaderAndIsr) -> None:
        """Stop leading. What the leader has will be fetched from it."""
        if order.leader_epoch >= self.leader_epoch:
            self._progress = None
            self._take(order, is_leader=False)

    def retire(self) -> None:
        """This replica is no more; whoever still waits for it is told to look elsewhere."""
        self._progress = None
        self.is_leader = False

    def fail(self) -> None:
        """The log cannot be used any longer; whoever still waits for it is told so."""
        self.retire()
        self.is_offline = True

    def _why_not_leader(self) -> ErrorCode:
        return ErrorCode.KAFKA_STORAGE_ERROR if self.is_offline else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _take(self, order: LeaderAndIsr, *, is_leader: bool) -> None:
        self.leader = order.leader
        self.leader_epoch = order.leader_epoch
        self.partition_epoch = order.partition_epoch
        self.is_leader = is_leader

    def _advance_high_watermark(self, now_ms: int) -> None:
        progress, log = self._progress, self.log
        assert progress is not None
        # What flush.messages wants on the disk is not committed before it is there.
        end_offset = log.recovery_point if self.is_flush_pending else log.log_end_offset
        log.high_watermark = progress.high_watermark(log.high_watermark, end_offset, self.min_isr, now_ms)

    # Writing.

    def append(self, records: Buffer | None, acks: int, produce_version: int, now_ms: int) -> LogAppendInfo:
        """Append what a producer sent. The high watermark moves at once if no follower has a say.

        If ``is_flush_pending`` is set then, the caller sees to a flush, and tells of its end with
        ``flushed``.
        Raises ``WorkLimitExceeded`` if the records are to be validated away from the event loop first.
        """
        self._check_before_append(acks)
        try:
            appended = self.log.append_as_leader(
                b"" if records is None else records,
                self.leader_epoch,
                now_ms,
                produce_version=produce_version,
                limits=EVENT_LOOP_LIMITS,
            )
        except StorageError as broken:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(broken)) from broken
        if self.log.is_flush_due:
            self.is_flush_pending = True
        self._advance_high_watermark(now_ms)
        return appended

    def append_validated(self, validated: ValidatedRecords, acks: int, now_ms: int) -> LogAppendInfo:
        """Append what was validated elsewhere, as ``append`` does."""
        self._check_before_append(acks)
        log, epoch = self.log, self.leader_epoch
        return self._append_checked(lambda: log.append_validated(validated, epoch, now_ms), now_ms)

    def append_end_marker(
        self, marker: EndTransactionMarker, producer_id: int, producer_epoch: int, now_ms: int
    ) -> LogAppendInfo:
        """End a producer's transaction here, as a transaction coordinator has decided; acks are all.

        Readers of committed records that wait are to be woken, as after any append.
        """
        log, epoch = self.log, self.leader_epoch
        return self._append_own(
            lambda: log.append_end_marker(marker, producer_id, producer_epoch, epoch, now_ms), now_ms
        )

    def append_as_coordinator(self, batch: bytearray, now_ms: int) -> LogAppendInfo:
        """Append what a coordinator on this broker wrote; acks are all. As for flushes, see ``append``."""
        log, epoch = self.log, self.leader_epoch
        return self._append_own(
            lambda: log.append_as_leader(batch, epoch, now_ms, origin=AppendOrigin.COORDINATOR), now_ms
        )

    def _append_own(self, append: Callable[[], LogAppendInfo], now_ms: int) -> LogAppendInfo:
        self._check_before_append(ACKS_ALL)
        return self._append_checked(append, now_ms)

    def _append_checked(self, append: Callable[[], LogAppendInfo], now_ms: int) -> LogAppendInfo:
        try:
            appended = append()
        except StorageError as broken:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(broken)) from broken
        if self.log.is_flush_due:
            self.is_flush_pending = True
        self._advance_high_watermark(now_ms)
        return appended

    def _check_before_append(self, acks: int) -> None:
        progress = self._progress
        if progress is None:
            raise BrokerError(self._why_not_leader())
        if acks == ACKS_ALL:
            ack_rules.check_before_append(acks, len(progress.isr), progress.replica_count, self.min_isr)

    def flushed(self, now_ms: int) -> None:
        """The log was flushed: what had to wait for it counts from here on."""
        self.is_flush_pending = self.is_flush_pending and self.log.is_flush_due
        if self._progress is not None:
            self._advance_high_watermark(now_ms)

    def check_enough_replicas_reach_offset(self, required_offset: int, leader_epoch: int) -> ErrorCode | None:
        """How an append of this epoch ended; None while its records are not committed."""
        progress = self._progress
        if progress is None or leader_epoch != self.leader_epoch:
            return self._why_not_leader()
        return ack_rules.verdict_after_append(
            required_offset,
            self.log.high_watermark,
            len(progress.maximal_isr),
            progress.replica_count,
            self.min_isr,
        )

    def delete_records_on_leader(self, offset: int) -> int:
        """Let the log start at this offset; give the new start."""
        self._require_leader(NO_LEADER_EPOCH)
        if "delete" not in self.log.config.cleanup_policy:
            raise BrokerError(
                ErrorCode.POLICY_VIOLATION, "records of a topic that is only compacted cannot be deleted"
            )
        if offset == TO_HIGH_WATERMARK:
            offset = self.log.high_watermark
        if offset < 0:
            raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is negative")
        self.log.advance_log_start_offset(offset)
        return self.log.log_start_offset

    # Reading.

    def read(
        self,
        asked: FetchPartition,
        bytes_max: int,
        at_least_one: bool,
        isolation: int,
        replica_id: int,
        may_block: bool = True,
    ) -> FetchPartitionData:
        """Batches from the asked offset on, up to what this reader may see.

        ``WouldBlock`` if that would wait for the disk and must not; ``page_in`` helps.
        """
        self._require_leader(asked.current_leader_epoch)
        log = self.log
        high_watermark = log.high_watermark
        stable = log.last_stable_offset
        is_committed = isolation == IsolationLevel.READ_COMMITTED and replica_id < 0
        end_offset = stable if is_committed else high_watermark
        if replica_id >= 0:
            self._require_follower(replica_id, asked.current_leader_epoch)
            end_offset = log.log_end_offset
        if asked.last_fetched_epoch >= 0:
            diverging = self._diverging(asked)
            if diverging is not None:
                result = FetchPartitionData(
                    asked, ErrorCode.NONE, high_watermark, stable, log.log_start_offset
                )
                result.diverging_epoch, result.diverging_end_offset = diverging
                return result
        try:
            fetched = log.read(asked.fetch_offset, bytes_max, end_offset, at_least_one, may_block)
            aborted = (
                log.aborted_transactions_in(asked.fetch_offset, fetched, may_block) if is_committed else None
            )
        except StorageError as broken:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(broken)) from broken
        data = b"" if fetched.first_entry_incomplete else fetched.data
        result = FetchPartitionData(
            asked, ErrorCode.NONE, high_watermark, stable, log.log_start_offset, data, len(data)
        )
        if aborted:
            result.aborted = [(one.producer_id, one.first_offset) for one in aborted]
        return result

    async def page_in(self, asked: FetchPartition, why: WouldBlock) -> None:
        """Have in memory what a read said it would have waited for."""
        await page_in.load(self.log.segments, asked.fetch_offset, why)

    def offload_read(self, work: Callable[[], T]) -> Awaitable[T]:
        """Read from this partition's files away from the loop."""
        return self.log.segments[0].context.files.offload_read(work)

    def has_changed_since(self, result: FetchPartitionData) -> bool:
        """Whether reading again could give anything else."""
        return (
            self.log.high_watermark != result.high_watermark
            or self.log.last_stable_offset != result.last_stable_offset
            or self.log.log_start_offset != result.log_start_offset
            or not self.is_leader
        )

    def _diverging(self, asked: FetchPartition) -> tuple[int, int] | None:
        """KIP-595: where a reader's log leaves this one, by the epoch of the last batch it fetched."""
        epoch, end_offset = self.log.end_offset_for_epoch(asked.last_fetched_epoch)
        if epoch == NO_LEADER_EPOCH and end_offset == UNKNOWN_OFFSET:
            raise BrokerError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"no epoch up to {asked.last_fetched_epoch} is known"
            )
        if epoch < asked.last_fetched_epoch or end_offset < asked.fetch_offset:
            return epoch, end_offset
        return None

    # Looking up offsets.

    def find_special_offset(
        self, timestamp: int, isolation: int, current_leader_epoch: int, replica_id: int
    ) -> TimestampAndOffset:
        """The offset of one of the places that negative timestamps stand for."""
        self._require_readable(current_leader_epoch, replica_id)
        log = self.log
        if timestamp == LATEST_TIMESTAMP:
            return TimestampAndOffset(-1, self._readable_end(isolation, replica_id), self.leader_epoch)
        if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            return TimestampAndOffset(-1, log.log_start_offset, log.epochs.epoch_of(log.log_start_offset))
        if timestamp == LATEST_TIERED_TIMESTAMP:
            return NOT_FOUND
        raise BrokerError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"timestamp {timestamp} stands for no place"
        )

    async def find_time(
        self, timestamp: int, isolation: int, current_leader_epoch: int, replica_id: int
    ) -> TimestampAndOffset:
        """The offset of a time, or of the largest one. Old segments are looked into: threads do it."""
        self._require_readable(current_leader_epoch, replica_id)
        try:
            found = await self._search(timestamp)
        except OSError as error:
            raise BrokerError(
                ErrorCode.KAFKA_STORAGE_ERROR, str(self.log.storage_error(error, "search"))
            ) from error
        self._require_readable(current_leader_epoch, replica_id)
        if found is None or found.offset >= self._readable_end(isolation, replica_id):
            return NOT_FOUND
        return TimestampAndOffset(*found)

    def _search(self, timestamp: int) -> Awaitable[TimestampOffset | None]:
        log, start = self.log, self.log.log_start_offset
        if timestamp == MAX_TIMESTAMP:
            return page_in.search(log.segments, LogSegments.find_max_timestamp)
        return page_in.find_offset_by_timestamp(log.segments, timestamp, start)

    def legacy_offsets_for_timestamp(
        self, timestamp: int, count_max: int, replica_id: int, now_ms: int
    ) -> list[int]:
        """ListOffsets 0: consumers are capped at the high watermark."""
        self._require_readable(NO_LEADER_EPOCH, replica_id)
        offsets = self.log.legacy_offsets_before(timestamp, count_max, now_ms)
        limit = self._readable_end(IsolationLevel.READ_UNCOMMITTED, replica_id)
        if not offsets or offsets[0] <= limit:
            return offsets
        return [limit, *(offset for offset in offsets if offset < limit)][:count_max]

    def last_offset_for_leader_epoch(self, leader_epoch: int, current_leader_epoch: int) -> tuple[int, int]:
        """The largest epoch not above this one, and where it ends."""
        self._require_leader(current_leader_epoch)
        return self.log.end_offset_for_epoch(leader_epoch)

    def _readable_end(self, isolation: int, replica_id: int) -> int:
        if replica_id != CONSUMER_REPLICA_ID:
            return self.log.log_end_offset
        if isolation == IsolationLevel.READ_COMMITTED:
            return self.log.last_stable_offset
        return self.log.high_watermark

    # Fences.

    def _require_readable(self, current_leader_epoch: int, replica_id: int) -> None:
        if replica_id == DEBUGGING_CONSUMER_ID:
            self._check_epoch(current_leader_epoch)
        else:
            self._require_leader(current_leader_epoch)

    def _require_leader(self, current_leader_epoch: int) -> None:
        if current_leader_epoch != self.leader_epoch:
            self._check_epoch(current_leader_epoch)
        if not self.is_leader:
            raise BrokerError(self._why_not_leader())

    def _require_follower(self, replica_id: int, current_leader_epoch: int) -> None:
        """Refuse a fetch in the name of a broker that is not an assigned follower."""
        if self._progress is None or self._progress.follower(replica_id) is None:
            raise BrokerError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER
                if current_leader_epoch == NO_LEADER_EPOCH
                else ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"broker {replica_id} is not a follower of {self.topic_partition}",
            )

    def _check_epoch(self, current_leader_epoch: int) -> None:
        """KIP-320: a client with an older epoch must refresh, one with a newer epoch must wait for us."""
        if current_leader_epoch == NO_LEADER_EPOCH:
            return
        if current_leader_epoch < self.leader_epoch:
            raise BrokerError(
                ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {self.leader_epoch} by now"
            )
        if current_leader_epoch > self.leader_epoch:
            raise BrokerError(
                ErrorCode.UNKNOWN_LEADER_EPOCH, f"leader epoch {current_leader_epoch} is not known here yet"
            )
