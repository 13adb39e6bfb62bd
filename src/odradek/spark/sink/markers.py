"""Markers: how the sink knows which batches a partition of a query has written. Pure.

A marker is an offset that a group of the query's partition has committed for partition 0 of the marker topic:
one more than the last batch that was written. It is committed in the same transaction as the batch's rows, so
both are there or neither. Its metadata holds how many rows there were, and which attempt at the batch wrote
them: a batch that comes again with another number has been dealt to partitions in another way, and nothing is
known of its rows.

Spark tells a task its own partition and not how many there are. So the tasks of a batch that another attempt
has written in part leave their transactions open, and the driver, which knows the number, ends them.

Brokers forget offsets of groups without members after ``offsets.retention.minutes``: whether a batch that is
older has been written cannot be told, and it must not be played again.
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
"""Of the retention: clocks differ, and a batch was begun before its marker was committed."""

_CUT_ADVICE: Final = (
    "rows were dealt to tasks in another way than before, so some would be lost or doubled: go back to the "
    "options and settings this batch was planned with (minPartitions, maxRecordsPerPartition, "
    "spark.sql.shuffle.partitions, repartition and coalesce in the query), and change them when it is "
    "finished; another batch write needs another sinkId"
)


class ReplayMismatch(Exception):
    """A batch that was written comes again with other rows."""


class StaleCheckpoint(Exception):
    """A batch comes again although later ones have been written."""


class MarkersLost(Exception):
    """Batches have been written, and their markers are gone."""


class MarkerKey(NamedTuple):
    """Whose marker: a partition of a query, or of a batch write with an identity."""

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
    """The beginning of the names of a query's groups; the number of the partition follows."""
    return f"__sink.{query}."


@dataclass(frozen=True, slots=True)
class Marker:
    """The batches before ``next_batch`` are written; the rest is about the last one, if known."""

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


def marker_of(offset: int, metadata: str | None) -> Marker:
    """A marker as it was committed."""
    found = _METADATA.fullmatch(metadata or "")
    return Marker(offset) if found is None else Marker(offset, int(found.group(1)), found.group(2))


Markers = Mapping[int, Marker]
"""The markers of a query by partition."""


def of_other_attempts(markers: Markers, attempt: str) -> Markers:
    """The markers that were there before this attempt at a batch began."""
    return {partition: one for partition, one in markers.items() if (one.attempt or "") != attempt}


def is_partly_written(markers: Markers, batch_id: int) -> bool:
    """Return whether another attempt has written rows of this batch."""
    return any(marker.next_batch == batch_id + 1 for marker in markers.values())


def check_position(markers: Markers, query: str, batch_id: int) -> None:
    """Raise StaleCheckpoint if the query has written a batch after this one.

    Spark begins a batch when the one before is finished: it never goes back by itself.
    """
    last = max((marker.next_batch for marker in markers.values()), default=0) - 1
    if last > batch_id:
        raise stale_checkpoint(query, batch_id, last)


def stale_checkpoint(query: str, batch_id: int, last_batch_id: int) -> StaleCheckpoint:
    """The error for a query that is to write a batch again after which it has written others."""
    return StaleCheckpoint(
        f"query {query} is to write batch {batch_id}, but has written batches up to batch {last_batch_id}: "
        "its checkpoint is older than what it has written (an old copy was restored, or another driver goes "
        "on from the same checkpoint), so new rows would be taken for those of batches "
        f"{batch_id} to {last_batch_id}, and be lost. Go on with the newest checkpoint; or begin a new one, "
        "with startingOffsets where the old one ended (rows that are read again are written again)"
    )


def check_tasks(markers: Markers, query: str, batch_id: int, tasks_count: int) -> None:
    """Raise ReplayMismatch if a task beyond the number of tasks has written rows of this batch before."""
    beyond = [
        partition
        for partition, marker in sorted(markers.items())
        if partition >= tasks_count and marker.next_batch == batch_id + 1
    ]
    if beyond:
        raise ReplayMismatch(
            f"batch {batch_id} of {query} comes again with {tasks_count} tasks, and task {beyond[-1]} had "
            f"written rows of it before (tasks are counted from 0); {_CUT_ADVICE}"
        )


def markers_lost(key: MarkerKey, marker_topic: str) -> MarkersLost:
    """The error for a partition whose last transaction was committed, in a query that has no marker."""
    return MarkersLost(
        f"{key} has committed transactions, and the query has no marker in topic {marker_topic}: the topic "
        f"was deleted, or the query wrote nothing for longer than {RETENTION_SETTING}. So it cannot be told "
        "whether the batch that comes now was written before. Run once with the option missingMarkers=write: "
        "that writes the rows of a batch that was left unfinished twice, and nothing twice if there is none "
        "(the newest number in the checkpoint's folder offsets is also in its folder commits)"
    )


def check_replay(marker: Marker, key: MarkerKey, batch_id: int, rows_count: int) -> None:
    """Raise ReplayMismatch unless a batch that is skipped has the rows that were written for it."""
    if marker.next_batch != batch_id + 1 or marker.rows_count in {None, rows_count}:
        return
    raise ReplayMismatch(
        f"batch {batch_id} comes again with {rows_count} rows in {key}, and was written with "
        f"{marker.rows_count}; {_CUT_ADVICE}"
    )


def is_replay_safe(batch_time_ms: int, now_ms: int, retention_ms: int | None) -> bool:
    """Whether the markers of a batch planned at this time are certain to be there still.

    Unknown retention (None) is taken for Kafka's default of a week.
    """
    kept_ms = retention_ms if retention_ms is not None else 7 * 24 * 60 * 60 * 1000
    return now_ms - batch_time_ms <= kept_ms * (1 - _MARGIN_SHARE)
