"""Unsynced state of a log besides its batches, and the work of a flush.

The log tracks unsynced batches by its recovery point. This module tracks created, renamed or deleted segment
files, the name of the log's directory, and the leader epochs. A flush is planned on the event loop and run on
a thread: a plan contains all its inputs and accesses only files.
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


class TransientWriteError(OSError):
    """Raised when a small file cannot be written now; the durability of batches is unchanged."""


class LogFlusher:
    """Flush planner of one log.

    ``names_changed`` must be set after creating, renaming or deleting segment files.
    """

    __slots__ = ("_checkpointed_epochs", "_context", "_is_new", "_lock", "_planned", "names_changed")

    def __init__(self, context: SegmentContext, checkpointed_epochs: Epochs, *, is_new: bool) -> None:
        self.names_changed = is_new
        self._context = context
        self._checkpointed_epochs = checkpointed_epochs
        self._is_new = is_new
        self._planned = (checkpointed_epochs, is_new, is_new)
        self._lock: asyncio.Lock | None = None

    def lock(self) -> asyncio.Lock:
        """Return the lock for syncs and renames, which must not run concurrently."""
        if self._lock is None:
            self._lock = asyncio.Lock()
        return self._lock

    def has_changes(self, epochs: Epochs) -> bool:
        """Return whether file names or leader epochs have changed since the last sync."""
        return self.names_changed or self._checkpointed_epochs != epochs

    def plan(
        self,
        unflushed: Sequence[LogSegment],
        active: ActiveSegment | None,
        epochs: Epochs,
        snapshots: Callable[[], None] | None = None,
    ) -> Callable[[], None]:
        """Return the work of a flush and mark its state as synced. If it fails, call ``undo_plan``.

        ``snapshots`` writes producer snapshots, which must not be written before the batches are synced.
        """
        sealed = [segment for segment in unflushed if segment is not active]
        files, directory = self._context.files, self._context.directory
        new_epochs = format_epochs(epochs).encode() if self._checkpointed_epochs != epochs else None
        names_changed, is_new = self.names_changed or snapshots is not None, self._is_new
        self._planned = (self._checkpointed_epochs, names_changed, is_new)
        self.names_changed = self._is_new = False
        self._checkpointed_epochs = epochs

        def work() -> None:
            for segment in sealed:
                if segment.has_unwritten:
                    _write_small_file(segment.write_unwritten)
                segment.sync()
            if active is not None:
                active.sync_log()
            with suppress(FileNotFoundError):  # the directory may have been renamed for deletion
                if snapshots is not None:
                    _write_small_file(snapshots)
                if new_epochs is not None:
                    _write_small_file(
                        lambda: files.write_whole(f"{directory}/{LEADER_EPOCH_CHECKPOINT}", new_epochs)
                    )
                if names_changed:
                    files.sync_dir(directory)
            if is_new:
                files.sync_dir(directory.rpartition("/")[0] or "/")

        return work

    def write_epochs(self, epochs: Epochs) -> None:
        """Write the leader epochs after a truncation. Blocks.

        Left to the flush that is in progress, if there is one, and on a full disk to the next one.
        """
        is_flushing = self._lock is not None and self._lock.locked()
        if not is_flushing and epochs != self._checkpointed_epochs and self._try_write_epochs(epochs):
            self._checkpointed_epochs = epochs

    async def replace_stale_epochs(self, epochs: Epochs) -> None:
        """Replace leader epochs that a flush wrote during a truncation, and that contain removed ones."""
        if epochs != self._checkpointed_epochs and await self._context.files.offload(
            lambda: self._try_write_epochs(epochs)
        ):
            self._checkpointed_epochs = epochs

    def _try_write_epochs(self, epochs: Epochs) -> bool:
        """Write the leader epochs; return False if the disk is full."""
        path = f"{self._context.directory}/{LEADER_EPOCH_CHECKPOINT}"
        try:
            with suppress(FileNotFoundError):  # the directory may have been renamed for deletion
                self._context.files.write_whole(path, format_epochs(epochs).encode())
        except OSError as error:
            if error.errno not in TRANSIENT_ERRORS:
                raise
            return False
        return True

    def undo_plan(self) -> None:
        """Undo the last ``plan``, whose work failed."""
        self._checkpointed_epochs, names_changed, is_new = self._planned
        self.names_changed = self.names_changed or names_changed
        self._is_new = self._is_new or is_new

    async def sync_directory(self) -> None:
        """Sync the log's directory."""
        files, directory = self._context.files, self._context.directory
        with suppress(FileNotFoundError):  # the directory may have been renamed for deletion
            await files.offload(lambda: files.sync_dir(directory))


def _write_small_file(write: Callable[[], None]) -> None:
    try:
        write()
    except OSError as error:
        if error.errno in TRANSIENT_ERRORS:
            raise TransientWriteError(error.errno, error.strerror, error.filename) from error
        raise
