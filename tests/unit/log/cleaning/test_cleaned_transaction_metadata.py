"""Batches of aborted transactions, and discardable markers."""

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


def test_batches_of_an_aborted_transaction_are_discarded() -> None:
    transactions = CleanedTransactionMetadata([aborted(10, 12)], 0)
    assert not transactions.is_aborted(header(9))
    assert transactions.is_aborted(header(10))
    assert transactions.is_aborted(header(11))
    assert not transactions.may_drop_marker(header(12, control=True), ABORT)
    assert not transactions.is_aborted(header(13))


def test_batches_of_other_producers_and_without_transaction_are_retained() -> None:
    transactions = CleanedTransactionMetadata([aborted(10, 12)], 0)
    assert transactions.is_aborted(header(10))
    assert not transactions.is_aborted(header(11, 2))
    assert not transactions.is_aborted(header(11, transactional=False))


def test_marker_is_discardable_without_batches_of_its_transaction() -> None:
    transactions = CleanedTransactionMetadata([aborted(10, 12)], 0)
    assert transactions.may_drop_marker(header(12, control=True), ABORT)
    assert transactions.may_drop_marker(header(13, control=True), COMMIT)
    assert not transactions.is_aborted(header(14))
    assert not transactions.may_drop_marker(header(15, control=True), COMMIT)
    assert transactions.may_drop_marker(header(16, control=True), COMMIT)


def test_empty_marker_is_discardable_and_unknown_control_type_is_not() -> None:
    transactions = CleanedTransactionMetadata([], 0)
    assert transactions.may_drop_marker(header(1, control=True), None)
    assert not transactions.may_drop_marker(header(2, control=True), ControlRecordType.LEADER_CHANGE)


def test_aborted_transaction_is_retained_with_its_marker() -> None:
    transactions = CleanedTransactionMetadata([aborted(10, 12), aborted(20, 22)], 0)
    transactions.is_aborted(header(10))
    transactions.may_drop_marker(header(12, control=True), ABORT)
    transactions.may_drop_marker(header(22, control=True), ABORT)
    assert transactions.take_kept() == [aborted(10, 12)]
    assert transactions.take_kept() == []


def test_transaction_that_ended_before_the_start_offset_is_ignored() -> None:
    transactions = CleanedTransactionMetadata([aborted(10, 12)], 13)
    assert not transactions.is_aborted(header(13))
    assert transactions.take_kept() == []


def test_transaction_ends_at_its_last_offset_without_a_marker() -> None:
    transactions = CleanedTransactionMetadata([aborted(10, 12), aborted(20, 22)], 0)
    assert transactions.is_aborted(header(10))
    assert not transactions.is_aborted(header(15))
    assert transactions.is_aborted(header(20))


def test_duplicate_index_entry_counts_once() -> None:
    transactions = CleanedTransactionMetadata([aborted(10, 12), aborted(10, 12)], 0)
    assert transactions.is_aborted(header(10))
    assert not transactions.may_drop_marker(header(12, control=True), ABORT)
    assert not transactions.is_aborted(header(13))
