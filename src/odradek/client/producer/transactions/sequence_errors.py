"""Effect of a broker's error on the sequences of an idempotent producer.

A broker rejects a batch whose sequence does not follow the last one it has. Mostly the batch came too early:
one before it was rejected or lost, and it will be in order once that one has been sent again. Otherwise
records are missing at the broker: a producer without transactions continues with the next epoch and sequences
from 0; a transaction fails.

Sequences are only changed where no batch can have been written with the old ones. The response to the first
batch in flight shows that, as a broker writes no batch before that one.
"""

from __future__ import annotations

from typing import Final

from odradek.client.producer.transactions.sequences import (
    PartitionSequences,
    Sequences,
    has_sequence,
    partition_of,
)
from odradek.client.producer.transactions.transaction_manager_port import SequencedBatch
from odradek.model.errors import ErrorCode

_NO_LOG_START: Final = -1


def is_not_written(code: ErrorCode | None) -> bool:
    """Return whether an error means that a batch was not written.

    Retriable errors do not: a former leader, or one that timed out waiting for its ISR, may have written it.
    """
    return code is not None and not code.retriable and code is not ErrorCode.UNKNOWN_SERVER_ERROR


def may_retry(
    sequences: Sequences,
    batch: SequencedBatch,
    code: ErrorCode,
    log_start_offset: int,
    *,
    is_transactional: bool,
) -> bool:
    """Return whether to retry a batch, after resetting its sequence if necessary."""
    partition = sequences.of(partition_of(batch))
    if not is_not_written(code):
        partition.mark_maybe_written(batch)
    if code is ErrorCode.UNKNOWN_PRODUCER_ID:
        return _retry_unknown_producer(sequences, partition, batch, log_start_offset, is_transactional)
    if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        return _retry_out_of_order(sequences, partition, batch, is_transactional)
    return code.retriable


def _retry_unknown_producer(
    sequences: Sequences,
    partition: PartitionSequences,
    batch: SequencedBatch,
    log_start_offset: int,
    is_transactional: bool,
) -> bool:
    if log_start_offset == _NO_LOG_START or partition.is_resequenced(batch):
        # The partition has just moved, or this response is about an old sequence.
        return True
    if not is_transactional:
        if partition.is_first(batch):
            sequences.needs_bump.add(partition_of(batch))
        return True
    if partition.acked_offset < log_start_offset:
        # The producer's records were deleted by retention, and its state at the broker with them.
        partition.reset(sequences.identity)
        return True
    return False


def _retry_out_of_order(
    sequences: Sequences, partition: PartitionSequences, batch: SequencedBatch, is_transactional: bool
) -> bool:
    is_unresolved = partition.unresolved_after is not None
    if not is_unresolved and (partition.is_resequenced(batch) or not partition.is_next(batch.base_sequence)):
        return True
    if is_transactional:
        return False
    if partition.is_first(batch):
        # No earlier batch is in flight: it follows the last written one, or one that failed unwritten.
        sequences.needs_bump.add(partition_of(batch))
    return True


def on_batch_failed(
    sequences: Sequences,
    batch: SequencedBatch,
    code: ErrorCode | None,
    *,
    adjust_sequences: bool,
    is_transactional: bool,
) -> None:
    """Remove a failed batch; ``adjust_sequences`` if it was rejected while attempts were left."""
    if not has_sequence(batch):
        return
    topic_partition = partition_of(batch)
    partition = sequences.of(topic_partition)
    if is_transactional and code is ErrorCode.UNKNOWN_PRODUCER_ID:
        # The broker does not know this producer: it accepts sequences from 0.
        sequences.forget(topic_partition)
    elif adjust_sequences and is_not_written(code) and not partition.may_be_written(batch):
        partition.remove_and_adjust(batch)
    else:
        partition.mark_unresolved(batch)
