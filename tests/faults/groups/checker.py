"""Checks of a consumer group, from the journals of its members and observed committed offsets:

1. In a generation no partition is owned twice.
2. No committed offset decreases: neither commits nor observations, and a new owner starts at the last commit.
3. Every acknowledged record is read by a member.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from tests.faults.groups.journal import Committed, Event, Owned, Seen

Journals = Mapping[str, Sequence[Event]]
"""Events by member process."""


@dataclass(frozen=True)
class Observed:
    """Committed offsets as observed."""

    asked_ns: int
    offsets: Mapping[int, int]


def check_history(journals: Journals, observed: Sequence[Observed], stored: Mapping[int, int]) -> list[str]:
    """Return all violations. ``stored`` is the number of acknowledged records by partition."""
    return [
        *owned_twice(journals),
        *commits_going_back(journals, observed),
        *starts_too_early(journals),
        *never_seen(journals, stored),
    ]


def owned_twice(journals: Journals) -> Iterator[str]:
    """Yield partitions owned by two members in the same generation."""
    owners: dict[tuple[int, int], str] = {}
    for name, events in journals.items():
        for event in events:
            if isinstance(event, Owned):
                for partition in event.partitions:
                    owner = owners.setdefault((event.generation, partition), name)
                    if owner != name:
                        yield f"partition {partition} owned by {owner} and {name} in {event.generation}"


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
        """Return the commit before a time; zero if there is none."""
        times, highest = self._highest.get(partition, ([], []))
        violations = bisect_left(times, at_ns)
        return highest[violations - 1] if violations else 0


def commits_going_back(journals: Journals, observed: Sequence[Observed]) -> Iterator[str]:
    """Yield commits and observations below an earlier acknowledged commit."""
    floors = Floors(journals)
    for commit in _commits(journals):
        for partition, offset in commit.offsets.items():
            floor = floors.before(partition, commit.asked_ns)
            if offset < floor:
                yield f"partition {partition}: commit of {offset} acknowledged after one of {floor}"
    highest: dict[int, int] = {}
    for observation in observed:
        for partition, offset in observation.offsets.items():
            floor = max(floors.before(partition, observation.asked_ns), highest.get(partition, 0))
            if offset < floor:
                yield f"partition {partition}: committed offset {offset} was observed after {floor}"
            highest[partition] = max(offset, highest.get(partition, 0))


def starts_too_early(journals: Journals) -> Iterator[str]:
    """Yield owners that started below the last commit before their assignment."""
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
    """Yield stored records that no member read."""
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
