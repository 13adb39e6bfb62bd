"""A few rows as a pipeline's transform makes them of the newest records. Nothing is written.

The records are read as a batch: an aggregation is shown as it is over these records alone.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from odradek.cli.errors import CommandFailed
from odradek.model.ids import TopicPartition
from odradek.pipelines.query.json_values import RECORD

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odradek.pipelines.query.source_frames import Window
    from odradek.pipelines.spec.model import Spec

RECORDS_MAX: Final = 1000
"""Newest records that are read, of all partitions together."""


class Preview(NamedTuple):
    """Rows as the transform gives them. ``records_count`` is None for a table, read from its start."""

    columns: list[str]
    rows: list[dict[str, Any]]
    records_count: int | None

    @property
    def shown_columns(self) -> list[str]:
        """The columns for people: ``record`` is wide, and shown only if there is nothing else."""
        return [name for name in self.columns if name != RECORD] or self.columns


def ask_preview(spec: Spec, rows_max: int, master: str | None) -> Preview:
    """The preview of a pipeline, made by a driver process."""
    from odradek.pipelines.run.dry_run import ask_driver

    told = ask_driver(spec, ["--preview", str(rows_max)], master)
    return Preview(told["columns"], told["rows"], told["records_count"])


def make_preview(spark: SparkSession, spec: Spec, rows_max: int) -> Preview:
    """The same within a session."""
    from odradek.pipelines.query.source_frames import source_frames
    from odradek.pipelines.query.transforms import transformed

    window, records_count = _newest(spec)
    source = source_frames(spark, spec, streaming=False, window=window)
    rows = transformed(source.rows, spec).limit(rows_max).collect()
    columns = transformed(source.rows, spec).columns
    return Preview(columns, [plain(row.asDict(recursive=True)) for row in rows], records_count)


def _newest(spec: Spec) -> tuple[Window | None, int | None]:
    """The window of the newest records, and how many offsets it has; none for a table."""
    if spec.source.type != "topic":
        return None, None
    from odradek import OffsetSpec
    from odradek.pipelines.clusters import source_admin, source_partitions
    from odradek.pipelines.query.value_sample import sample_starts

    with source_admin(spec) as admin:
        partitions = source_partitions(admin, spec.source)
        starts = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
        ends = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    last = {one: found.offset for one, found in ends.items()}
    begin = sample_starts({one: found.offset for one, found in starts.items()}, last, RECORDS_MAX)
    count = sum(last[one] - begin[one] for one in last)
    if not count:
        topics = ", ".join(sorted({one.topic for one in partitions}))
        raise CommandFailed(f"there are no records in {topics} to preview: produce some first")
    return (_nested(begin), _nested(last)), count


def _nested(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for one, offset in offsets.items():
        nested.setdefault(one.topic, {})[str(one.partition)] = offset
    return nested


def plain(value: Any) -> Any:
    """A value of a row as JSON has it. Pure.

    >>> plain({"at": datetime.date(2026, 1, 31), "key": b"inn", "raw": b"\\xff"})
    {'at': '2026-01-31', 'key': 'inn', 'raw': '0xff'}
    """
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, bytes | bytearray):
        return _text(bytes(value))
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal | datetime.timedelta):
        return str(value)
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [plain(one) for one in value]
    return value


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"
