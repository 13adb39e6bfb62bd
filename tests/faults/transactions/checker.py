"""What must hold of what a read_committed reader saw: pure judgement of plain values.

A transaction moves money: for every input that it takes it writes one entry into each of two topics, the
sides. An entry says whose input it is, which, and by which attempt of how many inputs: so a torn transaction
is seen without knowing who wrote it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

SIDES = ("debits", "credits")
TO_BE_ABORTED = "!"
"""How the name of an attempt ends that its writer means to abort."""


class Fate(Enum):
    """What a writer knows of an attempt."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Entry(NamedTuple):
    """The value of one record."""

    clerk: int
    number: int
    """Which of the clerk's inputs."""
    attempt: str
    size: int
    """How many inputs the attempt has."""

    def value(self) -> bytes:
        return f"{self.clerk} {self.number} {self.attempt} {self.size}".encode()

    @classmethod
    def read(cls, value: bytes) -> Entry:
        clerk, number, attempt, size = value.decode().split()
        return cls(int(clerk), int(number), attempt, int(size))


Side = Sequence[Sequence[Entry]]
"""The entries of one topic: of each partition, in the order of the log."""


def judge(sides: Sequence[Side], ends: Mapping[int, int], fates: Mapping[str, Fate]) -> list[str]:
    """All that is wrong; ``ends`` has where the committed offsets of each clerk are."""
    found = [
        *_torn(sides),
        *_fates_not_met(sides, fates),
        *_attempts_apart(sides),
    ]
    for name, side in zip(SIDES, sides, strict=True):
        found += (f"{name}: {words}" for words in _not_exactly_once(side, ends))
        found += (f"{name}: {words}" for words in _out_of_order(side))
    return found


def _entries(side: Side) -> Iterator[Entry]:
    for partition in side:
        yield from partition


def _not_exactly_once(side: Side, ends: Mapping[int, int]) -> Iterator[str]:
    """Inputs below the committed offset that are not there once, and any that are above it."""
    times = Counter((entry.clerk, entry.number) for entry in _entries(side))
    for clerk, end in ends.items():
        for number in range(end):
            if (count := times.pop((clerk, number), 0)) != 1:
                yield f"input {number} of {clerk} is there {count} times"
    for (clerk, number), _ in times.items():
        yield f"input {number} of {clerk} is there, and was not consumed: {ends.get(clerk)} is committed"


def _torn(sides: Sequence[Side]) -> Iterator[str]:
    """Attempts of which a part is missing, or too much is there."""
    attempts = {entry.attempt: entry.size for side in sides for entry in _entries(side)}
    for name, side in zip(SIDES, sides, strict=True):
        counts = Counter(entry.attempt for entry in _entries(side))
        for attempt, size in attempts.items():
            if counts[attempt] != size:
                yield f"attempt {attempt}: {counts[attempt]} of {size} entries among the {name}"


def _attempts_apart(sides: Sequence[Side]) -> Iterator[str]:
    """Inputs whose two entries are of different attempts."""
    debited, credited = (
        {(entry.clerk, entry.number): entry.attempt for entry in _entries(side)} for side in sides
    )
    for taken, attempt in debited.items():
        if credited.get(taken, attempt) != attempt:
            yield f"input {taken[1]} of {taken[0]}: debit by {attempt}, credit by {credited[taken]}"


def _fates_not_met(sides: Sequence[Side], fates: Mapping[str, Fate]) -> Iterator[str]:
    """Aborted attempts that are seen, and committed ones that are not."""
    seen = {entry.attempt for side in sides for entry in _entries(side)}
    for attempt in seen:
        if attempt.endswith(TO_BE_ABORTED) or fates.get(attempt) is Fate.ABORTED:
            yield f"attempt {attempt} was aborted and is seen"
    for attempt, fate in fates.items():
        if fate is Fate.COMMITTED and attempt not in seen:
            yield f"attempt {attempt} was committed and is not seen"


def _out_of_order(side: Side) -> Iterator[str]:
    """Entries of a clerk that come before an earlier input in the same partition."""
    for partition, entries in enumerate(side):
        last: dict[int, int] = defaultdict(lambda: -1)
        for entry in entries:
            if entry.number < last[entry.clerk]:
                before = last[entry.clerk]
                yield f"partition {partition}: input {entry.number} of {entry.clerk} after {before}"
            last[entry.clerk] = entry.number
