"""DescribeTransactions and ListTransactions."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from odradek.coordinators.transactions.commands import TransactionDescription, TransactionListing
from odradek.coordinators.transactions.transaction_metadata import TransactionMetadata
from odradek.model.errors import ErrorCode


def describe_transaction(
    transactional_id: str, metadata: TransactionMetadata | None
) -> TransactionDescription:
    """Describe a transactional id. While markers are written, only partitions without one are included."""
    if not transactional_id:
        return TransactionDescription(ErrorCode.INVALID_REQUEST)
    if metadata is None or metadata.stored is None:
        return TransactionDescription(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    stored = metadata.stored
    partitions = stored.partitions if metadata.task is None else metadata.partitions_without_marker
    return TransactionDescription(
        ErrorCode.NONE,
        stored.state.value,
        stored.timeout_ms,
        stored.start_ms,
        stored.producer_id,
        stored.producer_epoch,
        tuple(sorted(partitions)),
    )


def list_transactions(
    transactions: Iterable[TransactionMetadata],
    states: Collection[str],
    producer_ids: Collection[int],
    duration_min_ms: int,
    now_ms: int,
) -> list[TransactionListing]:
    """List the ids in one of these states, of one of these producers, whose transaction is open longer than
    ``duration_min_ms``. An empty or negative filter matches all. The start of an id that never had a
    transaction is -1."""
    return [
        TransactionListing(metadata.transactional_id, stored.producer_id, stored.state.value)
        for metadata in transactions
        if (stored := metadata.stored) is not None
        and (not producer_ids or stored.producer_id in producer_ids)
        and (not states or stored.state.value in states)
        and (duration_min_ms < 0 or now_ms - stored.start_ms > duration_min_ms)
    ]
