"""The checkers of a migration notice what they must."""

from __future__ import annotations

import pytest
from tests.mixed.workload.completion_times import CompletionTimes
from tests.mixed.workload.rare_producer import ProducerFields, check_sequences
from tests.mixed.workload.read_journal import ReadJournal
from tests.mixed.workload.transaction_ledger import Outcome, find_anomalies

OUTCOMES = {b"0": Outcome.ABORTED, b"1": Outcome.COMMITTED, b"2": Outcome.UNKNOWN, b"3": Outcome.COMMITTED}


def journal_of_ten(committed: int) -> ReadJournal:
    """Return the journal of a group that has read ten records."""
    journal = ReadJournal([0])
    for offset in range(10):
        journal.note_record(0, offset, b"%d" % offset)
    journal.note_commit({0: committed})
    return journal


def test_records_after_the_committed_offset_may_be_read_again() -> None:
    journal = journal_of_ten(committed=8)
    for offset in range(8, 11):
        journal.note_record(0, offset, b"%d" % offset)
    assert (journal.anomalies, journal.repeated, len(journal.values[0])) == ([], 2, 11)


@pytest.mark.parametrize(
    ("offset", "value"), [(7, b"7"), (9, b"other"), (11, b"11")], ids=["committed", "changed", "skipped"]
)
def test_wrong_record_of_a_group_is_an_anomaly(offset: int, value: bytes) -> None:
    journal = journal_of_ten(committed=8)
    journal.note_record(0, offset, value)
    assert len(journal.anomalies) == 1


@pytest.mark.parametrize("values", [[b"1", b"3"], [b"1", b"2", b"3"]], ids=["without", "with"])
def test_transaction_with_an_unknown_outcome_is_visible_everywhere_or_nowhere(values: list[bytes]) -> None:
    assert find_anomalies(OUTCOMES, {0: values, 1: values}) == []


@pytest.mark.parametrize(
    "values",
    [
        [b"1"],
        [b"1", b"2", b"3"],
        [b"0", b"1", b"3"],
        [b"1", b"1", b"3"],
        [b"3", b"1"],
        [b"1", b"3", b"4"],
    ],
    ids=["lost", "half-unknown", "aborted", "doubled", "reordered", "never-written"],
)
def test_wrong_values_of_transactions_are_an_anomaly(values: list[bytes]) -> None:
    assert len(find_anomalies(OUTCOMES, {0: [b"1", b"3"], 1: values})) == 1


def test_longest_gap_counts_the_time_to_both_ends() -> None:
    times = CompletionTimes([2.0, 3.0, 7.0])
    assert times.longest_gap(0.0, 8.0) == (4.0, 3.0)
    assert times.longest_gap(0.0, 3.5) == (2.0, 0.0)
    assert times.longest_gap(2.0, 20.0) == (13.0, 5.0)


@pytest.mark.parametrize(
    "last", [(7, 1, 2), (7, 0, 3), (8, 0, 2)], ids=["new-epoch", "missing-batch", "new-producer"]
)
def test_producer_that_began_again_is_noticed(last: tuple[int, int, int]) -> None:
    batches = [ProducerFields(7, 0, 0), ProducerFields(7, 0, 1)]
    check_sequences([*batches, ProducerFields(7, 0, 2)])
    with pytest.raises(AssertionError):
        check_sequences([*batches, ProducerFields(*last)])
