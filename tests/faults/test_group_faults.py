"""Consumer groups under faults, and tests of the checker."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.faults.fault_report import FaultReport
from tests.faults.groups import broker_kills, chaos, checker
from tests.faults.groups.checker import Observed
from tests.faults.groups.journal import Committed, Event, Freed, Owned, Seen, Writer, owned_last, read

SEED = 1912


def check(report: FaultReport) -> None:
    """Print the report, and fail on a violation."""
    print(report.text())
    assert report.faults
    assert report.violations == []


@pytest.mark.timeout(600)
def test_group_keeps_offsets_while_members_join_leave_and_die(tmp_path: Path) -> None:
    check(chaos.play(tmp_path, 12, SEED))


def test_no_committed_offset_is_lost_when_broker_is_killed(tmp_path: Path) -> None:
    check(broker_kills.play(tmp_path, 3, SEED))


# The checker.

FINE: dict[str, list[Event]] = {
    "a": [
        Owned(10, 1, (0, 1)),
        Seen(20, ((0, 0, 4), (1, 0, 1))),
        Committed(30, 25, {0: 5, 1: 2}),
    ],
    "b": [
        Owned(40, 2, (0,)),
        Seen(50, ((0, 5, 9),)),
        Committed(60, 55, {0: 10}),
    ],
}
STORED = {0: 10, 1: 2}
OBSERVED = [Observed(35, {0: 5, 1: 2}), Observed(70, {0: 10, 1: 2})]


def with_events(**more: list[Event]) -> dict[str, list[Event]]:
    return {name: [*FINE.get(name, []), *more.get(name, [])] for name in {**more, **FINE}}


def test_valid_journals_have_no_violations() -> None:
    assert checker.check_history(FINE, OBSERVED, STORED) == []


def test_partition_owned_twice_in_a_generation_is_detected() -> None:
    (violations,) = checker.check_history(with_events(c=[Owned(45, 2, (0,))]), OBSERVED, STORED)
    assert violations == "partition 0 owned by c and b in 2"


def test_accepted_commit_of_a_zombie_is_detected() -> None:
    (violations,) = checker.check_history(with_events(a=[Committed(80, 65, {0: 5})]), OBSERVED, STORED)
    assert violations == "partition 0: commit of 5 acknowledged after one of 10"


def test_concurrent_commits_may_be_in_any_order() -> None:
    assert checker.check_history(with_events(a=[Committed(80, 58, {0: 5})]), [], STORED) == []


@pytest.mark.parametrize("late", [Observed(65, {0: 9}), Observed(75, {1: 1})])
def test_decreasing_committed_offset_is_detected(late: Observed) -> None:
    (violations,) = checker.check_history(FINE, [*OBSERVED, late], STORED)
    assert "was observed after" in violations


def test_owner_starting_below_committed_offset_is_detected() -> None:
    (violations,) = checker.check_history(
        with_events(c=[Owned(65, 3, (0,)), Seen(66, ((0, 7, 9),))]), [], STORED
    )
    assert violations == "partition 0: c began at 7, below 10"


def test_unread_record_is_detected() -> None:
    (violations,) = checker.check_history(FINE, OBSERVED, {0: 11})
    assert violations == "partition 0: 1 of 11 records never seen, first 10"


def test_journal_round_trip(tmp_path: Path) -> None:
    journal = Writer(str(tmp_path / "journal"))
    journal.owned(3, [2, 1])
    journal.seen([(1, 5), (2, 0), (1, 6), (1, 9)])
    journal.committed(17, {1: 10})
    journal.freed([2])
    journal.refused("no")
    owned, seen, committed, freed, refused = read(tmp_path / "journal")
    assert isinstance(owned, Owned)
    assert (owned.generation, owned.partitions) == (3, (1, 2))
    assert isinstance(seen, Seen)
    assert seen.runs == ((1, 5, 6), (1, 9, 9), (2, 0, 0))
    assert isinstance(committed, Committed)
    assert (committed.asked_ns, committed.offsets) == (17, {1: 10})
    assert isinstance(freed, Freed)
    assert freed.partitions == (2,)
    assert owned.at_ns <= seen.at_ns <= committed.at_ns <= freed.at_ns <= refused.at_ns
    assert owned_last([owned, seen, committed, freed, refused]) == {1}
    assert read(tmp_path / "none") == []
