"""The rules of acks and min.insync.replicas: checks before an append, and its outcome after.

With acks=all a leader appends only while the ISR has at least min.insync.replicas members, and acknowledges
once the high watermark has passed the records. If the ISR shrank below the minimum in between, the response
is NOT_ENOUGH_REPLICAS_AFTER_APPEND although the records are in the log. acks=0 and acks=1 require nothing
of followers.
"""

from __future__ import annotations

from typing import Final

from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import ACKS_ALL, ACKS_LEADER, ACKS_NONE

_VALID_ACKS: Final = frozenset({ACKS_ALL, ACKS_NONE, ACKS_LEADER})


def is_valid_required_acks(acks: int) -> bool:
    """Return whether a produce request may carry this value; if not, it fails with INVALID_REQUIRED_ACKS."""
    return acks in _VALID_ACKS


def effective_min_isr(min_isr: int, replica_count: int) -> int:
    """Return min.insync.replicas, capped at the replication factor."""
    return min_isr if min_isr < replica_count else replica_count


def check_before_append(acks: int, isr_count: int, replica_count: int, min_isr: int) -> None:
    """Raise NOT_ENOUGH_REPLICAS if an append with acks=all could not be acknowledged."""
    if acks != ACKS_ALL or isr_count >= min_isr:
        return
    required = effective_min_isr(min_isr, replica_count)
    if isr_count < required:
        raise BrokerError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"acks=all requires {required} in-sync replicas, the ISR has {isr_count}",
        )


def error_after_append(
    required_offset: int, high_watermark: int, maximal_isr_count: int, replica_count: int, min_isr: int
) -> ErrorCode | None:
    """Return the error code of an append with acks=all; None while its records are not committed.

    ``required_offset`` is the offset after the last record. The maximal ISR counts, which includes members
    that are proposed and not yet confirmed.
    """
    if high_watermark < required_offset:
        return None
    if maximal_isr_count < effective_min_isr(min_isr, replica_count):
        return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    return ErrorCode.NONE
