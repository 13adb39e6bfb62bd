"""Whether a log's files can still be trusted, and what an error of the disk means for whoever asked.

A disk that is full refuses one request and no more. Anything else is the end of the directory: after a failed
sync nobody knows what is on the disk, so nothing there is used again by this process.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Final

from odradek.log.segment import SegmentPlace
from odradek.model.errors import BrokerError, ErrorCode, StorageError

PASSING: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})
"""Errors that say that something is full, not that it is broken."""


class Trust:
    """Lost once and for all; ``on_failure`` is told of each error that takes it away."""

    __slots__ = ("_on_failure", "_place", "failure")

    def __init__(self, place: SegmentPlace, on_failure: Callable[[StorageError], None]) -> None:
        self.failure: StorageError | None = None
        self._place = place
        self._on_failure = on_failure

    def require(self) -> None:
        """Raise what ended it."""
        if self.failure is not None:
            raise self.failure

    def refusal(self, error: OSError, what: str) -> Exception:
        """What to raise when the disk would not ``what`` the log."""
        if error.errno in PASSING:
            return BrokerError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"cannot {what} {self._place.directory}: {error.strerror}; nothing was changed",
            )
        return self.lose(error, what)

    def lose(self, error: OSError, what: str) -> StorageError:
        """Trust the log no more, whatever the error."""
        self.failure = StorageError(f"cannot {what} {self._place.directory}: {error}")
        self._on_failure(self.failure)
        return self.failure
