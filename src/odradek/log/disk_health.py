"""Classification of disk errors of a log: transient for one request, or fatal for the log directory.

A full disk or a file that cannot be opened fails one request only. Any other error takes the directory
offline: after a failed sync the state on disk is unknown, so this process must not use it again.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Final

from odradek.log.segments.log_segment import SegmentContext
from odradek.model.errors import BrokerError, ErrorCode, StorageError

FD_LIMIT_ERRORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""The process or the system has no file descriptor left."""

DISK_FULL_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""The disk or a quota is full."""

TRANSIENT_ERRORS: Final = FD_LIMIT_ERRORS | DISK_FULL_ERRORS
"""Errors that can succeed on retry."""

SINGLE_FILE_ERRORS: Final = frozenset({errno.EACCES, errno.EPERM, errno.EISDIR})
"""Errors of opening one file that say nothing about the disk."""

SINGLE_LOG_ERRORS: Final = TRANSIENT_ERRORS | SINGLE_FILE_ERRORS
"""Errors that concern one log, not the whole directory."""

_NON_SYNC_ERRORS: Final = FD_LIMIT_ERRORS | SINGLE_FILE_ERRORS


class DiskHealth:
    """Health of a log's files; a failure is permanent. ``on_failure`` is called with each fatal error."""

    __slots__ = ("_context", "_on_failure", "failure")

    def __init__(self, context: SegmentContext, on_failure: Callable[[StorageError], None]) -> None:
        self.failure: StorageError | None = None
        self._context = context
        self._on_failure = on_failure

    def check(self) -> None:
        """Raise the fatal error, if there was one."""
        if self.failure is not None:
            raise self.failure

    def error_for(self, error: OSError, what: str) -> Exception:
        """Return the error to raise when the operation ``what`` failed."""
        if error.errno in SINGLE_LOG_ERRORS:
            return self._transient_error(error, what)
        return self.fail(error, what)

    def sync_error_for(self, error: OSError, what: str) -> Exception:
        """Return the error to raise when a sync failed. Fatal, unless the file could not even be opened."""
        if error.errno in _NON_SYNC_ERRORS:
            return self._transient_error(error, what)
        return self.fail(error, what)

    def _transient_error(self, error: OSError, what: str) -> BrokerError:
        return BrokerError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"cannot {what} {self._context.directory}: {error.strerror}; nothing was changed",
        )

    def fail(self, error: OSError, what: str) -> StorageError:
        """Fail the log, whatever the error."""
        self.failure = StorageError(f"cannot {what} {self._context.directory}: {error}")
        self._on_failure(self.failure)
        return self.failure
