"""What of a log has yet to reach the disk, and the work that brings it there.

Batches count from the recovery point on, which the log keeps; here are the names of segments that came or
went, the name of the log's own directory, and the leader epochs. Work is planned by the log's owner and run
on a thread: a plan holds all that it needs, and touches nothing but files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from odradek.log.checkpoints import LEADER_EPOCH_CHECKPOINT
from odradek.log.disk_health import TRANSIENT_ERRORS
from odradek.log.leader_epoch_cache import EpochEntry, format_epochs
from odradek.log.segments.active_segment import ActiveSegment
from odradek.log.segments.log_segment import LogSegment, SegmentContext

Epochs = tuple[EpochEntry, ...]


class DiskFull(OSError):
    """A small file cannot be written now; the batches are as safe as before."""


class LogFlusher:
    """``names_changed`` is set by whoever makes, renames or removes a segment's files."""

    __slots__ = ("_epochs_written", "_is_new", "_lock", "_place", "_taken", "names_changed")

    def __init__(self, place: SegmentContext, epochs_written: Epochs, *, is_new: bool) -> None:
        self.names_changed = is_new
        self._place = place
        self._epochs_written = epochs_written
        self._is_new = is_new
        self._taken = (epochs_written, is_new, is_new)
        self._lock: asyncio.Lock | None = None

    def one_at_a_time(self) -> asyncio.Lock:
        """Held by all who sync or change names: one must not look for files that another is renaming."""
        if self._lock is None:
            self._lock = asyncio.Lock()
        return self._lock

    def is_due(self, epochs: Epochs) -> bool:
        """Whether names or leader epochs have changed since they were last brought to the disk."""
        return self.names_changed or self._epochs_written != epochs

    def plan(
        self,
        unflushed: Sequence[LogSegment],
        active: ActiveSegment | None,
        epochs: Epochs,
        snapshots: Callable[[], None] | None = None,
    ) -> Callable[[], None]:
        """Take over all that is due. If the work fails for want of room, ``give_back`` makes it due again.

        ``snapshots`` writes files that may speak of no batch which is not on the disk.
        """
        resting = [segment for segment in unflushed if segment is not active]
        files, directory = self._place.files, self._place.directory
        new_epochs = format_epochs(epochs).encode() if self._epochs_written != epochs else None
        names_changed, is_new = self.names_changed or snapshots is not None, self._is_new
        self._taken = (self._epochs_written, names_changed, is_new)
        self.names_changed = self._is_new = False
        self._epochs_written = epochs

        def work() -> None:
            for segment in resting:
                if segment.has_unwritten:
                    _with_room(segment.write_unwritten)
                segment.sync()
            if active is not None:
                active.sync_log()
            with suppress(FileNotFoundError):  # the directory may be on its way out under another name
                if snapshots is not None:
                    _with_room(snapshots)
                if new_epochs is not None:
                    _with_room(
                        lambda: files.write_whole(f"{directory}/{LEADER_EPOCH_CHECKPOINT}", new_epochs)
                    )
                if names_changed:
                    files.sync_dir(directory)
            if is_new:
                files.sync_dir(directory.rpartition("/")[0] or "/")

        return work

    def give_back(self) -> None:
        """What the last plan took over was not done."""
        self._epochs_written, names_changed, is_new = self._taken
        self.names_changed = self.names_changed or names_changed
        self._is_new = self._is_new or is_new

    async def sync_directory(self) -> None:
        """Make the names in the log's directory durable."""
        files, directory = self._place.files, self._place.directory
        with suppress(FileNotFoundError):  # the directory may be on its way out under another name
            await files.offload(lambda: files.sync_dir(directory))


def _with_room(write: Callable[[], None]) -> None:
    try:
        write()
    except OSError as error:
        if error.errno in TRANSIENT_ERRORS:
            raise DiskFull(error.errno, error.strerror, error.filename) from error
        raise
