"""The leader epochs of a log: which epoch began at which offset, and so where logs part ways.

As text, the content of ``leader-epoch-checkpoint``::

    0                     version
    2                     number of entries
    0 0                   epoch, space, offset of its first record
    3 17

Invariant: from one entry to the next both epoch and start offset grow. An entry that would break this
removes what is in its way, for the newer leader is right.
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
    """The first record of a leader epoch."""

    leader_epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """Where an epoch ended: the offset after its last record. Both are -1 if that cannot be said."""

    leader_epoch: int
    end_offset: int


UNDEFINED: Final = EpochEnd(NO_LEADER_EPOCH, UNKNOWN_OFFSET)

_epoch_of: Final = attrgetter("leader_epoch")
_start_of: Final = attrgetter("start_offset")


class LeaderEpochCache:
    """The history of one log. ``latest`` is kept apart for the one question every append asks; -1 if none."""

    __slots__ = ("_entries", "latest")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries: list[EpochEntry] = []
        self.latest = NO_LEADER_EPOCH
        for entry in entries:
            self.assign(*entry)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """Oldest first."""
        return tuple(self._entries)

    def assign(self, leader_epoch: int, start_offset: int) -> bool:
        """Say that an epoch begins at an offset; True if that changed anything and should be written down."""
        if leader_epoch < 0 or start_offset < 0:
            raise ValueError(f"no epoch begins so: {leader_epoch=}, {start_offset=}")
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
        """Where ``leader_epoch`` ended here; if it wrote nothing here, where the largest smaller one did.

        The latest epoch ends at the log's end. For an epoch older than all, the answer is where the oldest
        one begins: what came before is gone. Newer than all, or -1: undefined.
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
        """The epoch in which the record at ``offset`` was written; -1 if it is older than all."""
        index = bisect_right(self._entries, offset, key=_start_of)
        return self._entries[index - 1].leader_epoch if index else NO_LEADER_EPOCH

    def truncate_from_end(self, end_offset: int) -> bool:
        """Forget epochs that begin at ``end_offset`` or later; True if there were any."""
        keep = bisect_left(self._entries, end_offset, key=_start_of)
        return end_offset >= 0 and self._replace(self._entries[:keep])

    def truncate_from_start(self, start_offset: int) -> bool:
        """Forget epochs that ended by ``start_offset``; the one it falls into begins there now."""
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
    """The checkpoint's text."""
    lines = [f"{leader_epoch} {start_offset}\n" for leader_epoch, start_offset in entries]
    return f"{VERSION}\n{len(lines)}\n{''.join(lines)}"


def parse_epochs(text: str, path: str) -> LeaderEpochCache:
    """Read a checkpoint's text; ``path`` is for the complaint. A file that was never written is empty."""
    lines = text.splitlines()
    if lines and lines[0].strip() != str(VERSION):
        raise StorageError(f"{path}: version {lines[0]!r} is not {VERSION}")
    if len(lines) < 2:
        # Kafka makes the file before it writes it, and may stop in between.
        return LeaderEpochCache()
    try:
        count = int(lines[1])
        entries = [EpochEntry(*map(int, line.split())) for line in lines[2:]]
        epochs = LeaderEpochCache(entries)
    except (TypeError, ValueError) as malformed:
        raise StorageError(f"{path}: not a leader epoch checkpoint: {malformed}") from malformed
    if len(entries) != count:
        raise StorageError(f"{path}: says {count} entries, has {len(entries)}")
    return epochs
