"""Markers: a record of which batches each partition of a query has written. Pure.

A marker is an offset that a group of the query's partition has committed for partition 0 of the marker topic:
the last written batch id plus one. It is committed in the same transaction as the batch's rows, so both are
visible or neither. Its metadata holds the number of rows, and the attempt that wrote them: a batch that is
replayed with another number of rows was partitioned differently, and nothing is known of its rows.

A Spark task knows its own partition, but not the number of partitions. So the tasks of a batch that another
attempt has partly written leave their transactions open, and the driver, which knows the number, ends them.

Brokers delete the offsets of empty groups after ``offsets.retention.minutes``: for an older batch it is
unknown whether it was written, and it must not be replayed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

ROWS_NAME: Final = "rows"
RETENTION_SETTING: Final = "offsets.retention.minutes"
ATTEMPT_NAME: Final = "attempt"
_METADATA: Final = re.compile(rf"{ROWS_NAME}=(\d+)(?: {ATTEMPT_NAME}=(\w+))?")
_MARGIN_SHARE: Final = 0.1
"""Share of the retention: clocks differ, and a batch starts before its marker is committed."""

_REPARTITIONED: Final = (
    "rows are partitioned differently than before, so some would be lost or duplicated: restore the options "
    "and settings this batch was planned with (minPartitions, maxRecordsPerPartition, "
    "spark.sql.shuffle.partitions, repartition and coalesce in the query), and change them once it is "
    "complete; another batch write requires another sinkId"
)


class ReplayMismatch(Exception):
    """Raised when a written batch is replayed with other rows."""


class StaleCheckpoint(Exception):
    """Raised when a batch is replayed although later ones have been written."""


class MarkersLost(Exception):
    """Raised when batches have been written, but their markers are missing."""


class MarkerKey(NamedTuple):
    """Identifies a marker: a partition of a query, or of a batch write with a ``sinkId``."""

    query: str
    partition: int

    @property
    def group(self) -> str:
        return f"{group_prefix(self.query)}{self.partition}"

    def transactional_id(self, prefix: str) -> str:
        return f"{prefix}.{self.query}.{self.partition}"

    def __str__(self) -> str:
        return f"partition {self.partition} of {self.query}"


def group_prefix(query: str) -> str:
    """Return the prefix of a query's groups; the partition number follows."""
    return f"__sink.{query}."


@dataclass(frozen=True, slots=True)
class Marker:
    """Batches before ``next_batch`` are written; the other fields describe the last one, if known."""

    next_batch: int
    rows_count: int | None = None
    attempt: str | None = None

    def covers(self, batch_id: int) -> bool:
        return batch_id < self.next_batch

    @property
    def metadata(self) -> str:
        if self.rows_count is None:
            return ""
        attempt = "" if self.attempt is None else f" {ATTEMPT_NAME}={self.attempt}"
        return f"{ROWS_NAME}={self.rows_count}{attempt}"


def parse_marker(offset: int, metadata: str | None) -> Marker:
    """Return the marker of a committed offset."""
    match = _METADATA.fullmatch(metadata or "")
    return Marker(offset) if match is None else Marker(offset, int(match.group(1)), match.group(2))


Markers = Mapping[int, Marker]
"""The markers of a query by partition."""


def markers_of_other_attempts(markers: Markers, attempt: str) -> Markers:
    """Return the markers that existed before this attempt at a batch."""
    return {partition: marker for partition, marker in markers.items() if (marker.attempt or "") != attempt}


def is_partly_written(markers: Markers, batch_id: int) -> bool:
    """Return whether another attempt has written rows of this batch."""
    return any(marker.next_batch == batch_id + 1 for marker in markers.values())


def check_batch_order(markers: Markers, query: str, batch_id: int) -> None:
    """Raise StaleCheckpoint if the query has written a batch after this one.

    Spark starts a batch when the previous one is complete: it never goes back by itself.
    """
    last = max((marker.next_batch for marker in markers.values()), default=0) - 1
    if last > batch_id:
        raise stale_checkpoint_error(query, batch_id, last)


def stale_checkpoint_error(query: str, batch_id: int, last_batch_id: int) -> StaleCheckpoint:
    """Return the error for a query that replays a batch after which it has written others."""
    return StaleCheckpoint(
        f"query {query} is about to write batch {batch_id}, but has written batches up to batch "
        f"{last_batch_id}: its checkpoint is older than its output (an old copy was restored, or another "
        f"driver uses the same checkpoint), so new rows would be taken for those of batches {batch_id} to "
        f"{last_batch_id}, and be lost. Use the newest checkpoint; or start a new one, with startingOffsets "
        "where the old one ended (rows that are read again are written again)"
    )


def check_task_count(markers: Markers, query: str, batch_id: int, tasks_count: int) -> None:
    """Raise ReplayMismatch if a task beyond the current number of tasks has written rows of this batch."""
    beyond = [
        partition
        for partition, marker in sorted(markers.items())
        if partition >= tasks_count and marker.next_batch == batch_id + 1
    ]
    if beyond:
        raise ReplayMismatch(
            f"batch {batch_id} of {query} is replayed with {tasks_count} tasks, but task {beyond[-1]} "
            f"(counted from 0) has written rows of it before; {_REPARTITIONED}"
        )


def markers_lost_error(key: MarkerKey, marker_topic: str) -> MarkersLost:
    """Return the error for a partition with a committed transaction, in a query without markers."""
    return MarkersLost(
        f"{key} has committed transactions, but the query has no marker in topic {marker_topic}: the topic "
        f"was deleted, or the query wrote nothing for longer than {RETENTION_SETTING}. So it is unknown "
        "whether the current batch was written before. Run once with the option missingMarkers=write: it may "
        "write the rows of an unfinished batch twice, and duplicates nothing if there is none (the newest "
        "number in the checkpoint's folder offsets is also in its folder commits)"
    )


def check_row_count(marker: Marker, key: MarkerKey, batch_id: int, rows_count: int) -> None:
    """Raise ReplayMismatch unless a skipped batch has as many rows as were written for it."""
    if marker.next_batch != batch_id + 1 or marker.rows_count in {None, rows_count}:
        return
    raise ReplayMismatch(
        f"batch {batch_id} is replayed with {rows_count} rows in {key}, but was written with "
        f"{marker.rows_count}; {_REPARTITIONED}"
    )


def is_replay_safe(batch_time_ms: int, now_ms: int, retention_ms: int | None) -> bool:
    """Return True if the markers of a batch planned at this time cannot have expired.

    None stands for Kafka's default retention of a week.
    """
    kept_ms = retention_ms if retention_ms is not None else 7 * 24 * 60 * 60 * 1000
    return now_ms - batch_time_ms <= kept_ms * (1 - _MARGIN_SHARE)
