"""What must hold of a group whatever its members, their clients and the broker go through.

Judged from the members' own journals and from what an observer was told of the committed offsets:

1. In a generation no partition is owned twice.
2. No committed offset goes back: neither one commit after another, nor what an observer is told, and a new
   owner starts where the commits before it had come to.
3. Every record that a producer was told is stored is seen by somebody.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from tests.faults.groups.journal import Committed, Event, Owned, Seen

Journals = Mapping[str, Sequence[Event]]
"""By the name of the member's process."""


@dataclass(frozen=True)
class Observed:
    """The committed offsets as an observer was told them."""

    asked_ns: int
    offsets: Mapping[int, int]


def judge(journals: Journals, observed: Sequence[Observed], stored: Mapping[int, int]) -> list[str]:
    """Everything that does not hold. ``stored`` is the number of acknowledged records of each partition."""
    return [
        *owned_twice(journals),
        *commits_going_back(journals, observed),
        *starts_too_early(journals),
        *never_seen(journals, stored),
    ]


def owned_twice(journals: Journals) -> Iterator[str]:
    """Partitions that two members were given in the same generation."""
    owners: dict[tuple[int, int], str] = {}
    for name, events in journals.items():
        for event in events:
            if isinstance(event, Owned):
                for partition in event.partitions:
                    other = owners.setdefault((event.generation, partition), name)
                    if other != name:
                        yield f"partition {partition} owned by {other} and {name} in {event.generation}"


class Floors:
    """The highest acknowledged commit of a partition before a time."""

    def __init__(self, journals: Journals) -> None:
        acknowledged: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for commit in _commits(journals):
            for partition, offset in commit.offsets.items():
                acknowledged[partition].append((commit.at_ns, offset))
        self._highest: dict[int, tuple[list[int], list[int]]] = {}
        for partition, commits in acknowledged.items():
            commits.sort()
            times = [at for at, _ in commits]
            self._highest[partition] = times, list(accumulate((offset for _, offset in commits), max))

    def before(self, partition: int, at_ns: int) -> int:
        """Zero where nothing had been committed."""
        times, highest = self._highest.get(partition, ([], []))
        found = bisect_left(times, at_ns)
        return highest[found - 1] if found else 0


def commits_going_back(journals: Journals, observed: Sequence[Observed]) -> Iterator[str]:
    """Commits, and observations, below what had been acknowledged before they were asked for."""
    floors = Floors(journals)
    for commit in _commits(journals):
        for partition, offset in commit.offsets.items():
            floor = floors.before(partition, commit.asked_ns)
            if offset < floor:
                yield f"partition {partition}: commit of {offset} acknowledged after one of {floor}"
    highest: dict[int, int] = {}
    for one in observed:
        for partition, offset in one.offsets.items():
            floor = max(floors.before(partition, one.asked_ns), highest.get(partition, 0))
            if offset < floor:
                yield f"partition {partition}: committed offset {offset} was told after {floor}"
            highest[partition] = max(offset, highest.get(partition, 0))


def starts_too_early(journals: Journals) -> Iterator[str]:
    """Owners that began below what had been committed before they became owners."""
    floors = Floors(journals)
    for name, events in journals.items():
        unstarted: dict[int, int] = {}
        for event in events:
            if isinstance(event, Owned):
                unstarted = dict.fromkeys(event.partitions, event.at_ns)
            elif isinstance(event, Seen):
                for partition, first, _ in event.runs:
                    if (owned_ns := unstarted.pop(partition, None)) is None:
                        continue
                    floor = floors.before(partition, owned_ns)
                    if first < floor:
                        yield f"partition {partition}: {name} began at {first}, below {floor}"


def never_seen(journals: Journals, stored: Mapping[int, int]) -> Iterator[str]:
    """Stored records that no member saw."""
    seen: dict[int, set[int]] = defaultdict(set)
    for events in journals.values():
        for event in events:
            if isinstance(event, Seen):
                for partition, first, last in event.runs:
                    seen[partition].update(range(first, last + 1))
    for partition, count in stored.items():
        unseen = set(range(count)) - seen[partition]
        if unseen:
            yield f"partition {partition}: {len(unseen)} of {count} records never seen, first {min(unseen)}"


def _commits(journals: Journals) -> Iterator[Committed]:
    for events in journals.values():
        yield from (event for event in events if isinstance(event, Committed))
