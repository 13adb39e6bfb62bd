"""Decisions on requests: a transition of the transactional id, or an immediate result. Pure.

The rules are Kafka's, except for three cases that Kafka answers with UNKNOWN_SERVER_ERROR, or worse:

- A producer with an old epoch that tries to recover is fenced while the transaction of a newer producer is
  open (Kafka aborts that transaction).
- It is also fenced when epochs are exhausted.
- A producer that repeats a request for the epoch it was given gets the same epoch every time, even if its
  producer id is new.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from odradek.coordinators.effects import ProducerIdAndEpoch
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
    TransactionMetadata,
    TxnTransitMetadata,
)
from odradek.coordinators.transactions.transaction_state import IDLE, TransactionState
from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition

EPOCH_MAX: Final = 2**15 - 1
"""Never given to a producer, so that one epoch is left to fence the last producer with."""


# InitProducerId.


def prepare_init_producer_id(
    metadata: TransactionMetadata | None, command: InitProducerId, timeout_max_ms: int, now_ms: int
) -> ErrorCode | NeedsProducerId | TxnTransitMetadata:
    """Decide on InitProducerId. A transition to PrepareAbort ends the transaction of an earlier producer; the
    client then has to retry."""
    error = _validate_init(command, timeout_max_ms)
    if error is not None:
        return error
    if metadata is not None and metadata.is_busy:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    stored = None if metadata is None else metadata.stored
    if metadata is None or stored is None:
        return _with_new_producer_id(command, NO_PRODUCER, now_ms)
    requested = ProducerIdAndEpoch(command.producer_id, command.producer_epoch)
    current = ProducerIdAndEpoch(stored.producer_id, stored.producer_epoch)
    if requested not in (NO_PRODUCER, current, metadata.previous):
        return ErrorCode.PRODUCER_FENCED
    if stored.state is TransactionState.ONGOING:
        return prepare_fence(stored, now_ms)
    if stored.state not in IDLE:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    if requested != NO_PRODUCER and requested == metadata.previous:
        return TxnTransitMetadata(_initialized(command, current, now_ms), metadata.previous)
    if current.producer_epoch >= EPOCH_MAX - 1:
        return _with_new_producer_id(command, requested, now_ms)
    bumped = current._replace(producer_epoch=current.producer_epoch + 1)
    return TxnTransitMetadata(_initialized(command, bumped, now_ms), requested)


def _validate_init(command: InitProducerId, timeout_max_ms: int) -> ErrorCode | None:
    has_id = command.producer_id != NO_PRODUCER_ID
    has_epoch = command.producer_epoch != NO_PRODUCER_EPOCH
    if not command.transactional_id or has_id is not has_epoch:
        return ErrorCode.INVALID_REQUEST
    if not 0 < command.timeout_ms <= timeout_max_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return None


def _with_new_producer_id(
    command: InitProducerId, previous: ProducerIdAndEpoch, now_ms: int
) -> NeedsProducerId | TxnTransitMetadata:
    if command.new_producer_id == NO_PRODUCER_ID:
        return NEEDS_PRODUCER_ID
    producer = ProducerIdAndEpoch(command.new_producer_id, 0)
    return TxnTransitMetadata(_initialized(command, producer, now_ms), previous)


def _initialized(command: InitProducerId, producer: ProducerIdAndEpoch, now_ms: int) -> StoredTransaction:
    return StoredTransaction(*producer, command.timeout_ms, TransactionState.EMPTY, frozenset(), now_ms)


def prepare_fence(stored: StoredTransaction, now_ms: int) -> TxnTransitMetadata:
    """Abort the open transaction with a higher epoch, which no producer is given."""
    epoch = min(stored.producer_epoch + 1, EPOCH_MAX)
    target = stored._replace(producer_epoch=epoch, state=TransactionState.PREPARE_ABORT, update_ms=now_ms)
    return TxnTransitMetadata(target, NO_PRODUCER)


# AddPartitionsToTxn.


def prepare_add_partitions(
    metadata: TransactionMetadata | None, command: AddPartitions, now_ms: int
) -> ErrorCode | TxnTransitMetadata:
    if not command.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if metadata is None or metadata.stored is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    stored = metadata.stored
    error = _validate_producer(stored, command.producer_id, command.producer_epoch)
    if error is not None:
        return error
    if metadata.is_busy:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    partitions = stored.partitions.union(command.partitions)
    if stored.state is TransactionState.ONGOING:
        if partitions == stored.partitions:
            return ErrorCode.NONE
        target = stored._replace(partitions=partitions, update_ms=now_ms)
        return TxnTransitMetadata(target, metadata.previous)
    if stored.state not in IDLE:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    begun = stored._replace(
        state=TransactionState.ONGOING, partitions=partitions, update_ms=now_ms, start_ms=now_ms
    )
    return TxnTransitMetadata(begun, metadata.previous)


def verify_partitions(
    metadata: TransactionMetadata | None, command: AddPartitions
) -> dict[TopicPartition, ErrorCode]:
    """Verify that partitions are part of the transaction. Pending transitions are ignored: the log makes the
    final check when a batch is appended."""
    rejection, added = _verification(metadata, command)
    missing = ErrorCode.TRANSACTION_ABORTABLE
    return {
        partition: rejection or (ErrorCode.NONE if partition in added else missing)
        for partition in command.partitions
    }


def _verification(
    metadata: TransactionMetadata | None, command: AddPartitions
) -> tuple[ErrorCode | None, Collection[TopicPartition]]:
    if not command.transactional_id:
        return ErrorCode.INVALID_REQUEST, ()
    if metadata is None or metadata.stored is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING, ()
    error = _validate_producer(metadata.stored, command.producer_id, command.producer_epoch)
    if error is None and metadata.is_prepared:
        error = ErrorCode.CONCURRENT_TRANSACTIONS
    return error, metadata.stored.partitions


def _validate_producer(stored: StoredTransaction, producer_id: int, producer_epoch: int) -> ErrorCode | None:
    if stored.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if stored.producer_epoch != producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return None


# EndTxn.


def prepare_end(
    metadata: TransactionMetadata | None, command: EndTransaction, now_ms: int
) -> ErrorCode | TxnTransitMetadata:
    if not command.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if metadata is None or metadata.stored is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    stored = metadata.stored
    error = _validate_producer(stored, command.producer_id, command.producer_epoch)
    if error is not None:
        return error
    if metadata.is_busy:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if stored.state is TransactionState.ONGOING:
        state = TransactionState.PREPARE_COMMIT if command.commits else TransactionState.PREPARE_ABORT
        return TxnTransitMetadata(stored._replace(state=state, update_ms=now_ms), metadata.previous)
    complete = TransactionState.COMPLETE_COMMIT if command.commits else TransactionState.COMPLETE_ABORT
    return ErrorCode.NONE if stored.state is complete else ErrorCode.INVALID_TXN_STATE


def prepare_complete(metadata: TransactionMetadata, now_ms: int) -> TxnTransitMetadata:
    """Complete a prepared transaction whose partitions all have the marker."""
    assert metadata.stored is not None
    commits = metadata.stored.state is TransactionState.PREPARE_COMMIT
    state = TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT
    target = metadata.stored._replace(state=state, partitions=frozenset(), update_ms=now_ms)
    return TxnTransitMetadata(target, metadata.previous)


# Timeouts and expiration.


def has_timed_out(metadata: TransactionMetadata, now_ms: int) -> bool:
    """Return whether the transaction has been open longer than its timeout."""
    stored = metadata.stored
    if stored is None or metadata.is_busy or stored.state is not TransactionState.ONGOING:
        return False
    return stored.start_ms + stored.timeout_ms < now_ms


def has_expired(metadata: TransactionMetadata, retention_ms: int, now_ms: int) -> bool:
    """Return whether the id has not been used for the retention time."""
    stored = metadata.stored
    if stored is None or metadata.is_busy or stored.state not in IDLE:
        return False
    return stored.update_ms <= now_ms - retention_ms
