"""The journal of a group member.

One JSON object per line, each written by one call, so that a killed member leaves complete lines. Times are
of the monotonic clock, which all processes of a machine share. Kinds:

- ``owned``: all partitions of the member in a generation
- ``freed``: revoked or lost partitions
- ``seen``: ranges of processed records: partition, first and last offset
- ``committed``: offsets whose commit was acknowledged, and when it was requested
- ``refused``: a commit that was not acknowledged
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Owned:
    at_ns: int
    generation: int
    partitions: tuple[int, ...]


@dataclass(frozen=True)
class Freed:
    at_ns: int
    partitions: tuple[int, ...]


@dataclass(frozen=True)
class Seen:
    at_ns: int
    runs: tuple[tuple[int, int, int], ...]
    """Partition, first offset, last offset."""


@dataclass(frozen=True)
class Committed:
    at_ns: int
    asked_ns: int
    offsets: Mapping[int, int]


@dataclass(frozen=True)
class Refused:
    at_ns: int
    message: str


Event = Owned | Freed | Seen | Committed | Refused


class Writer:
    """A journal being written."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def owned(self, generation: int, partitions: Iterable[int]) -> None:
        self._write("owned", generation=generation, partitions=sorted(partitions))

    def freed(self, partitions: Iterable[int]) -> None:
        self._write("freed", partitions=sorted(partitions))

    def seen(self, records: Iterable[tuple[int, int]]) -> None:
        """Record processed records, in order per partition."""
        runs: dict[int, list[list[int]]] = {}
        for partition, offset in records:
            of_partition = runs.setdefault(partition, [])
            if of_partition and of_partition[-1][2] == offset - 1:
                of_partition[-1][2] = offset
            else:
                of_partition.append([partition, offset, offset])
        self._write("seen", runs=[run for of_partition in runs.values() for run in of_partition])

    def committed(self, asked_ns: int, offsets: Mapping[int, int]) -> None:
        self._write("committed", asked_ns=asked_ns, offsets=sorted(offsets.items()))

    def refused(self, message: str) -> None:
        self._write("refused", message=message[:200])

    def _write(self, kind: str, **fields: object) -> None:
        line = json.dumps({"at_ns": time.monotonic_ns(), "kind": kind, **fields})
        os.write(self._file, line.encode() + b"\n")


def read(path: Path) -> list[Event]:
    """Read the events of a journal; a member killed early has none."""
    if not path.exists():
        return []
    return [_event(json.loads(line)) for line in path.read_text().splitlines()]


def owned_last(events: Iterable[Event]) -> set[int]:
    """Return the partitions owned at the end of a journal."""
    owned: set[int] = set()
    for event in events:
        if isinstance(event, Owned):
            owned = set(event.partitions)
        elif isinstance(event, Freed):
            owned -= set(event.partitions)
    return owned


def _event(line: dict[str, object]) -> Event:
    match line:
        case {
            "kind": "owned",
            "at_ns": int(at),
            "generation": int(generation),
            "partitions": list(partitions),
        }:
            return Owned(at, generation, tuple(partitions))
        case {"kind": "freed", "at_ns": int(at), "partitions": list(partitions)}:
            return Freed(at, tuple(partitions))
        case {"kind": "seen", "at_ns": int(at), "runs": list(runs)}:
            return Seen(at, tuple((run[0], run[1], run[2]) for run in runs))
        case {"kind": "committed", "at_ns": int(at), "asked_ns": int(asked), "offsets": list(offsets)}:
            return Committed(at, asked, dict(offsets))
        case {"kind": "refused", "at_ns": int(at), "message": str(message)}:
            return Refused(at, message)
    raise ValueError(f"not a line of a journal: {line}")
