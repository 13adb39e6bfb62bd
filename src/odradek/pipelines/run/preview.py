"""Preview of a pipeline: rows of its transform over the newest records, without writing.

The records are read as a batch: an aggregation covers these records only.
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
"""Number of newest records to read, over all partitions."""


class Preview(NamedTuple):
    """Rows of the transform. ``records_count`` is None for a table, which is read from its start."""

    columns: list[str]
    rows: list[dict[str, Any]]
    records_count: int | None

    @property
    def shown_columns(self) -> list[str]:
        """Columns for people: without ``record``, which is wide, unless it is the only one."""
        return [name for name in self.columns if name != RECORD] or self.columns


def request_preview(spec: Spec, rows_max: int, master: str | None) -> Preview:
    """Return the preview of a pipeline, from a driver process."""
    from odradek.pipelines.run.dry_run import run_driver

    report = run_driver(spec, ["--preview", str(rows_max)], master)
    return Preview(report["columns"], report["rows"], report["records_count"])


def make_preview(spark: SparkSession, spec: Spec, rows_max: int) -> Preview:
    """Return the preview within a session."""
    from odradek.pipelines.query.source_frames import source_frames
    from odradek.pipelines.query.transforms import apply_transform

    window, records_count = _newest_window(spec)
    source = source_frames(spark, spec, streaming=False, window=window)
    rows = apply_transform(source.rows, spec).limit(rows_max).collect()
    columns = apply_transform(source.rows, spec).columns
    return Preview(columns, [json_value(row.asDict(recursive=True)) for row in rows], records_count)


def _newest_window(spec: Spec) -> tuple[Window | None, int | None]:
    """Return the window of the newest records and its number of offsets; None for a table."""
    if spec.source.type != "topic":
        return None, None
    from odradek import OffsetSpec
    from odradek.pipelines.clusters import source_admin, source_partitions
    from odradek.pipelines.query.value_sample import sample_starts

    with source_admin(spec) as admin:
        partitions = source_partitions(admin, spec.source)
        starts = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
        ends = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    last = {partition: result.offset for partition, result in ends.items()}
    begin = sample_starts(
        {partition: result.offset for partition, result in starts.items()}, last, RECORDS_MAX
    )
    count = sum(last[partition] - begin[partition] for partition in last)
    if not count:
        topics = ", ".join(sorted({partition.topic for partition in partitions}))
        raise CommandFailed(f"no records to preview in {topics}: produce some first")
    return (_nested(begin), _nested(last)), count


def _nested(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for partition, offset in offsets.items():
        nested.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return nested


def json_value(value: Any) -> Any:
    """Return a value of a row in JSON types. Pure.

    >>> json_value({"at": datetime.date(2026, 1, 31), "key": b"inn", "raw": b"\\xff"})
    {'at': '2026-01-31', 'key': 'inn', 'raw': '0xff'}
    """
    if isinstance(value, Mapping):
        return {str(name): json_value(inner) for name, inner in value.items()}
    if isinstance(value, bytes | bytearray):
        return _text(bytes(value))
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal | datetime.timedelta):
        return str(value)
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [json_value(inner) for inner in value]
    return value


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"
