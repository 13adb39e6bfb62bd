"""Which batches belong to aborted transactions, and which markers may go."""

from odradek.log.cleaning.cleaned_transaction_metadata import CleanedTransactionMetadata
from odradek.log.segments.transaction_index import AbortedTransaction
from odradek.records.batch import BatchBuilder
from odradek.records.codec import read_headers
from odradek.records.control_records import ControlRecordType
from odradek.records.layout import BatchHeader

ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT


def header(
    offset: int, producer_id: int = 1, *, transactional: bool = True, control: bool = False
) -> BatchHeader:
    builder = BatchBuilder(
        offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=transactional,
        control=control,
    )
    builder.append(1, b"key", b"value")
    return read_headers(builder.build())[0]


def aborted(first: int, last: int, producer_id: int = 1) -> AbortedTransaction:
    return AbortedTransaction(producer_id, first, last, first)


def test_batches_between_the_first_record_and_the_marker_of_an_aborted_transaction_go() -> None:
    walk = CleanedTransactionMetadata([aborted(10, 12)], 0)
    assert not walk.is_aborted(header(9))
    assert walk.is_aborted(header(10))
    assert walk.is_aborted(header(11))
    assert not walk.may_drop_marker(header(12, control=True), ABORT)
    assert not walk.is_aborted(header(13))


def test_batches_of_others_and_those_without_a_transaction_stay() -> None:
    walk = CleanedTransactionMetadata([aborted(10, 12)], 0)
    assert walk.is_aborted(header(10))
    assert not walk.is_aborted(header(11, 2))
    assert not walk.is_aborted(header(11, transactional=False))


def test_a_marker_may_go_once_nothing_of_its_transaction_is_left() -> None:
    walk = CleanedTransactionMetadata([aborted(10, 12)], 0)
    assert walk.may_drop_marker(header(12, control=True), ABORT)
    assert walk.may_drop_marker(header(13, control=True), COMMIT)
    assert not walk.is_aborted(header(14))
    assert not walk.may_drop_marker(header(15, control=True), COMMIT)
    assert walk.may_drop_marker(header(16, control=True), COMMIT)


def test_a_marker_that_was_emptied_before_may_go_and_one_of_an_unknown_kind_may_not() -> None:
    walk = CleanedTransactionMetadata([], 0)
    assert walk.may_drop_marker(header(1, control=True), None)
    assert not walk.may_drop_marker(header(2, control=True), ControlRecordType.LEADER_CHANGE)


def test_an_aborted_transaction_is_kept_with_its_marker_while_batches_of_it_were_met() -> None:
    walk = CleanedTransactionMetadata([aborted(10, 12), aborted(20, 22)], 0)
    walk.is_aborted(header(10))
    walk.may_drop_marker(header(12, control=True), ABORT)
    walk.may_drop_marker(header(22, control=True), ABORT)
    assert walk.take_kept() == [aborted(10, 12)]
    assert walk.take_kept() == []


def test_a_transaction_that_ended_before_the_walk_begins_says_nothing_about_the_next() -> None:
    walk = CleanedTransactionMetadata([aborted(10, 12)], 13)
    assert not walk.is_aborted(header(13))
    assert walk.take_kept() == []


def test_a_transaction_whose_marker_is_gone_does_not_reach_beyond_it() -> None:
    walk = CleanedTransactionMetadata([aborted(10, 12), aborted(20, 22)], 0)
    assert walk.is_aborted(header(10))
    assert not walk.is_aborted(header(15))
    assert walk.is_aborted(header(20))


def test_a_transaction_that_is_told_of_twice_counts_once() -> None:
    walk = CleanedTransactionMetadata([aborted(10, 12), aborted(10, 12)], 0)
    assert walk.is_aborted(header(10))
    assert not walk.may_drop_marker(header(12, control=True), ABORT)
    assert not walk.is_aborted(header(13))
