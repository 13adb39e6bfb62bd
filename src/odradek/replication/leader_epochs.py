"""Rules of leader epochs in requests: fencing (KIP-320) and diverging logs (KIP-595)."""

from __future__ import annotations

from odradek.log.log import Log
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import NO_LEADER_EPOCH, UNKNOWN_OFFSET


def check_leader_epoch(current_leader_epoch: int, leader_epoch: int) -> None:
    """Fence a request by the leader epoch its sender knows, if it names one.

    With an older one than ``leader_epoch`` the sender must refresh its metadata, with a newer one retry.
    """
    if current_leader_epoch == NO_LEADER_EPOCH:
        return
    if current_leader_epoch < leader_epoch:
        raise BrokerError(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"leader epoch {current_leader_epoch} is older than {leader_epoch}",
        )
    if current_leader_epoch > leader_epoch:
        raise BrokerError(
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"leader epoch {current_leader_epoch} is newer than {leader_epoch}",
        )


def find_diverging_epoch(log: Log, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | None:
    """Return epoch and end offset where the reader's log diverges from this one, or None.

    The reader's last batch has ``last_fetched_epoch`` and ends at ``fetch_offset``.
    """
    epoch, end_offset = log.end_offset_for_epoch(last_fetched_epoch)
    if epoch == NO_LEADER_EPOCH and end_offset == UNKNOWN_OFFSET:
        raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, f"no leader epoch <= {last_fetched_epoch} is known")
    if fetch_offset < log.log_start_offset:
        raise BrokerError(
            ErrorCode.OFFSET_OUT_OF_RANGE, f"offset must be >= {log.log_start_offset}, got {fetch_offset}"
        )
    if epoch < last_fetched_epoch or end_offset < fetch_offset:
        return epoch, end_offset
    return None
