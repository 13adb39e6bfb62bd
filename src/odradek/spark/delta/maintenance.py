"""Maintenance of a table: compaction of small files, and removal of unreferenced ones.

A compaction changes no row: its commit has ``dataChange`` false, so streams that read the table skip it, and
the application transactions of sinks stay. A vacuum makes versions older than its retention unreadable, also
for streams that are further behind.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltalake.exceptions import DeltaError

from odradek.spark.delta.errors import TableError
from odradek.spark.delta.storage import absolute_path, open_table, storage_errors
from odradek.telemetry import events

_log = events.logger("spark")


@dataclass(frozen=True)
class Compaction:
    """Result of a compaction."""

    files_added: int
    files_removed: int


def is_due(batch_id: int, every: int) -> bool:
    """Return True if maintenance follows this batch: every ``every`` batches."""
    return every > 0 and batch_id > 0 and batch_id % every == 0


def compact(
    path: str, storage_options: dict[str, str] | None = None, target_bytes: int | None = None
) -> Compaction:
    """Compact small files, within each partition."""
    path = absolute_path(path)
    table = open_table(path, storage_options or {})
    with storage_errors(path):
        metrics = table.optimize.compact(target_size=target_bytes)
    return Compaction(metrics["numFilesAdded"], metrics["numFilesRemoved"])


def vacuum(
    path: str,
    storage_options: dict[str, str] | None = None,
    *,
    retention_hours: int | None = None,
    dry_run: bool = True,
) -> list[str]:
    """Remove files that no version within the retention needs; return their paths.

    With ``dry_run`` nothing is removed. Files of tasks that were never committed are removed too, so the
    retention must be longer than the longest micro-batch.
    """
    path = absolute_path(path)
    table = open_table(path, storage_options or {})
    with storage_errors(path):
        # Files of failed attempts are not in the log: only a full vacuum lists the directory.
        removed: list[str] = table.vacuum(
            retention_hours, dry_run=dry_run, enforce_retention_duration=False, full=True
        )
    return removed


def after_batch(
    path: str,
    storage_options: dict[str, str],
    *,
    target_bytes: int,
    vacuum_hours: int | None,
) -> None:
    """Compact, and vacuum if configured; a failure is only logged, because the batch is committed."""
    try:
        compaction = compact(path, storage_options, target_bytes)
        _log.info(
            "table_compacted", path=path, added=compaction.files_added, removed=compaction.files_removed
        )
        if vacuum_hours is not None:
            removed = vacuum(path, storage_options, retention_hours=vacuum_hours, dry_run=False)
            _log.info("table_vacuumed", path=path, files=len(removed))
    except (TableError, DeltaError, OSError, ValueError) as error:
        _log.warning("table_maintenance_failed", path=path, reason=str(error))
