"""What outsiders are told of transactional ids."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from odradek.coordinators.transactions.commands import TransactionDescription, TransactionListing
from odradek.coordinators.transactions.transaction_metadata import TransactionMetadata
from odradek.model.errors import ErrorCode


def describe(transactional_id: str, one: TransactionMetadata | None) -> TransactionDescription:
    """While a transaction ends, the partitions are those that have no marker yet."""
    if not transactional_id:
        return TransactionDescription(ErrorCode.INVALID_REQUEST)
    if one is None or one.stored is None:
        return TransactionDescription(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    stored = one.stored
    return TransactionDescription(
        ErrorCode.NONE,
        stored.state.value,
        stored.timeout_ms,
        stored.start_ms,
        stored.producer_id,
        stored.producer_epoch,
        tuple(sorted(stored.partitions if one.task is None else one.partitions_without_marker)),
    )


def listing(
    ids: Iterable[TransactionMetadata],
    states: Collection[str],
    producer_ids: Collection[int],
    duration_min_ms: int,
    now_ms: int,
) -> list[TransactionListing]:
    """Those in one of these states, of one of these producers, whose transaction began longer ago than that;
    without states or producers, or with a negative time, of any. An id that had none began one at -1."""
    return [
        TransactionListing(one.name, stored.producer_id, stored.state.value)
        for one in ids
        if (stored := one.stored) is not None
        and (not producer_ids or stored.producer_id in producer_ids)
        and (not states or stored.state.value in states)
        and (duration_min_ms < 0 or now_ms - stored.start_ms > duration_min_ms)
    ]
