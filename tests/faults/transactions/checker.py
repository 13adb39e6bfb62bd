"""Checks of what a read_committed reader saw. Pure.

A transaction moves money: for every input it writes one entry to each of two topics, the sides. An entry
has its worker, its input, and its attempt with the number of inputs, so that a torn transaction is visible
in the entries alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

SIDES = ("debits", "credits")
TO_BE_ABORTED = "!"
"""Suffix of attempts that are to be aborted."""


class Outcome(Enum):
    """The outcome of an attempt, as known to its writer."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Entry(NamedTuple):
    """The value of one record."""

    worker: int
    number: int
    """Number of the input of its worker."""
    attempt: str
    size: int
    """Number of inputs of the attempt."""

    def value(self) -> bytes:
        return f"{self.worker} {self.number} {self.attempt} {self.size}".encode()

    @classmethod
    def read(cls, value: bytes) -> Entry:
        worker, number, attempt, size = value.decode().split()
        return cls(int(worker), int(number), attempt, int(size))


Side = Sequence[Sequence[Entry]]
"""The entries of one topic, by partition in log order."""


def check_history(
    sides: Sequence[Side], ends: Mapping[int, int], outcomes_by_attempt: Mapping[str, Outcome]
) -> list[str]:
    """Return all violations; ``ends`` has the committed offset of each worker."""
    violations = [
        *_torn(sides),
        *_wrong_outcomes(sides, outcomes_by_attempt),
        *_attempts_apart(sides),
    ]
    for name, side in zip(SIDES, sides, strict=True):
        violations += (f"{name}: {fields}" for fields in _not_exactly_once(side, ends))
        violations += (f"{name}: {fields}" for fields in _out_of_order(side))
    return violations


def _entries(side: Side) -> Iterator[Entry]:
    for partition in side:
        yield from partition


def _not_exactly_once(side: Side, ends: Mapping[int, int]) -> Iterator[str]:
    """Yield inputs below the committed offset that are not there exactly once, and inputs above it."""
    times = Counter((entry.worker, entry.number) for entry in _entries(side))
    for worker, end in ends.items():
        for number in range(end):
            if (count := times.pop((worker, number), 0)) != 1:
                yield f"input {number} of {worker} is there {count} times"
    for (worker, number), _ in times.items():
        yield f"input {number} of {worker} is there, and was not consumed: {ends.get(worker)} is committed"


def _torn(sides: Sequence[Side]) -> Iterator[str]:
    """Yield attempts with missing or surplus entries."""
    attempts = {entry.attempt: entry.size for side in sides for entry in _entries(side)}
    for name, side in zip(SIDES, sides, strict=True):
        counts = Counter(entry.attempt for entry in _entries(side))
        for attempt, size in attempts.items():
            if counts[attempt] != size:
                yield f"attempt {attempt}: {counts[attempt]} of {size} entries among the {name}"


def _attempts_apart(sides: Sequence[Side]) -> Iterator[str]:
    """Yield inputs whose two entries are of different attempts."""
    debited, credited = (
        {(entry.worker, entry.number): entry.attempt for entry in _entries(side)} for side in sides
    )
    for taken, attempt in debited.items():
        if credited.get(taken, attempt) != attempt:
            yield f"input {taken[1]} of {taken[0]}: debit by {attempt}, credit by {credited[taken]}"


def _wrong_outcomes(sides: Sequence[Side], outcomes_by_attempt: Mapping[str, Outcome]) -> Iterator[str]:
    """Yield visible aborted attempts, and invisible committed ones."""
    visible = {entry.attempt for side in sides for entry in _entries(side)}
    for attempt in visible:
        if attempt.endswith(TO_BE_ABORTED) or outcomes_by_attempt.get(attempt) is Outcome.ABORTED:
            yield f"attempt {attempt} was aborted and is seen"
    for attempt, outcome in outcomes_by_attempt.items():
        if outcome is Outcome.COMMITTED and attempt not in visible:
            yield f"attempt {attempt} was committed and is not seen"


def _out_of_order(side: Side) -> Iterator[str]:
    """Yield entries of a worker that are out of order in a partition."""
    for partition, entries in enumerate(side):
        last: dict[int, int] = defaultdict(lambda: -1)
        for entry in entries:
            if entry.number < last[entry.worker]:
                before = last[entry.worker]
                yield f"partition {partition}: input {entry.number} of {entry.worker} after {before}"
            last[entry.worker] = entry.number
