"""Progress and results of loading a log directory.

Written by the loading threads while the event loop reads: every field only grows, and the fields are
independent of each other.
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
    """Progress over all directories."""

    logs_loaded: int
    logs_total: int
    segments_scanned: int
    bytes_scanned: int


class RecoverySummary(NamedTuple):
    """Totals of the recovery after an unclean shutdown."""

    partitions: int
    segments: int
    read_bytes: int
    repaired: int
    """Logs that were truncated."""
    truncated_bytes: int
    dropped_segments: int


class LoadState:
    """Loading of one directory."""

    __slots__ = ("failures", "loaded", "recovered", "started", "total", "unusable")

    def __init__(self) -> None:
        self.total = 0
        self.started: list[RecoveryResult] = []
        """One entry for each log that is loaded or being loaded."""
        self.loaded: list[tuple[DirectoryKind, Log]] = []
        self.recovered: list[tuple[TopicPartition, RecoveryResult]] = []
        self.failures: list[StorageError] = []
        """Disk errors: the directory is unusable."""
        self.unusable: list[tuple[TopicPartition, StorageError]] = []
        """Logs that cannot be opened while others can."""


def load_progress(directories: Iterable[LoadState]) -> LoadProgress:
    """Sum up the progress of all directories."""
    states = list(directories)
    started = [log for state in states for log in list(state.started)]
    return LoadProgress(
        sum(len(state.loaded) for state in states),
        sum(state.total for state in states),
        sum(log.scanned_segments for log in started),
        sum(log.scanned_bytes for log in started),
    )


def recovery_summary(directories: Iterable[LoadState]) -> RecoverySummary:
    """Sum up the recovery of all directories."""
    recovered = [log for state in directories for _, log in state.recovered]
    return RecoverySummary(
        len(recovered),
        sum(log.scanned_segments for log in recovered),
        sum(log.scanned_bytes for log in recovered),
        sum(log.problem is not None for log in recovered),
        sum(log.truncated_bytes + log.dropped_bytes for log in recovered),
        sum(log.dropped_segments for log in recovered),
    )
