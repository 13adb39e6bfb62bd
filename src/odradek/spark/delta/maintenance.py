"""The maintenance of a table: small files put together, and files that no version needs removed.

A compaction changes no row: its commit is marked so (``dataChange`` is false), streams that read the table
pass it by, and the application transactions of sinks stay. A vacuum ends the reading of versions older than
its retention, and of streams that are further behind.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltalake.exceptions import DeltaError

from odradek.spark.delta.errors import TableError
from odradek.spark.delta.storage import open_table, resolved, told
from odradek.telemetry import events

_log = events.logger("spark")


@dataclass(frozen=True)
class Compaction:
    """What a compaction did."""

    files_added: int
    files_removed: int


def is_due(batch_id: int, every: int) -> bool:
    """Whether maintenance follows this batch: number ``every``, twice that, and so on."""
    return every > 0 and batch_id > 0 and batch_id % every == 0


def compact(
    path: str, storage_options: dict[str, str] | None = None, target_bytes: int | None = None
) -> Compaction:
    """Put small files together, each partition for itself."""
    path = resolved(path)
    table = open_table(path, storage_options or {})
    with told(path):
        metrics = table.optimize.compact(target_size=target_bytes)
    return Compaction(metrics["numFilesAdded"], metrics["numFilesRemoved"])


def vacuum(
    path: str,
    storage_options: dict[str, str] | None = None,
    *,
    retention_hours: int | None = None,
    dry_run: bool = True,
) -> list[str]:
    """Remove files that no version of the last hours needs; which these are, or with ``dry_run`` would be.

    Files of tasks that never came to a commit go too. A retention shorter than the longest micro-batch would
    take files from under it.
    """
    path = resolved(path)
    table = open_table(path, storage_options or {})
    with told(path):
        # Files of lost attempts are in no log: only a full vacuum looks at the folder itself.
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
    """Compact, and vacuum if asked to; a failure is a warning, for the batch is committed already."""
    try:
        done = compact(path, storage_options, target_bytes)
        _log.info("table_compacted", path=path, added=done.files_added, removed=done.files_removed)
        if vacuum_hours is not None:
            removed = vacuum(path, storage_options, retention_hours=vacuum_hours, dry_run=False)
            _log.info("table_vacuumed", path=path, files=len(removed))
    except (TableError, DeltaError, OSError, ValueError) as error:
        _log.warning("table_maintenance_failed", path=path, reason=str(error))
