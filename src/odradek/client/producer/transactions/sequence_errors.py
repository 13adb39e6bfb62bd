"""What a broker's error about a batch means for the numbers of an idempotent producer.

A broker refuses a batch whose sequence does not follow what it has. Mostly that batch came too early: one
before it was refused or lost, and it will be in order when that one has been sent again. Otherwise records
are missing at the broker. A producer without transactions then goes on with the next epoch and sequences from
0; a transaction fails.

Batches get other numbers only where none of them can have been written under the old ones: the answer
about the first in flight shows that, as a broker writes none before that one.
"""

from __future__ import annotations

from typing import Final

from odradek.client.producer.transactions.sequences import (
    PartitionSequences,
    Sequences,
    is_numbered,
    partition_of,
)
from odradek.client.producer.transactions.transaction_manager_port import NumberedBatch
from odradek.model.errors import ErrorCode

_NO_LOG_START: Final = -1


def is_refusal(code: ErrorCode | None) -> bool:
    """Whether an error says that a batch was not written.

    Others do not: a leader that was deposed, or waited for its followers in vain, may have written it.
    """
    return code is not None and not code.retriable and code is not ErrorCode.UNKNOWN_SERVER_ERROR


def may_retry(
    sequences: Sequences,
    batch: NumberedBatch,
    code: ErrorCode,
    log_start_offset: int,
    *,
    is_transactional: bool,
) -> bool:
    """Whether the same batch should be sent again; the numbers it will have then are set before that."""
    numbers = sequences.of(partition_of(batch))
    if not is_refusal(code):
        numbers.note_silence(batch)
    if code is ErrorCode.UNKNOWN_PRODUCER_ID:
        return _retry_of_unknown(sequences, numbers, batch, log_start_offset, is_transactional)
    if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        return _retry_out_of_order(sequences, numbers, batch, is_transactional)
    return code.retriable


def _retry_of_unknown(
    sequences: Sequences,
    numbers: PartitionSequences,
    batch: NumberedBatch,
    log_start_offset: int,
    is_transactional: bool,
) -> bool:
    if log_start_offset == _NO_LOG_START or numbers.is_renumbered(batch):
        # The partition has just moved, or this answer is about numbers that are given up already.
        return True
    if not is_transactional:
        if numbers.is_first(batch):
            sequences.needs_bump.add(partition_of(batch))
        return True
    if numbers.acked_offset < log_start_offset:
        # What the producer wrote has been deleted for its age, and the broker has forgotten it with that.
        numbers.begin_anew(sequences.identity)
        return True
    return False


def _retry_out_of_order(
    sequences: Sequences, numbers: PartitionSequences, batch: NumberedBatch, is_transactional: bool
) -> bool:
    in_doubt = numbers.doubt is not None
    if not in_doubt and (numbers.is_renumbered(batch) or not numbers.is_next(batch.base_sequence)):
        return True
    if is_transactional:
        return False
    if numbers.is_first(batch):
        # Nothing before it is still to come: it follows what was written last, or what was given up and has
        # not been written.
        sequences.needs_bump.add(partition_of(batch))
    return True


def give_up(
    sequences: Sequences,
    batch: NumberedBatch,
    code: ErrorCode | None,
    *,
    is_refused: bool,
    is_transactional: bool,
) -> None:
    """A batch will not be sent again; ``is_refused`` says that its last attempt was, and others were left."""
    if not is_numbered(batch):
        return
    partition = partition_of(batch)
    numbers = sequences.of(partition)
    if is_transactional and code is ErrorCode.UNKNOWN_PRODUCER_ID:
        # The broker knows nothing of this producer: it takes sequences from 0 on.
        sequences.forget(partition)
    elif is_refused and is_refusal(code) and not numbers.may_be_written(batch):
        numbers.close_gap(batch)
    else:
        numbers.put_in_doubt(batch)
