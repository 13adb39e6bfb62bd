"""Our clients during broker restarts, and tests of the checker."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
from tests.faults.clients import restarts
from tests.faults.clients.checker import check_history
from tests.faults.clients.history import (
    Assigned,
    ConsumerPart,
    History,
    Log,
    Poll,
    ProducerPart,
    Send,
    Transaction,
)

SEED = 1912
Logs = tuple[dict[int, list[tuple[int, str]]], dict[int, list[tuple[int, str]]]]


@pytest.mark.timeout(600)
def test_clients_survive_broker_restarts(
    tmp_path: Path,
) -> None:
    report = restarts.play(tmp_path, 2, SEED)
    print(report.text())
    assert report.faults == 2
    assert report.violations == []


# The checker.


def fine() -> tuple[History, Logs]:
    """Return a valid history: a plain producer, a transactional one, and two readers."""
    sends = [Send("p-0", 0, 0, callbacks=1), Send("p-1", 0, 1, callbacks=1), Send("p-2", 0, -1, "late", 1)]
    plain = ProducerPart("p", sends)
    kept = Transaction([Send("t-0", 0, 2, callbacks=1), Send("t-1", 1, 0, callbacks=1)], "committed", 0.0)
    dropped = Transaction([Send("t-2", 0, 4, callbacks=1), Send("t-3", 1, -1, "aborted", 1)], "aborted")
    transactor = ProducerPart("t", [*kept.sends, *dropped.sends], [kept, dropped])
    first = ConsumerPart("a", [Assigned((0, 1)), Poll(0, 0, "p-0"), Poll(0, 1, "p-1"), Poll(1, 0, "t-1")])
    second = ConsumerPart("b", [Assigned((0,)), Poll(0, 1, "p-1"), Poll(0, 2, "t-0")])
    # Offset 3 is the marker of the transaction.
    written = {0: [(0, "p-0"), (1, "p-1"), (2, "t-0"), (4, "t-2")], 1: [(0, "t-1")]}
    committed = {0: [(0, "p-0"), (1, "p-1"), (2, "t-0")], 1: [(0, "t-1")]}
    return History([plain, transactor], [first, second]), (written, committed)


def violations_after(change: Callable[[History, Logs], None]) -> list[str]:
    history, logs = deepcopy(fine())
    change(history, logs)
    written: Log = logs[0]
    return check_history(history, written, logs[1])


def test_valid_history_has_no_violations() -> None:
    assert violations_after(lambda _history, _logs: None) == []


def test_failed_send_may_be_written_once() -> None:
    def change(_history: History, logs: Logs) -> None:
        for log in logs:
            log[1].append((1, "p-2"))

    assert violations_after(change) == ["never-polled: 1 records of partition 1, the first at 1"]


def _lose(_history: History, logs: Logs) -> None:
    for log in logs:
        del log[0][1]


def _move(_history: History, logs: Logs) -> None:
    for log in logs:
        log[0][0], log[0][1] = (0, "p-1"), (1, "p-0")


def _double(_history: History, logs: Logs) -> None:
    for log in logs:
        log[1].append((1, "p-1"))


def _hide(_history: History, logs: Logs) -> None:
    del logs[1][1][0]


def _show(_history: History, logs: Logs) -> None:
    logs[1][0].append((4, "t-2"))


def _tear(history: History, logs: Logs) -> None:
    history.producers[1].transactions[0].outcome = "unknown"
    del logs[1][1][0]


def _read_aborted(history: History, _logs: Logs) -> None:
    history.consumers[1].events.append(Poll(0, 4, "t-2"))


def _read_early(history: History, _logs: Logs) -> None:
    history.consumers[1].events[2] = Poll(0, 2, "t-0", polled_s=1.0)
    history.producers[1].transactions[0].commit_began_s = 1.5


def _read_before_any_commit(history: History, _logs: Logs) -> None:
    transaction = history.producers[1].transactions[0]
    transaction.outcome, transaction.commit_began_s = "unknown", None


def _skip(history: History, _logs: Logs) -> None:
    del history.consumers[0].events[2]
    history.consumers[0].events.insert(2, Poll(0, 2, "t-0"))


def _go_back(history: History, _logs: Logs) -> None:
    history.consumers[0].events.append(Poll(0, 0, "p-0"))


def _misread(history: History, _logs: Logs) -> None:
    history.consumers[0].events[1] = Poll(0, 0, "p-7")


def _miss(history: History, _logs: Logs) -> None:
    del history.consumers[1].events[2]


def _tell_twice(history: History, _logs: Logs) -> None:
    history.producers[0].sends[0].callbacks = 2


def _tell_nobody(history: History, _logs: Logs) -> None:
    history.producers[0].sends[2].callbacks = 0


def _stumble(history: History, _logs: Logs) -> None:
    history.consumers[0].problem = "KeyError: 3"


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (_lose, "lost-write: p-1 of p"),
        (_move, "nonmonotonic-send: p-0 of p is after p-1"),
        (_double, "duplicate: p-1"),
        (_hide, "lost-write: t-1 of t is committed and not read"),
        (_hide, "torn: 1 of 2 records of t 0 are missing"),
        (_show, "aborted-read: t-2 of t 1 is there"),
        (_tear, "torn: 1 of 2 records of t 0 are there"),
        (_read_aborted, "aborted-read: b read t-2"),
        (_read_early, "precommitted-read: b read t-0 before its commit"),
        (_read_before_any_commit, "precommitted-read: a read t-1 before its commit"),
        (_skip, "poll-skip: a did not read 1 of partition 0"),
        (_go_back, "nonmonotonic-poll: a read 0 of 0 after 1"),
        (_misread, "inconsistent-offsets: a read p-7 at (0, 0), where p-0 is"),
        (_miss, "never-polled: 1 records of partition 0, the first at 2"),
        (_tell_twice, "callback: p had 2 callbacks for p-0"),
        (_tell_nobody, "callback: p had 0 callbacks for p-2"),
        (_stumble, "a: KeyError: 3"),
    ],
)
def test_each_violation_is_detected(change: Callable[[History, Logs], None], name: str) -> None:
    assert any(violation.startswith(name) for violation in violations_after(change)), violations_after(change)
