"""A partition's log: appends, reads by offset, lookups by timestamp.

Offsets only increase. ``LocalLog`` manages the files.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from odradek.log.leader_epoch_cache import EpochEnd
from odradek.log.local_log import LocalLog
from odradek.log.producers.producer_states import ProducerStates
from odradek.log.segments.log_segments import fetch_slice
from odradek.log.segments.results import EMPTY_FETCH, FetchDataInfo, LogAppendInfo
from odradek.log.segments.segment_format import RELATIVE_OFFSET_MAX, Buffer
from odradek.log.segments.transaction_index import AbortedTransaction
from odradek.model.errors import BrokerError, ErrorCode
from odradek.ports.files import FileSlice
from odradek.records.append_rules import NO_LIMITS, AppendRules, WorkLimits
from odradek.records.control_records import EndTransactionMarker, build_end_marker
from odradek.records.layout import BatchHeader
from odradek.records.validation import (
    PRODUCE_VERSION_LATEST,
    AppendOrigin,
    ValidatedRecords,
    reassign_offsets,
    validate_and_assign_offsets,
    validate_replicated,
)

__all__ = ["LogAppendInfo", "FetchDataInfo", "Log"]

RECENT_BYTES_MAX: Final = 16 * 1024 * 1024
"""Data within this distance of the log end is certainly in memory; older data is checked."""


class Log(LocalLog):
    """Log of one partition, opened by ``open_log``."""

    __slots__ = ()

    # Appends.

    @property
    def append_rules(self) -> AppendRules:
        """Rules that produced batches are validated against."""
        return self._rules

    def append_as_leader(
        self,
        buffer: Buffer,
        leader_epoch: int,
        now_ms: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        produce_version: int = PRODUCE_VERSION_LATEST,
        limits: WorkLimits = NO_LIMITS,
    ) -> LogAppendInfo:
        """Validate produced batches, assign offsets and append them. Takes ownership of the buffer.

        Raises ``LimitExceeded`` without any change if validation exceeds ``limits``.
        """
        validated = validate_and_assign_offsets(
            buffer,
            next_offset=self.log_end_offset,
            leader_epoch=leader_epoch,
            now_ms=now_ms,
            rules=self._rules,
            origin=origin,
            produce_version=produce_version,
            limits=limits,
        )
        return self._append_validated(validated, now_ms, origin)

    def append_validated(self, validated: ValidatedRecords, leader_epoch: int, now_ms: int) -> LogAppendInfo:
        """Append batches that were validated for another offset or leader epoch."""
        return self._append_validated(
            reassign_offsets(validated, self.log_end_offset, leader_epoch), now_ms, AppendOrigin.CLIENT
        )

    def _append_validated(
        self, validated: ValidatedRecords, now_ms: int, origin: AppendOrigin
    ) -> LogAppendInfo:
        headers = validated.headers
        if not headers:
            return LogAppendInfo(-1, -1, -1, self.log_start_offset)
        self.disk_health.check()  # for a duplicate too: the first append may be lost
        if headers[0].producer_id >= 0:
            duplicate = self._producers.check(headers[0], validated.data, origin)
            if duplicate is not None:
                return LogAppendInfo(
                    duplicate.first_offset,
                    duplicate.last_offset,
                    duplicate.timestamp,
                    self.log_start_offset,
                    is_duplicate=True,
                )
        size_bytes = len(validated.data)
        if size_bytes > self._config.segment_bytes:
            raise BrokerError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"size must be <= {self._config.segment_bytes} (segment.bytes), got {size_bytes}",
            )
        self._append(validated.data, size_bytes, headers, validated.max_timestamp, now_ms)
        return LogAppendInfo(
            validated.first_offset,
            validated.last_offset,
            validated.append_time_ms,
            self.log_start_offset,
            validated.record_count,
            size_bytes,
        )

    def append_as_follower(self, buffer: Buffer, leader_epoch: int, now_ms: int) -> LogAppendInfo:
        """Append fetched batches byte for byte, at the offsets that the leader assigned.

        Skips an incomplete last batch and batches with a leader epoch > ``leader_epoch``. Raises
        CORRUPT_MESSAGE for a batch that must be fetched again.
        """
        headers = validate_replicated(buffer, leader_epoch=leader_epoch)
        if not headers:
            return LogAppendInfo(-1, -1, -1, self.log_start_offset)
        first, last = headers[0], headers[-1]
        if first.base_offset < self.log_end_offset:
            self._admit_earlier_batch(first, now_ms)
        data = memoryview(buffer)[: last.end_position]
        offset_range = last.last_offset - first.base_offset
        if len(data) <= self._config.segment_bytes and offset_range <= RELATIVE_OFFSET_MAX:
            self._append(data, len(data), headers, max(header.max_timestamp for header in headers), now_ms)
        else:
            for header in headers:
                batch = data[header.position : header.end_position]
                self._append(batch, len(batch), [header], header.max_timestamp, now_ms)
        count = sum(header.last_offset_delta + 1 for header in headers)
        return LogAppendInfo(first.base_offset, last.last_offset, -1, self.log_start_offset, count, len(data))

    def _admit_earlier_batch(self, first: BatchHeader, now_ms: int) -> None:
        """Admit a first batch that contains the log end offset and starts below it, if it overlaps no other.

        The leader returns such a batch if its log start offset is inside it and this log is empty: then this
        log starts with that batch, as in Kafka. It also does if a truncation inside a batch has removed all
        of that batch here.
        """
        if first.base_offset < self.log_end_offset <= first.last_offset:
            if first.base_offset >= self._segments[-1].next_offset():
                # Epochs that start in the hole have no batch.
                self.epochs.truncate_from_end(first.base_offset)
                return
            if self.log_start_offset == self.log_end_offset:
                self.truncate_fully_and_start_at(first.base_offset, now_ms)
                return
        raise BrokerError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"replicated base offset must be >= {self.log_end_offset}, got {first.base_offset}",
        )

    def _append(
        self, data: Buffer, size_bytes: int, headers: Sequence[BatchHeader], max_timestamp: int, now_ms: int
    ) -> None:
        """Append validated batches: all of them or, on an error, none."""
        self.disk_health.check()
        last = headers[-1]
        last_offset = last[1] + last[7]
        active = self._active
        if active is None:
            active = self._activate(now_ms)
        if max_timestamp > active.roll_above_ms or not active.has_room(size_bytes, last_offset):
            is_full = not active.has_room(size_bytes, last_offset)
            if active.size and (is_full or active.is_too_old(max_timestamp, now_ms)):
                active = self.roll(now_ms)
            if last_offset - active.base_offset > RELATIVE_OFFSET_MAX:
                active = self.roll(now_ms, headers[0].base_offset)
        try:
            active.append(data, headers)
        except OSError as error:
            raise self.disk_health.error_for(error, "append to") from error
        self.log_end_offset = last_offset + 1
        position = 0
        for header in headers:
            if header.producer_id >= 0:
                aborted = self._producers.update(header, data, position)
                if aborted is not None:
                    active.add_aborted(aborted)
            position += header.size_bytes
        if last[3] != self.epochs.latest:
            for header in headers:
                self._update_epochs(header)

    def _update_epochs(self, header: BatchHeader) -> None:
        if header.magic >= 2 and header.leader_epoch >= 0:
            self.epochs.assign(header.leader_epoch, header.base_offset)

    def assign_leader_epoch(self, leader_epoch: int) -> None:
        """Record that a leader epoch starts at the log end offset, before its first append."""
        self.epochs.assign(leader_epoch, self.log_end_offset)

    def skip_to(self, offset: int, now_ms: int) -> None:
        """Advance the log end offset, for a copy of a log whose last offsets have no batch."""
        if offset > self.log_end_offset:
            self.roll(now_ms, offset)
            self.log_end_offset = offset

    # Reads.

    def read(
        self,
        offset: int,
        bytes_max: int,
        end_offset: int | None = None,
        at_least_one: bool = True,
        may_block: bool = True,
    ) -> FetchDataInfo:
        """Return batches from the one that contains ``offset``, all of them below ``end_offset``.

        At most ``bytes_max`` bytes, unless the first batch is larger and ``at_least_one`` is set. Raises
        ``WouldBlock`` if the lookup would wait for the disk and ``may_block`` is not set.
        """
        if end_offset is None or end_offset > self.log_end_offset:
            end_offset = self.log_end_offset
        active = self._active
        if active is None or not active.tail_floor <= offset < end_offset or offset < self.log_start_offset:
            return self._read_anywhere(offset, bytes_max, end_offset, at_least_one, may_block)
        offsets, positions = active.tail_offsets, active.tail_positions
        first = bisect_left(offsets, offset)
        if first == len(offsets):
            return EMPTY_FETCH  # a truncation inside a batch left no batch at the log end
        position = positions[first]
        end = active.size
        if end_offset != self.log_end_offset:
            after = bisect_left(offsets, end_offset, first)
            if after < len(offsets):
                end = positions[after]
        size_bytes = end - position
        is_recent = size_bytes < RECENT_BYTES_MAX
        if size_bytes <= bytes_max:
            part = FileSlice(active.log_file, position, size_bytes, is_recent)
            return FetchDataInfo(part, False, active) if size_bytes else EMPTY_FETCH
        first_bytes = (positions[first + 1] if first + 1 < len(offsets) else active.size) - position
        return fetch_slice(active, position, size_bytes, first_bytes, bytes_max, at_least_one, is_recent)

    def _read_anywhere(
        self, offset: int, bytes_max: int, end_offset: int, at_least_one: bool, may_block: bool
    ) -> FetchDataInfo:
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise BrokerError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset must be within {self.log_start_offset} to {self.log_end_offset}, got {offset}",
            )
        if offset >= end_offset:
            return EMPTY_FETCH
        context = self._context
        context.may_block = may_block
        try:
            return self._segments.read(offset, bytes_max, end_offset, self.log_end_offset, at_least_one)
        except OSError as error:
            raise self.disk_health.error_for(error, "read") from error
        finally:
            context.may_block = True

    # Leader epochs.

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEnd:
        """Return the end offset of ``leader_epoch``, or of the largest known epoch below it."""
        return self.epochs.end_offset_for(leader_epoch, self.log_end_offset)

    # Producers.

    @property
    def producers(self) -> ProducerStates:
        """State of idempotent and transactional producers."""
        return self._producers.states

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Remove producers idle for ``expiration_ms``; return their number."""
        return self._producers.expire(now_ms, expiration_ms)

    # Transactions.

    def append_end_marker(
        self,
        marker: EndTransactionMarker,
        producer_id: int,
        producer_epoch: int,
        leader_epoch: int,
        now_ms: int,
    ) -> LogAppendInfo:
        """Append the marker that ends a producer's transaction.

        Raises INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED if the producer or the coordinator was
        fenced. A marker without an open transaction is appended too: its epochs count.
        """
        batch = build_end_marker(
            marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=now_ms
        )
        return self.append_as_leader(bytearray(batch), leader_epoch, now_ms, origin=AppendOrigin.COORDINATOR)

    def aborted_transactions_between(
        self, from_offset: int, end_offset: int, may_block: bool = True
    ) -> list[AbortedTransaction]:
        """Return the aborted transactions with records in [``from_offset``, ``end_offset``), perhaps more.

        READ_COMMITTED consumers skip their records. Raises ``WouldBlock`` if that would wait for the disk and
        ``may_block`` is not set.
        """
        try:
            return self._segments.aborted_transactions_between(from_offset, end_offset, may_block)
        except OSError as error:
            raise self.disk_health.error_for(error, "read") from error

    def aborted_transactions_in(
        self, offset: int, fetched: FetchDataInfo, may_block: bool = True
    ) -> list[AbortedTransaction]:
        """Return the aborted transactions for a read from ``offset``."""
        if fetched.segment is None:
            return []
        end_offset = self._segments.end_offset_of(fetched, self.log_end_offset)
        return self.aborted_transactions_between(offset, end_offset, may_block)
