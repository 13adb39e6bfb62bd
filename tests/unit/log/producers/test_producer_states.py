"""Producer state: sequences, duplicates, epochs, transactions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.log.producers.producer_states import (
    BATCHES_RETAINED_MAX,
    SEQUENCE_MAX,
    BatchMetadata,
    ProducerStateEntry,
    ProducerStates,
)
from odradek.log.segments.transaction_index import AbortedTransaction
from odradek.model.errors import BrokerError, ErrorCode
from odradek.records.control_records import ControlRecordType, EndTransactionMarker
from odradek.records.layout import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader

COMMIT, ABORT = ControlRecordType.COMMIT, ControlRecordType.ABORT


class Partition:
    """Producer state with a log end offset."""

    def __init__(self, *producers: ProducerStateEntry, producers_max: int = 1000) -> None:
        self.states = ProducerStates(producers, producers_max=producers_max)
        self.end = 0

    def batch(
        self,
        sequence: int,
        count: int = 1,
        epoch: int = 0,
        producer: int = 7,
        at_ms: int = 0,
        attributes: int = 0,
    ) -> BatchHeader:
        last = count - 1
        return BatchHeader(
            0, self.end, 100, 0, 2, 0, attributes, last, at_ms, at_ms, producer, epoch, sequence, count
        )

    def append(
        self,
        sequence: int,
        count: int = 1,
        epoch: int = 0,
        producer: int = 7,
        at_ms: int = 0,
        in_transaction: bool = False,
    ) -> int:
        """Append a batch or detect a duplicate; return the first offset."""
        attributes = TRANSACTIONAL_BIT if in_transaction else 0
        batch = self.batch(sequence, count, epoch, producer, at_ms, attributes)
        duplicate = self.states.check(batch)
        if duplicate is not None:
            return duplicate.first_offset
        self.states.update(batch)
        self.end += count
        return batch.base_offset

    def end_transaction(
        self, kind: ControlRecordType = COMMIT, coordinator_epoch: int = 0, epoch: int = 0, producer: int = 7
    ) -> AbortedTransaction | None:
        batch = self.batch(-1, 1, epoch, producer, attributes=TRANSACTIONAL_BIT | CONTROL_BIT)
        marker = EndTransactionMarker(kind, coordinator_epoch)
        self.states.check_marker(batch, marker)
        self.end += 1
        return self.states.complete_transaction(batch, marker)

    def last_stable_offset(self, high_watermark: int | None = None) -> int:
        high_watermark = self.end if high_watermark is None else high_watermark
        return self.states.transactions.last_stable_offset(high_watermark, 0)


def append_error(
    partition: Partition, sequence: int, count: int = 1, epoch: int = 0, *, in_transaction: bool = False
) -> ErrorCode:
    before = list(partition.states)
    with pytest.raises(BrokerError) as error:
        partition.append(sequence, count, epoch, in_transaction=in_transaction)
    assert list(partition.states) == before
    return error.value.code


def test_consecutive_batches_are_accepted() -> None:
    partition = Partition()
    assert [partition.append(0, 3), partition.append(3), partition.append(4, 10)] == [0, 3, 4]


def test_unknown_producer_may_start_with_any_sequence() -> None:
    partition = Partition()
    assert partition.append(41, 2) == 0
    assert partition.append(43) == 2


def test_duplicate_batch_gets_its_original_offsets() -> None:
    partition = Partition()
    for index in range(BATCHES_RETAINED_MAX):
        partition.append(2 * index, 2)
    for index in range(BATCHES_RETAINED_MAX):
        duplicate = partition.states.check(partition.batch(2 * index, 2))
        assert duplicate == BatchMetadata(2 * index, 2 * index + 1, 2 * index, 2 * index + 1, 0)
    assert partition.end == 2 * BATCHES_RETAINED_MAX


def test_duplicate_older_than_five_batches_is_out_of_order() -> None:
    partition = Partition()
    for sequence in range(BATCHES_RETAINED_MAX + 1):
        partition.append(sequence)
    assert append_error(partition, 0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.append(1) == 1


@pytest.mark.parametrize(("sequence", "count"), [(4, 1), (6, 2), (0, 2), (2, 1), (0, 4), (1, 3)])
def test_sequence_gaps_and_overlaps_are_out_of_order(sequence: int, count: int) -> None:
    partition = Partition()
    partition.append(0, 3)
    assert append_error(partition, sequence, count) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_new_epoch_starts_with_sequence_0() -> None:
    partition = Partition()
    partition.append(0, 5)
    assert append_error(partition, 5, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.append(0, 2, epoch=1) == 5
    assert partition.append(2, epoch=1) == 7


def test_new_epoch_clears_the_batches_of_the_old_one() -> None:
    partition = Partition()
    partition.append(0, 5)
    assert partition.append(0, 5, epoch=1) == 5
    producer = partition.states.get(7)
    assert producer is not None
    assert (producer.producer_epoch, len(producer.batches)) == (1, 1)


def test_older_epoch_is_fenced() -> None:
    partition = Partition()
    partition.append(0, epoch=4)
    assert append_error(partition, 1, epoch=3) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert append_error(partition, 0, epoch=3) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_coordinator_batch_is_checked_for_epoch_but_not_for_sequence() -> None:
    partition = Partition()
    partition.append(0, epoch=4)
    partition.states.check_coordinator_batch(partition.batch(-1, epoch=4))
    partition.states.check_coordinator_batch(partition.batch(-1, epoch=0, producer=99))
    with pytest.raises(BrokerError, match="INVALID_PRODUCER_EPOCH"):
        partition.states.check_coordinator_batch(partition.batch(-1, epoch=3))


def test_sequences_wrap_around() -> None:
    partition = Partition()
    partition.append(SEQUENCE_MAX - 1, 2)
    assert partition.append(0) == 2
    assert append_error(partition, SEQUENCE_MAX) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_duplicate_across_the_sequence_wrap_is_detected() -> None:
    partition = Partition()
    assert partition.append(SEQUENCE_MAX, 3) == 0
    assert partition.append(SEQUENCE_MAX, 3) == 0
    assert partition.append(2) == 3


def test_producers_are_independent() -> None:
    partition = Partition()
    assert [partition.append(0, producer=p) for p in (1, 2, 1, 2)] == [0, 1, 0, 1]


def test_known_producer_without_batches_starts_with_sequence_0() -> None:
    partition = Partition(ProducerStateEntry(7, 2))
    assert append_error(partition, 3, epoch=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.append(0, epoch=2) == 0


@pytest.mark.parametrize("epoch", [-1, 0])
def test_producer_without_epoch_may_continue_with_any_sequence(epoch: int) -> None:
    partition = Partition(ProducerStateEntry(7))
    assert partition.append(12, epoch=epoch) == 0


def test_update_does_not_validate() -> None:
    partition = Partition()
    for sequence, epoch in ((5, 3), (1, 3), (9, 2)):
        partition.states.update(partition.batch(sequence, epoch=epoch))
    producer = partition.states.get(7)
    assert producer is not None
    assert (producer.producer_epoch, producer.last_sequence) == (2, 9)


def test_producers_expire_by_the_timestamp_of_their_last_batch() -> None:
    partition = Partition()
    partition.append(0, producer=1, at_ms=100)
    partition.append(0, producer=2, at_ms=200)
    partition.append(0, producer=3, at_ms=100, in_transaction=True)
    assert partition.states.expire(599, 500) == 0
    assert partition.states.expire(600, 500) == 1
    assert [p.producer_id for p in partition.states] == [2, 3]
    assert partition.append(77, producer=1) == 3


def test_oldest_producer_is_evicted_above_the_limit() -> None:
    partition = Partition(producers_max=3)
    for producer in (1, 2, 3):
        partition.append(0, producer=producer)
    partition.append(1, producer=1)
    partition.append(0, producer=4)
    assert [p.producer_id for p in partition.states] == [3, 1, 4]
    assert len(partition.states) == 3


def test_producer_with_an_open_transaction_is_not_evicted() -> None:
    partition = Partition(producers_max=2)
    partition.append(0, producer=1, in_transaction=True)
    for producer in (2, 3, 4):
        partition.append(0, producer=producer)
    assert [p.producer_id for p in partition.states] == [1, 4]
    partition.append(0, producer=5, in_transaction=True)
    partition.append(0, producer=6, in_transaction=True)
    assert [p.producer_id for p in partition.states] == [1, 5, 6]


def test_entries_are_a_consistent_snapshot() -> None:
    partition = Partition()
    partition.append(0, 2)
    before = partition.states.entries()
    copy = list(before)
    partition.append(2, 3, in_transaction=True)
    partition.end_transaction()
    partition.append(0, producer=8)
    assert before == copy
    assert [entry.batches[-1].last_offset for entry in before] == [1]


def test_non_transactional_batch_is_rejected_during_a_transaction() -> None:
    partition = Partition()
    partition.append(0, 2, in_transaction=True)
    assert append_error(partition, 2) is ErrorCode.INVALID_TXN_STATE
    assert append_error(partition, 0, epoch=1) is ErrorCode.INVALID_TXN_STATE
    with pytest.raises(BrokerError, match="INVALID_TXN_STATE"):
        partition.states.check_coordinator_batch(partition.batch(-1))
    partition.append(2, in_transaction=True)
    partition.end_transaction()
    assert partition.append(3) == 4
    assert partition.append(4, in_transaction=True) == 5


def test_duplicate_is_detected_during_and_after_its_transaction() -> None:
    partition = Partition()
    partition.append(0, 2, in_transaction=True)
    assert partition.append(0, 2, in_transaction=True) == 0
    partition.end_transaction()
    assert partition.append(0, 2, in_transaction=True) == 0
    assert append_error(partition, 7, in_transaction=True) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_marker_with_a_new_epoch_fences_the_old_epoch() -> None:
    partition = Partition()
    partition.append(0, 3, in_transaction=True)
    assert partition.end_transaction(ABORT, epoch=1) == AbortedTransaction(7, 0, 3, 4)
    assert append_error(partition, 3, in_transaction=True) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert append_error(partition, 3, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.append(0, epoch=1) == 4


def test_markers_of_an_older_producer_or_coordinator_epoch_are_rejected() -> None:
    partition = Partition()
    partition.append(0, epoch=2, in_transaction=True)
    with pytest.raises(BrokerError, match="INVALID_PRODUCER_EPOCH"):
        partition.end_transaction(epoch=1)
    partition.end_transaction(epoch=2, coordinator_epoch=5)
    partition.append(1, epoch=2, in_transaction=True)
    with pytest.raises(BrokerError, match="TRANSACTION_COORDINATOR_FENCED"):
        partition.end_transaction(epoch=2, coordinator_epoch=4)
    assert partition.last_stable_offset() == 2
    partition.end_transaction(epoch=2, coordinator_epoch=5)
    assert partition.last_stable_offset() == partition.end == 4


def test_marker_without_records_updates_only_the_epochs() -> None:
    partition = Partition()
    assert partition.end_transaction(ABORT, coordinator_epoch=3, epoch=4) is None
    assert list(partition.states) == [ProducerStateEntry(7, 4, 3, 0)]
    assert partition.last_stable_offset() == partition.end == 1


def test_open_transaction_limits_the_last_stable_offset() -> None:
    partition = Partition()
    partition.append(0, 2)
    partition.append(0, producer=8, in_transaction=True)
    partition.append(0, producer=9, in_transaction=True)
    partition.append(2)
    assert partition.last_stable_offset() == 2
    assert partition.end_transaction(ABORT, producer=9) == AbortedTransaction(9, 3, 5, 2)
    assert partition.last_stable_offset() == 2
    assert partition.end_transaction(producer=8) is None
    assert partition.last_stable_offset() == partition.end == 7


def test_ended_transaction_limits_the_last_stable_offset_until_its_marker_is_replicated() -> None:
    partition = Partition()
    partition.append(0, in_transaction=True)
    partition.append(0, producer=8, in_transaction=True)
    partition.end_transaction()
    assert partition.last_stable_offset(high_watermark=0) == 0
    assert partition.last_stable_offset(high_watermark=2) == 0
    assert partition.last_stable_offset(high_watermark=3) == 1
    partition.end_transaction(producer=8)
    assert partition.last_stable_offset(high_watermark=3) == 1
    assert partition.last_stable_offset(high_watermark=4) == 4


def test_last_stable_offset_is_not_below_the_log_start_offset() -> None:
    partition = Partition()
    partition.append(0, 5, in_transaction=True)
    assert partition.states.transactions.last_stable_offset(5, 3) == 3


@given(
    st.integers(0, SEQUENCE_MAX),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, BATCHES_RETAINED_MAX - 1)), max_size=40),
)
def test_retries_of_up_to_five_batches_are_stored_once(start: int, plan: list[tuple[int, int]]) -> None:
    """Send each batch, then some of the last five again, as after lost responses."""
    partition = Partition()
    sent: list[tuple[int, int, int]] = []
    sequence = start
    for count, retries in plan:
        sent.append((sequence, count, partition.append(sequence, count)))
        sequence = (sequence + count) % (SEQUENCE_MAX + 1)
        for again, size, offset in sent[-1 - retries :]:
            assert partition.append(again, size) == offset
    assert partition.end == sum(count for count, _ in plan)
    assert [offset for _, _, offset in sent] == [
        sum(count for count, _ in plan[:index]) for index in range(len(plan))
    ]


def test_producer_with_a_transaction_open_since_offset_0_does_not_expire() -> None:
    partition = Partition()
    assert partition.append(0, in_transaction=True) == 0
    assert partition.states.expire(1_000_000, 1) == 0
    assert partition.states.get(7) is not None
