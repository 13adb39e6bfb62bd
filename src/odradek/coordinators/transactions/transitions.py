"""What becomes of a request: a transition of its transactional id, or an answer at once. Nothing is done.

The rules are Kafka's, but for three cases that it answers with UNKNOWN_SERVER_ERROR, or worse. A producer of
an old epoch that wants to go on is fenced, also while the transaction of a newer one is open, which it aborts
in Kafka, and when epochs are used up. Who asks again for an epoch it was given gets the same as often as it
asks, also where the producer id is new.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from odradek.coordinators.transactions.commands import (
    NEEDS_PRODUCER_ID,
    AddPartitions,
    EndTransaction,
    InitProducerId,
    NeedsProducerId,
)
from odradek.coordinators.transactions.records import StoredTransaction
from odradek.coordinators.transactions.transaction_metadata import (
    NO_PRODUCER,
    ProducerIdAndEpoch,
    TransactionMetadata,
    TxnTransitMetadata,
)
from odradek.coordinators.transactions.transaction_state import AT_REST, TransactionState
from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition

EPOCH_MAX: Final = 2**15 - 1
"""No producer is given this one, so that there is one left to fence it with."""


# Producers come.


def prepare_init_producer_id(
    one: TransactionMetadata | None, command: InitProducerId, timeout_max_ms: int, now_ms: int
) -> ErrorCode | NeedsProducerId | TxnTransitMetadata:
    """A transition to PrepareAbort ends what an earlier producer left; the command is to be asked again."""
    refusal = _init_refusal(command, timeout_max_ms)
    if refusal is not None:
        return refusal
    if one is not None and one.is_busy:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    stored = None if one is None else one.stored
    if one is None or stored is None:
        return _with_fresh_id(command, NO_PRODUCER, now_ms)
    asks = ProducerIdAndEpoch(command.producer_id, command.producer_epoch)
    current = ProducerIdAndEpoch(stored.producer_id, stored.producer_epoch)
    if asks not in (NO_PRODUCER, current, one.previous):
        return ErrorCode.PRODUCER_FENCED
    if stored.state is TransactionState.ONGOING:
        return fenced(stored, now_ms)
    if stored.state not in AT_REST:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    if asks != NO_PRODUCER and asks == one.previous:
        return TxnTransitMetadata(_initialised(command, current, now_ms), one.previous)
    if current.producer_epoch >= EPOCH_MAX - 1:
        return _with_fresh_id(command, asks, now_ms)
    bumped = current._replace(producer_epoch=current.producer_epoch + 1)
    return TxnTransitMetadata(_initialised(command, bumped, now_ms), asks)


def _init_refusal(command: InitProducerId, timeout_max_ms: int) -> ErrorCode | None:
    names_id = command.producer_id != NO_PRODUCER_ID
    names_epoch = command.producer_epoch != NO_PRODUCER_EPOCH
    if not command.transactional_id or names_id is not names_epoch:
        return ErrorCode.INVALID_REQUEST
    if not 0 < command.timeout_ms <= timeout_max_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return None


def _with_fresh_id(
    command: InitProducerId, previous: ProducerIdAndEpoch, now_ms: int
) -> NeedsProducerId | TxnTransitMetadata:
    if command.new_producer_id == NO_PRODUCER_ID:
        return NEEDS_PRODUCER_ID
    return TxnTransitMetadata(
        _initialised(command, ProducerIdAndEpoch(command.new_producer_id, 0), now_ms), previous
    )


def _initialised(command: InitProducerId, who: ProducerIdAndEpoch, now_ms: int) -> StoredTransaction:
    return StoredTransaction(*who, command.timeout_ms, TransactionState.EMPTY, frozenset(), now_ms)


def fenced(stored: StoredTransaction, now_ms: int) -> TxnTransitMetadata:
    """The open transaction is aborted under a higher epoch, which nobody is given."""
    epoch = min(stored.producer_epoch + 1, EPOCH_MAX)
    return TxnTransitMetadata(
        stored._replace(producer_epoch=epoch, state=TransactionState.PREPARE_ABORT, update_ms=now_ms),
        NO_PRODUCER,
    )


# They write.


def prepare_add_partitions(
    one: TransactionMetadata | None, command: AddPartitions, now_ms: int
) -> ErrorCode | TxnTransitMetadata:
    if not command.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if one is None or one.stored is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    stored = one.stored
    refusal = _stranger(stored, command.producer_id, command.producer_epoch)
    if refusal is not None:
        return refusal
    if one.is_busy:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    partitions = stored.partitions.union(command.partitions)
    if stored.state is TransactionState.ONGOING:
        if partitions == stored.partitions:
            return ErrorCode.NONE
        return TxnTransitMetadata(stored._replace(partitions=partitions, update_ms=now_ms), one.previous)
    if stored.state not in AT_REST:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    begun = stored._replace(
        state=TransactionState.ONGOING, partitions=partitions, update_ms=now_ms, start_ms=now_ms
    )
    return TxnTransitMetadata(begun, one.previous)


def verify_partitions(
    one: TransactionMetadata | None, command: AddPartitions
) -> dict[TopicPartition, ErrorCode]:
    """What is under way does not matter: the log has the last word when a batch is appended."""
    refusal, added = _verification(one, command)
    missing = ErrorCode.TRANSACTION_ABORTABLE
    return {
        partition: refusal or (ErrorCode.NONE if partition in added else missing)
        for partition in command.partitions
    }


def _verification(
    one: TransactionMetadata | None, command: AddPartitions
) -> tuple[ErrorCode | None, Collection[TopicPartition]]:
    if not command.transactional_id:
        return ErrorCode.INVALID_REQUEST, ()
    if one is None or one.stored is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING, ()
    refusal = _stranger(one.stored, command.producer_id, command.producer_epoch)
    if refusal is None and one.is_prepared:
        refusal = ErrorCode.CONCURRENT_TRANSACTIONS
    return refusal, one.stored.partitions


def _stranger(stored: StoredTransaction, producer_id: int, producer_epoch: int) -> ErrorCode | None:
    if stored.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if stored.producer_epoch != producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return None


# It ends.


def prepare_end(
    one: TransactionMetadata | None, command: EndTransaction, now_ms: int
) -> ErrorCode | TxnTransitMetadata:
    if not command.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if one is None or one.stored is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    stored = one.stored
    refusal = _stranger(stored, command.producer_id, command.producer_epoch)
    if refusal is not None:
        return refusal
    if one.is_busy:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if stored.state is TransactionState.ONGOING:
        state = TransactionState.PREPARE_COMMIT if command.commits else TransactionState.PREPARE_ABORT
        return TxnTransitMetadata(stored._replace(state=state, update_ms=now_ms), one.previous)
    is_done = stored.state is (
        TransactionState.COMPLETE_COMMIT if command.commits else TransactionState.COMPLETE_ABORT
    )
    return ErrorCode.NONE if is_done else ErrorCode.INVALID_TXN_STATE


def completed(one: TransactionMetadata, now_ms: int) -> TxnTransitMetadata:
    """All partitions of a prepared transaction have its marker."""
    assert one.stored is not None
    commits = one.stored.state is TransactionState.PREPARE_COMMIT
    state = TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT
    target = one.stored._replace(state=state, partitions=frozenset(), update_ms=now_ms)
    return TxnTransitMetadata(target, one.previous)


# Time passes.


def has_timed_out(one: TransactionMetadata, now_ms: int) -> bool:
    """Whether its transaction is open for longer than its producer wanted."""
    stored = one.stored
    if stored is None or one.is_busy or stored.state is not TransactionState.ONGOING:
        return False
    return stored.start_ms + stored.timeout_ms < now_ms


def has_expired(one: TransactionMetadata, retention_ms: int, now_ms: int) -> bool:
    """Whether nothing was heard of it for so long that it may go."""
    stored = one.stored
    if stored is None or one.is_busy or stored.state not in AT_REST:
        return False
    return stored.update_ms <= now_ms - retention_ms
