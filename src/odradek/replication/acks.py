"""What acks and min.insync.replicas demand of an append, before it and after it.

With acks=all a leader appends only while enough replicas are in sync, and answers once the high watermark has
passed the records; if the in-sync set shrank too far in between, the answer says so, though the records are
in the log. acks 0 and 1 ask nothing of followers.
"""

from __future__ import annotations

from typing import Final

from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import ACKS_ALL, ACKS_LEADER, ACKS_NONE

_KNOWN: Final = frozenset({ACKS_ALL, ACKS_NONE, ACKS_LEADER})


def is_valid_required_acks(acks: int) -> bool:
    """Whether a produce request may ask for this; otherwise it is refused with INVALID_REQUIRED_ACKS."""
    return acks in _KNOWN


def effective_min_isr(min_isr: int, replica_count: int) -> int:
    """min.insync.replicas, but never more than there are replicas."""
    return min_isr if min_isr < replica_count else replica_count


def check_before_append(acks: int, isr_count: int, replica_count: int, min_isr: int) -> None:
    """Refuse with NOT_ENOUGH_REPLICAS what could not be acknowledged as asked; nothing is written then."""
    if acks != ACKS_ALL or isr_count >= min_isr:
        return
    needed = effective_min_isr(min_isr, replica_count)
    if isr_count < needed:
        raise BrokerError(
            ErrorCode.NOT_ENOUGH_REPLICAS, f"{isr_count} replicas are in sync, acks=all needs {needed}"
        )


def verdict_after_append(
    required_offset: int, high_watermark: int, maximal_isr_count: int, replica_count: int, min_isr: int
) -> ErrorCode | None:
    """How an append with acks=all ended; None while its records are not committed.

    ``required_offset`` is the offset after the last record. The in-sync set is the maximal one, with those
    members that have not yet been confirmed.
    """
    if high_watermark < required_offset:
        return None
    if maximal_isr_count < effective_min_isr(min_isr, replica_count):
        return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    return ErrorCode.NONE
