"""How far the start of a data directory has come.

Written by the threads that open logs, read from the event loop meanwhile: every field only grows, and none
needs another to be true.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from odradek.log.log import Log
from odradek.log.recovery.log_loader import RecoveryResult
from odradek.log.segments.segment_format import DirectoryKind
from odradek.model.errors import StorageError
from odradek.model.ids import TopicPartition


class LoadProgress(NamedTuple):
    """What a person who waits wants to know."""

    logs_loaded: int
    logs_total: int
    segments_scanned: int
    bytes_scanned: int


class RecoverySummary(NamedTuple):
    """RecoverySummary of logs that were not closed."""

    partitions: int
    segments: int
    read_bytes: int
    repaired: int
    """Logs that lost something."""
    truncated_bytes: int
    dropped_segments: int


class LoadState:
    """The start of one directory, and what it found."""

    __slots__ = ("begun", "failures", "loaded", "recovered", "total", "unusable")

    def __init__(self) -> None:
        self.total = 0
        self.begun: list[RecoveryResult] = []
        """One for each log that is open or being opened."""
        self.loaded: list[tuple[DirectoryKind, Log]] = []
        self.recovered: list[tuple[TopicPartition, RecoveryResult]] = []
        self.failures: list[StorageError] = []
        """Of the disk: the directory cannot be used."""
        self.unusable: list[tuple[TopicPartition, StorageError]] = []
        """Logs that cannot be opened, though others can."""


def load_progress(directories: Iterable[LoadState]) -> LoadProgress:
    """How far all of them are together."""
    starts = list(directories)
    begun = [one for start in starts for one in list(start.begun)]
    return LoadProgress(
        sum(len(start.loaded) for start in starts),
        sum(start.total for start in starts),
        sum(one.scanned_segments for one in begun),
        sum(one.scanned_bytes for one in begun),
    )


def recovery_summary(directories: Iterable[LoadState]) -> RecoverySummary:
    """Sum over all directories."""
    recovered = [one for start in directories for _, one in start.recovered]
    return RecoverySummary(
        len(recovered),
        sum(one.scanned_segments for one in recovered),
        sum(one.scanned_bytes for one in recovered),
        sum(one.problem is not None for one in recovered),
        sum(one.truncated_bytes + one.dropped_bytes for one in recovered),
        sum(one.dropped_segments for one in recovered),
    )
