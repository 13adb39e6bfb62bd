"""Markers: how the sink knows which batches a partition of a query has written. Pure.

A marker is an offset that a group of the query's partition has committed for partition 0 of the marker topic:
one more than the last batch that was written. It is committed in the same transaction as the batch's rows, so
both are there or neither. Its metadata holds how many rows there were: a batch that comes again with another
number has been dealt to partitions in another way, and nothing is known of its rows.

Brokers forget offsets of groups without members after ``offsets.retention.minutes``: whether a batch that is
older has been written cannot be told, and it must not be played again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

ROWS_NAME: Final = "rows"
RETENTION_SETTING: Final = "offsets.retention.minutes"
_ROWS: Final = re.compile(rf"{ROWS_NAME}=(\d+)")
_MARGIN_SHARE: Final = 0.1
"""Of the retention: clocks differ, and a batch was begun before its marker was committed."""


class ReplayDiffers(Exception):
    """A batch that was written comes again with other rows."""


class MarkerKey(NamedTuple):
    """Whose marker: a partition of a query, or of a batch write with an identity."""

    query: str
    partition: int

    @property
    def group(self) -> str:
        return f"__sink.{self.query}.{self.partition}"

    def transactional_id(self, prefix: str) -> str:
        return f"{prefix}.{self.query}.{self.partition}"

    def __str__(self) -> str:
        return f"partition {self.partition} of {self.query}"


@dataclass(frozen=True, slots=True)
class Marker:
    """The batches before ``next_batch`` are written; ``rows_count`` is that of the last one, if known."""

    next_batch: int
    rows_count: int | None = None

    def covers(self, batch_id: int) -> bool:
        return batch_id < self.next_batch

    @property
    def metadata(self) -> str:
        return "" if self.rows_count is None else f"{ROWS_NAME}={self.rows_count}"


def marker_of(offset: int, metadata: str | None) -> Marker:
    """A marker as it was committed."""
    found = _ROWS.fullmatch(metadata or "")
    return Marker(offset, None if found is None else int(found.group(1)))


def check_replay(marker: Marker, key: MarkerKey, batch_id: int, rows_count: int) -> None:
    """Raise ReplayDiffers unless a batch that is skipped has the rows that were written for it."""
    if marker.next_batch != batch_id + 1 or marker.rows_count in {None, rows_count}:
        return
    raise ReplayDiffers(
        f"batch {batch_id} comes again with {rows_count} rows in {key}, and was written with "
        f"{marker.rows_count}: rows were dealt to partitions in another way than before, so some would be "
        "lost or doubled; go back to the options and settings this batch was planned with (minPartitions, "
        "maxRecordsPerPartition, spark.sql.shuffle.partitions, the query itself), and change them when it is "
        "finished; another batch write needs another sinkId"
    )


def is_replay_safe(batch_time_ms: int, now_ms: int, retention_ms: int | None) -> bool:
    """Whether the markers of a batch planned at this time are certain to be there still.

    Unknown retention (None) is taken for Kafka's default of a week.
    """
    kept_ms = retention_ms if retention_ms is not None else 7 * 24 * 60 * 60 * 1000
    return now_ms - batch_time_ms <= kept_ms * (1 - _MARGIN_SHARE)
