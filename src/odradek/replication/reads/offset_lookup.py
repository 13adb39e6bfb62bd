"""Offsets by timestamp and by leader epoch, for ListOffsets and OffsetForLeaderEpoch.

Consumers see offsets up to the high watermark, or to the last stable offset; replicas and debugging tools up
to the log end offset.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, NamedTuple

from odradek.log.log import Log
from odradek.log.segments import page_in
from odradek.log.segments.log_segment import TimestampOffset
from odradek.log.segments.log_segments import LogSegments, legacy_offsets_before
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import NO_LEADER_EPOCH, UNKNOWN_OFFSET
from odradek.model.protocol_enums import IsolationLevel
from odradek.replication.leader_epochs import check_leader_epoch
from odradek.replication.partition import CONSUMER_REPLICA_ID, DEBUGGING_CONSUMER_ID, Partition

# Special timestamps of ListOffsets.
LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5


def requires_timestamp_search(timestamp: int) -> bool:
    """Return whether ListOffsets has to search the log for this timestamp."""
    return timestamp >= 0 or timestamp == MAX_TIMESTAMP


class TimestampAndOffset(NamedTuple):
    timestamp: int = -1
    offset: int = UNKNOWN_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH


NOT_FOUND: Final = TimestampAndOffset()


def find_special_offset(
    partition: Partition, timestamp: int, isolation: int, current_leader_epoch: int, replica_id: int
) -> TimestampAndOffset:
    """Return the offset of a special timestamp."""
    _require_readable(partition, current_leader_epoch, replica_id)
    log = partition.log
    if timestamp == LATEST_TIMESTAMP:
        _check_offsets_available(partition, replica_id)
        return TimestampAndOffset(
            -1, _end_offset_for(partition, isolation, replica_id), partition.leader_epoch
        )
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        return TimestampAndOffset(-1, log.log_start_offset, log.epochs.epoch_of(log.log_start_offset))
    if timestamp == LATEST_TIERED_TIMESTAMP:
        return NOT_FOUND
    raise BrokerError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"unknown special timestamp {timestamp}")


async def find_offset_by_timestamp(
    partition: Partition, timestamp: int, isolation: int, current_leader_epoch: int, replica_id: int
) -> TimestampAndOffset:
    """Search the offset of a timestamp, or of the largest one. Old segments are read on threads."""
    _require_readable(partition, current_leader_epoch, replica_id)
    try:
        match = await _search(partition.log, timestamp)
    except OSError as error:
        raise BrokerError(
            ErrorCode.KAFKA_STORAGE_ERROR, str(partition.log.disk_health.error_for(error, "search"))
        ) from error
    _require_readable(partition, current_leader_epoch, replica_id)
    if match is None or match.offset >= _end_offset_for(partition, isolation, replica_id):
        _check_offsets_available(partition, replica_id)
        return NOT_FOUND
    return TimestampAndOffset(*match)


def _search(log: Log, timestamp: int) -> Awaitable[TimestampOffset | None]:
    if timestamp == MAX_TIMESTAMP:
        return page_in.search(log.segments, LogSegments.find_max_timestamp)
    return page_in.find_offset_by_timestamp(log.segments, timestamp, log.log_start_offset)


def legacy_offsets_for_timestamp(
    partition: Partition, timestamp: int, count_max: int, replica_id: int, now_ms: int
) -> list[int]:
    """Return segment base offsets for ListOffsets version 0, for consumers up to the high watermark."""
    _require_readable(partition, NO_LEADER_EPOCH, replica_id)
    log = partition.log
    offsets = legacy_offsets_before(
        log.segments, timestamp, count_max, log.log_start_offset, log.log_end_offset, now_ms
    )
    limit = _end_offset_for(partition, IsolationLevel.READ_UNCOMMITTED, replica_id)
    if not offsets or offsets[0] <= limit:
        return offsets
    return [limit, *(offset for offset in offsets if offset < limit)][:count_max]


def last_offset_for_leader_epoch(
    partition: Partition, leader_epoch: int, current_leader_epoch: int
) -> tuple[int, int]:
    """Return the largest epoch that is not above this one, and its end offset."""
    partition.require_leader(current_leader_epoch)
    return partition.log.end_offset_for_epoch(leader_epoch)


def _check_offsets_available(partition: Partition, replica_id: int) -> None:
    leader = partition.leader_state
    if replica_id == CONSUMER_REPLICA_ID and leader is not None:
        leader.check_offsets_available(partition.log.high_watermark)


def _end_offset_for(partition: Partition, isolation: int, replica_id: int) -> int:
    if replica_id != CONSUMER_REPLICA_ID:
        return partition.log.log_end_offset
    if isolation == IsolationLevel.READ_COMMITTED:
        return partition.log.last_stable_offset
    return partition.log.high_watermark


def _require_readable(partition: Partition, current_leader_epoch: int, replica_id: int) -> None:
    if replica_id == DEBUGGING_CONSUMER_ID:
        check_leader_epoch(current_leader_epoch, partition.leader_epoch)
    else:
        partition.require_leader(current_leader_epoch)
