"""Whether a log's files can still be trusted, and what an error of the disk means for whoever asked.

A disk that is full refuses one request and no more, and so does a file that may not be opened. Anything else
is the end of the directory: after a failed sync nobody knows what is on the disk, so nothing there is used
again by this process.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Final

from odradek.log.segments.log_segment import SegmentContext
from odradek.model.errors import BrokerError, ErrorCode, StorageError

FD_LIMIT_ERRORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""Errors of opening a file while the process, or the system, has no file descriptor left."""

DISK_FULL_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors of writing to a disk, or within a quota, that is full."""

TRANSIENT_ERRORS: Final = FD_LIMIT_ERRORS | DISK_FULL_ERRORS
"""Errors that say that something is full, not that it is broken."""

SINGLE_FILE_ERRORS: Final = frozenset({errno.EACCES, errno.EPERM, errno.EISDIR})
"""Errors of opening a file that say nothing about the disk: it may not be written, or is a directory."""

SINGLE_LOG_ERRORS: Final = TRANSIENT_ERRORS | SINGLE_FILE_ERRORS
"""Errors that concern the log whose files were asked for, and no other one of the directory."""

_NOT_OF_A_SYNC: Final = FD_LIMIT_ERRORS | SINGLE_FILE_ERRORS


class DiskHealth:
    """Lost once and for all; ``on_failure`` is told of each error that takes it away."""

    __slots__ = ("_on_failure", "_place", "failure")

    def __init__(self, place: SegmentContext, on_failure: Callable[[StorageError], None]) -> None:
        self.failure: StorageError | None = None
        self._place = place
        self._on_failure = on_failure

    def require(self) -> None:
        """Raise what ended it."""
        if self.failure is not None:
            raise self.failure

    def refusal(self, error: OSError, what: str) -> Exception:
        """What to raise when the disk would not ``what`` the log."""
        return self._passing(error, what) if error.errno in SINGLE_LOG_ERRORS else self.lose(error, what)

    def sync_refusal(self, error: OSError, what: str) -> Exception:
        """Return the error for files that could not be synced; one that could not be opened was not lost."""
        return self._passing(error, what) if error.errno in _NOT_OF_A_SYNC else self.lose(error, what)

    def _passing(self, error: OSError, what: str) -> BrokerError:
        return BrokerError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"cannot {what} {self._place.directory}: {error.strerror}; nothing was changed",
        )

    def lose(self, error: OSError, what: str) -> StorageError:
        """DiskHealth the log no more, whatever the error."""
        self.failure = StorageError(f"cannot {what} {self._place.directory}: {error}")
        self._on_failure(self.failure)
        return self.failure
