"""A partition's replica on this broker, as leader or as follower.

The leader appends, advances the high watermark and serves reads; all of it is fenced by the leader epoch. A
partition with one replica follows the same rules: its high watermark is its log end offset at once.

Invariants: a partition has a ``Leader``, a ``Follower`` or neither (new, stopped, offline), and a change of
role replaces them whole; a replaced ``Follower`` is not active any more, so a fetcher that still holds it
cannot write. Changes of role do not await: no request sees one in progress.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from odradek.log.log import Log, LogAppendInfo
from odradek.log.log_config import LogConfig
from odradek.log.producers.producer_states import ProducerStates
from odradek.log.segments import page_in
from odradek.log.segments.log_segment import WouldBlock
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.model.ids import (
    NO_LEADER,
    NO_LEADER_EPOCH,
    ZERO_TOPIC_ID,
    TopicId,
    TopicPartition,
)
from odradek.model.protocol_enums import ACKS_ALL, IsolationLevel
from odradek.ports.files import Buffer
from odradek.records.append_rules import EVENT_LOOP_LIMITS, AppendOrigin
from odradek.records.control_records import EndTransactionMarker
from odradek.records.validation import ValidatedRecords
from odradek.replication import acks as ack_rules
from odradek.replication.fetch_sessions.fetch_partition import FetchPartition, FetchPartitionData
from odradek.replication.follower import Follower
from odradek.replication.leader import IsrChange, IsrChangeOutcome, IsrChangeResult, Leader
from odradek.replication.leader_epochs import check_leader_epoch, find_diverging_epoch
from odradek.wire.messages.leader_and_isr import LeaderAndIsrPartitionState

T = TypeVar("T")

CONSUMER_REPLICA_ID: Final = -1
"""Replica id in the fetch requests of consumers."""
DEBUGGING_CONSUMER_ID: Final = -2
"""Replica id of debugging tools: they may read a follower, up to its log end offset."""


class Partition:
    __slots__ = (
        "_new_leader",
        "broker_id",
        "follower_state",
        "future_log",
        "is_flush_pending",
        "is_leader",
        "is_offline",
        "leader",
        "leader_epoch",
        "leader_state",
        "log",
        "min_isr",
        "partition_epoch",
        "queued_appends",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        log: Log,
        broker_id: int,
        min_isr: int,
        new_leader: Callable[[], Leader],
    ) -> None:
        """``new_leader`` makes the state of a leadership that begins."""
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.broker_id = broker_id
        self.min_isr = min_isr
        self.is_leader = False
        self.is_flush_pending = False
        """True while the last append must be flushed before it is acknowledged and read."""
        self.queued_appends = 0
        """Number of connections with appends in the ``AppendQueue``."""
        self.is_offline = False
        self.leader = NO_LEADER
        self.leader_epoch = NO_LEADER_EPOCH
        self.partition_epoch = -1
        self.leader_state: Leader | None = None
        self.follower_state: Follower | None = None
        self.future_log: Log | None = None
        """Copy of the log in another directory, while it moves there."""
        self._new_leader = new_leader

    # State of the log for requests and coordinators. The hot path of produce reads it directly.

    @property
    def config(self) -> LogConfig:
        return self.log.config

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def producers(self) -> ProducerStates:
        """State of idempotent and transactional producers."""
        return self.log.producers

    # Roles.

    def make_leader(self, state: LeaderAndIsrPartitionState, topic_id: TopicId) -> bool:
        """Become leader, or take over a new assignment and ISR; return whether role or epoch changed.

        A lower partition epoch than the current one is outdated and ignored.
        """
        if state.partition_epoch < self.partition_epoch:
            return False
        is_new = self.leader_state is None or state.leader_epoch > self.leader_epoch
        leader = self.leader_state or self._new_leader()
        if is_new:
            # Followers may have records of epochs that this log does not know: the new epoch, which is higher
            # than all of them, tells them where to truncate, even before its first record.
            self.log.assign_leader_epoch(state.leader_epoch)
            # A follower has appended records that it had not flushed yet, or a restart has recovered some.
            self.is_flush_pending = self.is_flush_pending or self.log.is_flush_due
        leader.update_assignment_and_isr(
            tuple(state.replicas),
            tuple(state.isr),
            state.leader_epoch,
            state.partition_epoch,
            self.log.log_end_offset,
        )
        self._replace_roles(leader, None)
        self._set_epochs(state, topic_id)
        self._advance_high_watermark()
        return is_new

    def make_follower(self, state: LeaderAndIsrPartitionState, topic_id: TopicId) -> bool:
        """Become follower; return whether leader or epoch changed, after which fetching starts again.

        A lower partition epoch than the current one is outdated and ignored.
        """
        if state.partition_epoch < self.partition_epoch:
            return False
        follower = self.follower_state
        is_new = (
            follower is None or state.leader != follower.leader_id or state.leader_epoch > self.leader_epoch
        )
        if is_new:
            follower = Follower(self.topic_partition, self.log, state.leader, state.leader_epoch)
        self._replace_roles(None, follower)
        self._set_epochs(state, topic_id)
        return is_new

    def delete(self) -> None:
        """Stop this replica. Delayed requests for it then complete with NOT_LEADER_OR_FOLLOWER."""
        self._replace_roles(None, None)

    def mark_offline(self) -> None:
        """Stop this replica because its log failed. Delayed requests complete with KAFKA_STORAGE_ERROR."""
        self.delete()
        self.is_offline = True

    def replace_log(self, log: Log) -> None:
        """Continue with a copy of the log, in another directory."""
        self.log = log
        if self.follower_state is not None:
            self.follower_state.log = log

    def assign_topic_id(self, topic_id: TopicId) -> None:
        """Set the topic id of a partition that had none: the cluster begins to use them."""
        self.log.assign_topic_id(topic_id)
        self.topic_id = topic_id

    def _replace_roles(self, leader: Leader | None, follower: Follower | None) -> None:
        if self.follower_state is not None and self.follower_state is not follower:
            self.follower_state.is_active = False
        self.leader_state = leader
        self.follower_state = follower
        self.is_leader = leader is not None

    def _set_epochs(self, state: LeaderAndIsrPartitionState, topic_id: TopicId) -> None:
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        if topic_id != ZERO_TOPIC_ID:
            self.topic_id = topic_id

    def _not_leader_error(self) -> ErrorCode:
        return ErrorCode.KAFKA_STORAGE_ERROR if self.is_offline else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _advance_high_watermark(self) -> None:
        leader, log = self.leader_state, self.log
        assert leader is not None
        # Records that flush.messages requires to be flushed are not committed before that.
        end_offset = log.recovery_point if self.is_flush_pending else log.log_end_offset
        log.high_watermark = leader.high_watermark(log.high_watermark, end_offset, self.min_isr)

    # Followers and the ISR.

    @property
    def in_sync_end_offset(self) -> int:
        """Offset below which all in-sync replicas have this leader's log: no clean election loses it.

        At least the high watermark, which also stands still while the ISR is below min.insync.replicas.
        """
        leader, log = self.leader_state, self.log
        flushed_end = log.recovery_point if self.is_flush_pending else log.log_end_offset
        if leader is None:
            return log.high_watermark
        return leader.high_watermark(log.high_watermark, flushed_end, 0)

    def is_in_isr(self, broker_id: int) -> bool:
        return self.leader_state is not None and broker_id in self.leader_state.isr

    def is_safely_in_isr(self, broker_id: int) -> bool:
        """Return whether a follower is in the ISR, and no change is pending that may remove it."""
        leader = self.leader_state
        return leader is not None and broker_id in leader.isr and not leader.is_isr_change_pending

    def record_follower_fetch(self, broker_id: int, fetch_offset: int, log_start_offset: int) -> None:
        """Record that a follower has everything below an offset, after a successful read for it.

        Its proposal for the ISR, if any, must be made before ``advance_high_watermark``: a follower that may
        join must hold the high watermark back, or it would never reach it.
        """
        leader = self.leader_state
        replica = None if leader is None else leader.replica(broker_id)
        if leader is not None and replica is not None:
            leader.record_fetch(replica, fetch_offset, log_start_offset, self.log.log_end_offset)

    def advance_high_watermark(self) -> bool:
        """Advance the high watermark as far as replicas and ISR allow; return whether it moved."""
        if self.leader_state is None:
            return False
        before = self.log.high_watermark
        self._advance_high_watermark()
        return self.log.high_watermark != before

    def propose_isr_expansion(self, broker_id: int) -> IsrChange | None:
        """Propose to the controller that a follower joins the ISR, if it may."""
        leader = self.leader_state
        isr = None if leader is None else leader.maybe_expand_isr(broker_id, self.log.high_watermark)
        return None if leader is None or isr is None else leader.propose_isr(isr)

    def propose_isr_shrink(self) -> IsrChange | None:
        """Propose to the controller that lagging followers leave the ISR, if there are any."""
        leader = self.leader_state
        isr = None if leader is None else leader.maybe_shrink_isr(self.log.log_end_offset)
        return None if leader is None or isr is None else leader.propose_isr(isr)

    def complete_isr_change(self, change: IsrChange, result: IsrChangeResult) -> IsrChangeOutcome:
        """Apply the controller's response to a proposal, which may belong to an earlier leadership."""
        leader = self.leader_state
        if leader is None:
            return IsrChangeOutcome.IGNORED
        outcome = leader.complete_isr_change(change, result)
        self.partition_epoch = leader.partition_epoch
        return outcome

    def low_watermark(self) -> int:
        """Return the smallest log start offset of all live replicas, the future log included."""
        leader = self.leader_state
        if leader is None:
            raise BrokerError(self._not_leader_error())
        low_watermark = leader.low_watermark(self.log.log_start_offset)
        future = self.future_log
        return low_watermark if future is None else min(low_watermark, future.log_start_offset)

    # Writing.

    def append(self, records: Buffer | None, acks: int, produce_version: int, now_ms: int) -> LogAppendInfo:
        """Append a producer's records, and advance the high watermark if no follower holds it back.

        If ``is_flush_pending`` is set afterwards, the caller starts a flush and calls ``on_flushed`` at its
        end. Raises ``WorkLimitExceeded`` if the records must first be validated off the event loop.
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
        except StorageError as error:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        if self.log.is_flush_due:
            self.is_flush_pending = True
        self._advance_high_watermark()
        return appended

    def append_validated(self, validated: ValidatedRecords, acks: int, now_ms: int) -> LogAppendInfo:
        """Append records that are already validated; otherwise like ``append``."""
        log, epoch = self.log, self.leader_epoch
        return self._append_checked(acks, lambda: log.append_validated(validated, epoch, now_ms))

    def append_end_marker(
        self, marker: EndTransactionMarker, producer_id: int, producer_epoch: int, now_ms: int
    ) -> LogAppendInfo:
        """Append a transaction marker, with acks=all.

        As after any append, the caller completes delayed fetches: the last stable offset may have moved.
        """
        log, epoch = self.log, self.leader_epoch
        return self._append_checked(
            ACKS_ALL, lambda: log.append_end_marker(marker, producer_id, producer_epoch, epoch, now_ms)
        )

    def append_as_coordinator(self, batch: bytearray, now_ms: int) -> LogAppendInfo:
        """Append a batch of a coordinator on this broker, with acks=all. For flushes see ``append``."""
        log, epoch = self.log, self.leader_epoch
        return self._append_checked(
            ACKS_ALL, lambda: log.append_as_leader(batch, epoch, now_ms, origin=AppendOrigin.COORDINATOR)
        )

    def _append_checked(self, acks: int, append: Callable[[], LogAppendInfo]) -> LogAppendInfo:
        self._check_before_append(acks)
        try:
            appended = append()
        except StorageError as error:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        if self.log.is_flush_due:
            self.is_flush_pending = True
        self._advance_high_watermark()
        return appended

    def _check_before_append(self, acks: int) -> None:
        leader = self.leader_state
        if leader is None:
            raise BrokerError(self._not_leader_error())
        if acks == ACKS_ALL:
            ack_rules.check_before_append(acks, len(leader.isr), leader.replica_count, self.min_isr)

    def on_flushed(self) -> None:
        """Advance the high watermark after a flush, to records that waited for it."""
        self.is_flush_pending = self.is_flush_pending and self.log.is_flush_due
        self.advance_high_watermark()

    def check_enough_replicas_reach_offset(
        self, required_offset: int, appended_by: Leader | None
    ) -> ErrorCode | None:
        """Return the error code of an append by this leader; None while its records are not committed.

        A later epoch of the same leader continues its log. After another leader the records may be gone.
        """
        leader = self.leader_state
        if leader is None or leader is not appended_by:
            return self._not_leader_error()
        return ack_rules.error_after_append(
            required_offset,
            self.log.high_watermark,
            len(leader.maximal_isr),
            leader.replica_count,
            self.min_isr,
        )

    # Reading.

    def read(
        self,
        request: FetchPartition,
        bytes_max: int,
        at_least_one: bool,
        isolation: int,
        replica_id: int,
        may_block: bool = True,
        only_leader: bool = True,
    ) -> FetchPartitionData:
        """Read batches from the fetch offset on, up to the end that this reader may see.

        A consumer may read a follower (KIP-392) unless ``only_leader``. Raises ``WouldBlock`` instead of
        waiting for the disk unless ``may_block``; ``page_in`` resolves it.
        """
        if request.current_leader_epoch != self.leader_epoch:
            check_leader_epoch(request.current_leader_epoch, self.leader_epoch)
        if not self.is_leader and (only_leader or self.follower_state is None):
            raise BrokerError(self._not_leader_error())
        log = self.log
        high_watermark = log.high_watermark
        stable = log.last_stable_offset
        is_committed = isolation == IsolationLevel.READ_COMMITTED and replica_id < 0
        end_offset = stable if is_committed else high_watermark
        if replica_id >= 0:
            assert self.leader_state is not None, "followers fetch from the leader only"
            self.leader_state.require_follower(replica_id, request.current_leader_epoch)
            end_offset = log.log_end_offset
        if request.last_fetched_epoch >= 0:
            diverging = find_diverging_epoch(log, request.last_fetched_epoch, request.fetch_offset)
            if diverging is not None:
                result = FetchPartitionData(
                    request, ErrorCode.NONE, high_watermark, stable, log.log_start_offset
                )
                result.diverging_epoch, result.diverging_end_offset = diverging
                return result
        try:
            fetched = log.read(request.fetch_offset, bytes_max, end_offset, at_least_one, may_block)
            aborted = (
                log.aborted_transactions_in(request.fetch_offset, fetched, may_block)
                if is_committed
                else None
            )
        except StorageError as error:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        data = b"" if fetched.first_entry_incomplete else fetched.data
        result = FetchPartitionData(
            request, ErrorCode.NONE, high_watermark, stable, log.log_start_offset, data, len(data)
        )
        if aborted:
            result.aborted = [(txn.producer_id, txn.first_offset) for txn in aborted]
        return result

    def read_offsets(self, request: FetchPartition) -> FetchPartitionData:
        """Return a result without records, for a consumer that is sent to another replica."""
        check_leader_epoch(request.current_leader_epoch, self.leader_epoch)
        log = self.log
        return FetchPartitionData(
            request, ErrorCode.NONE, log.high_watermark, log.last_stable_offset, log.log_start_offset
        )

    async def page_in(self, would_block: WouldBlock) -> None:
        """Load into the page cache what a read would have waited for."""
        await page_in.load(self.log.segments, would_block)

    def offload_read(self, work: Callable[[], T]) -> Awaitable[T]:
        """Run a read of this partition's files off the event loop."""
        return self.log.segments[0].context.files.offload_read(work)

    def has_changed_since(self, result: FetchPartitionData, replica_id: int = CONSUMER_REPLICA_ID) -> bool:
        """Return whether reading again could give a different result."""
        return (
            self.log.high_watermark != result.high_watermark
            or self.log.last_stable_offset != result.last_stable_offset
            or self.log.log_start_offset != result.log_start_offset
            or not self.is_leader
            or (replica_id >= 0 and self.log.log_end_offset != result.log_end_offset)
            or result.request.current_leader_epoch not in (NO_LEADER_EPOCH, self.leader_epoch)
        )

    # Fencing.

    def require_leader(self, current_leader_epoch: int) -> None:
        """Raise an error unless this broker leads the partition, in this leader epoch if one is named."""
        if current_leader_epoch != self.leader_epoch:
            check_leader_epoch(current_leader_epoch, self.leader_epoch)
        if not self.is_leader:
            raise BrokerError(self._not_leader_error())
