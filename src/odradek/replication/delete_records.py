"""DeleteRecords on the leader of a partition. ``DelayedDeleteRecords`` waits for the other replicas."""

from __future__ import annotations

from typing import Final, NamedTuple

from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import NO_LEADER_EPOCH
from odradek.replication.partition import Partition

HIGH_WATERMARK: Final = -1
"""Offset in DeleteRecords that stands for the high watermark."""


class DeletedRecords(NamedTuple):
    """Result of DeleteRecords on the leader: complete once the low watermark reaches the offset."""

    requested_offset: int
    low_watermark: int


def delete_records_on_leader(partition: Partition, offset: int) -> DeletedRecords:
    """Advance the log start offset. Followers learn of it from their next fetch response."""
    partition.require_leader(NO_LEADER_EPOCH)
    log = partition.log
    if "delete" not in log.config.cleanup_policy:
        raise BrokerError(
            ErrorCode.POLICY_VIOLATION, "DeleteRecords requires a cleanup.policy that includes delete"
        )
    if offset == HIGH_WATERMARK:
        offset = log.high_watermark
    if offset < 0:
        raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset must be >= 0, got {offset}")
    log.advance_log_start_offset(offset)
    return DeletedRecords(offset, partition.low_watermark())
