"""Leader epochs of a log: the start offset of each epoch, from which the divergence of logs is computed.

Text format of ``leader-epoch-checkpoint``::

    0                     version
    2                     number of entries
    0 0                   epoch, start offset
    3 17

Invariant: epochs and start offsets increase from entry to entry. A new entry removes conflicting ones,
because the newer leader is right.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import attrgetter
from typing import Final, NamedTuple

from odradek.model.errors import StorageError
from odradek.model.ids import NO_LEADER_EPOCH, UNKNOWN_OFFSET

VERSION: Final = 0


class EpochEntry(NamedTuple):
    """Start offset of a leader epoch."""

    leader_epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """End offset of an epoch: the offset after its last record. Both fields are -1 if undefined."""

    leader_epoch: int
    end_offset: int


UNDEFINED: Final = EpochEnd(NO_LEADER_EPOCH, UNKNOWN_OFFSET)

_epoch_of: Final = attrgetter("leader_epoch")
_start_of: Final = attrgetter("start_offset")


class LeaderEpochCache:
    """Leader epochs of one log. ``latest`` is stored for the check in every append; -1 if there is none."""

    __slots__ = ("_entries", "latest")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries: list[EpochEntry] = []
        self.latest = NO_LEADER_EPOCH
        for entry in entries:
            self.assign(*entry)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """Entries, oldest first."""
        return tuple(self._entries)

    def assign(self, leader_epoch: int, start_offset: int) -> bool:
        """Record the start offset of an epoch; return whether the checkpoint must be written."""
        if leader_epoch < 0 or start_offset < 0:
            raise ValueError(
                f"leader epoch and start offset must be >= 0, got {leader_epoch} and {start_offset}"
            )
        entries = self._entries
        if leader_epoch == self.latest and start_offset >= entries[-1].start_offset:
            return False
        while entries and (
            entries[-1].leader_epoch >= leader_epoch or entries[-1].start_offset >= start_offset
        ):
            entries.pop()
        entries.append(EpochEntry(leader_epoch, start_offset))
        self.latest = leader_epoch
        return True

    def end_offset_for(self, leader_epoch: int, log_end_offset: int) -> EpochEnd:
        """Return the end offset of ``leader_epoch`` or, if it has no entry, of the largest smaller epoch.

        The latest epoch ends at the log end offset. An epoch older than all entries ends where the oldest
        entry starts. An epoch newer than all entries, or -1, is undefined.
        """
        if leader_epoch == NO_LEADER_EPOCH:
            return UNDEFINED
        if leader_epoch == self.latest:
            return EpochEnd(leader_epoch, log_end_offset)
        entries = self._entries
        higher = bisect_right(entries, leader_epoch, key=_epoch_of)
        if higher == len(entries):
            return UNDEFINED
        floor = entries[higher - 1].leader_epoch if higher else leader_epoch
        return EpochEnd(floor, entries[higher].start_offset)

    def epoch_of(self, offset: int) -> int:
        """Return the epoch of the record at ``offset``; -1 if it is before the first entry."""
        index = bisect_right(self._entries, offset, key=_start_of)
        return self._entries[index - 1].leader_epoch if index else NO_LEADER_EPOCH

    def truncate_from_end(self, end_offset: int) -> bool:
        """Remove epochs that start at or after ``end_offset``; return whether there were any."""
        keep = bisect_left(self._entries, end_offset, key=_start_of)
        return end_offset >= 0 and self._replace(self._entries[:keep])

    def truncate_from_start(self, start_offset: int) -> bool:
        """Remove epochs that end at or before ``start_offset``; the one that contains it starts there."""
        past = bisect_right(self._entries, start_offset, key=_start_of)
        if not past:
            return False
        first = EpochEntry(self._entries[past - 1].leader_epoch, start_offset)
        return self._replace([first, *self._entries[past:]])

    def clear(self) -> None:
        self._replace([])

    def _replace(self, entries: list[EpochEntry]) -> bool:
        changed = entries != self._entries
        self._entries = entries
        self.latest = entries[-1].leader_epoch if entries else NO_LEADER_EPOCH
        return changed


def format_epochs(entries: Iterable[EpochEntry]) -> str:
    """Return the text of the checkpoint file."""
    lines = [f"{leader_epoch} {start_offset}\n" for leader_epoch, start_offset in entries]
    return f"{VERSION}\n{len(lines)}\n{''.join(lines)}"


def parse_epochs(text: str, path: str) -> LeaderEpochCache:
    """Parse the text of a checkpoint file; ``path`` is for the error. An empty file has no entries."""
    lines = text.splitlines()
    if lines and lines[0].strip() != str(VERSION):
        raise StorageError(f"{path}: version must be {VERSION}, got {lines[0]!r}")
    if len(lines) < 2:
        # Kafka creates the file before it writes it, and may stop in between.
        return LeaderEpochCache()
    try:
        count = int(lines[1])
        entries = [EpochEntry(*map(int, line.split())) for line in lines[2:]]
        epochs = LeaderEpochCache(entries)
    except (TypeError, ValueError) as malformed:
        raise StorageError(f"{path}: not a leader epoch checkpoint: {malformed}") from malformed
    if len(entries) != count:
        raise StorageError(f"{path}: expected {count} entries, got {len(entries)}")
    return epochs
