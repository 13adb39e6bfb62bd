"""A table, or an older version of it, read as a batch."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from odradek.spark.delta.errors import TableError, TableOptionError
from odradek.spark.delta.options import SourceOptions
from odradek.spark.delta.schemas import check_mapping, from_delta
from odradek.spark.delta.source.commit_log import grouped
from odradek.spark.delta.source.file_reader import FilePartition, record_batches
from odradek.spark.delta.source.table_log import table_files
from odradek.spark.delta.storage import open_table, told
from odradek.spark.worker.quick_ack import QuickAckOnUnpickle


class TableReader(QuickAckOnUnpickle, DataSourceReader):
    """All rows of one version; which one is settled when the plan is made."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[FilePartition]:
        files = sorted(table_files(chosen_table(self._options), self._options.path))
        # An empty list would make Spark call ``read`` with no partition at all.
        return [FilePartition(group) for group in grouped(files, self._options.partition_bytes) or [()]]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        yield from record_batches(self._options, partition.files, self._schema)


def chosen_table(options: SourceOptions) -> DeltaTable:
    """The table at the version or the time that was asked for."""
    table = open_table(options.path, options.storage_options)
    wanted = options.version_as_of if options.timestamp_as_of is None else _moment(options.timestamp_as_of)
    if wanted is None:
        return table
    try:
        with told(options.path):
            table.load_as_version(wanted)
    except (DeltaError, TableError, ValueError) as error:
        raise TableOptionError(
            f"the table at {options.path} has no version {wanted} any more, or not yet ({error}): its newest"
            f" is {table.version()}"
        ) from error
    return table


def _moment(text: str) -> datetime.datetime:
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise TableOptionError(
            f"option timestampAsOf is {text!r}, but must be a time like 2026-01-31T12:00:00Z"
        ) from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)


def read_schema(options: SourceOptions) -> StructType:
    """The columns of the table, if it is one that can be read."""
    table = chosen_table(options)
    check_mapping(table.metadata().configuration, options.path)
    return from_delta(table.schema().to_json())
