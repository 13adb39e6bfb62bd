"""Exactly-once under faults, and tests of the checker and the reader."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.faults.fault_report import FaultReport
from tests.faults.transactions import hung, ledger, steps
from tests.faults.transactions.checker import Entry, Outcome, check_history
from tests.faults.transactions.reader import Aborted
from tests.support.proxy import Moment

SEED = 1912
TRANSACTIONS = 10_000


def check(report: FaultReport) -> None:
    """Print the report, and fail on a violation."""
    print(report.text())
    assert report.faults
    assert report.violations == []


@pytest.mark.timeout(600)
def test_exactly_once_over_ten_thousand_transactions(tmp_path: Path) -> None:
    report = ledger.play(tmp_path, TRANSACTIONS, 2, SEED)
    check(report)
    assert report.acknowledged >= TRANSACTIONS


@pytest.mark.timeout(600)
def test_exactly_once_with_kills_at_any_step_of_a_transaction(tmp_path: Path) -> None:
    check(steps.play(tmp_path, steps.some_steps(SEED), 3, SEED))


def test_hung_transaction_blocks_readers_for_its_timeout(tmp_path: Path) -> None:
    check(hung.play(tmp_path, 2, SEED))


def test_short_form_covers_all_requests_victims_clients_and_moments() -> None:
    for seed in range(20):
        drawn = steps.some_steps(seed)
        assert {(drawn_step.api_key, drawn_step.victim) for drawn_step in drawn} == {
            (step.api_key, step.victim) for step in steps.all_steps()
        }
        assert {(drawn_step.client, drawn_step.moment) for drawn_step in drawn} == {
            (client, moment) for client in steps.CLIENTS for moment in Moment
        }


# The checker.

DEBITS = [[Entry(0, 0, "a", 2), Entry(0, 1, "a", 2), Entry(0, 2, "b", 1)], [Entry(1, 0, "c", 1)]]
CREDITS = [[Entry(0, 0, "a", 2), Entry(0, 1, "a", 2), Entry(1, 0, "c", 1)], [Entry(0, 2, "b", 1)]]
ENDS = {0: 3, 1: 1}
OUTCOMES = {"a": Outcome.COMMITTED, "b": Outcome.UNKNOWN, "c": Outcome.COMMITTED, "x": Outcome.ABORTED}


def test_valid_entries_have_no_violations() -> None:
    assert check_history([DEBITS, CREDITS], ENDS, OUTCOMES) == []


def test_duplicate_entry_is_detected() -> None:
    twice = [DEBITS[0], [*DEBITS[1], Entry(1, 0, "c", 1)]]
    assert "debits: input 0 of 1 is there 2 times" in check_history([twice, CREDITS], ENDS, OUTCOMES)


def test_input_of_two_attempts_is_detected() -> None:
    sides = [[*side, [Entry(0, 2, "d", 1)]] for side in (DEBITS, CREDITS)]
    violations = check_history(sides, ENDS, OUTCOMES)
    assert violations == ["debits: input 2 of 0 is there 2 times", "credits: input 2 of 0 is there 2 times"]


def test_consumed_input_without_entries_is_detected() -> None:
    assert check_history([DEBITS, CREDITS], {0: 4, 1: 1}, OUTCOMES) == [
        "debits: input 3 of 0 is there 0 times",
        "credits: input 3 of 0 is there 0 times",
    ]


def test_entries_without_committed_offset_are_detected() -> None:
    violations = check_history([DEBITS, CREDITS], {0: 2, 1: 1}, OUTCOMES)
    assert violations[0] == "debits: input 2 of 0 is there, and was not consumed: 2 is committed"


def test_torn_transaction_is_detected() -> None:
    violations = check_history([[DEBITS[0][:-1], DEBITS[1]], CREDITS], ENDS, OUTCOMES)
    assert violations[0] == "attempt b: 0 of 1 entries among the debits"


def test_halves_of_different_attempts_are_detected() -> None:
    sides = [DEBITS, [CREDITS[0], [Entry(0, 2, "d", 1)]]]
    assert "input 2 of 0: debit by b, credit by d" in check_history(sides, ENDS, OUTCOMES)


@pytest.mark.parametrize("name", ["x", "mine!"])
def test_visible_aborted_attempt_is_detected(name: str) -> None:
    sides = [[*side, [Entry(1, 1, name, 1)]] for side in (DEBITS, CREDITS)]
    assert check_history(sides, {0: 3, 1: 2}, OUTCOMES) == [f"attempt {name} was aborted and is seen"]


def test_invisible_committed_attempt_is_detected() -> None:
    assert check_history([DEBITS, CREDITS], ENDS, {**OUTCOMES, "e": Outcome.COMMITTED}) == [
        "attempt e was committed and is not seen"
    ]


def test_out_of_order_entries_are_detected() -> None:
    violations = check_history([[DEBITS[0][::-1], DEBITS[1]], CREDITS], ENDS, OUTCOMES)
    assert "debits: partition 0: input 1 of 0 after 2" in violations


def test_entry_round_trip() -> None:
    entry = Entry(3, 41, "app-7!", 2)
    assert Entry.read(entry.value()) == entry


# The reader.


def test_batches_are_aborted_from_first_offset_to_marker() -> None:
    aborted = Aborted([(10, 7)])
    assert not aborted.has(7, end=10)
    assert not aborted.has(8, end=12)
    assert aborted.has(7, end=13)
    aborted.ends(7, end=14)
    assert not aborted.has(7, end=15)


def test_two_aborted_transactions_of_one_producer() -> None:
    aborted = Aborted([(20, 7), (10, 7)])
    assert aborted.has(7, end=12)
    aborted.ends(7, end=13)
    assert not aborted.has(7, end=19)
    assert aborted.has(7, end=21)
