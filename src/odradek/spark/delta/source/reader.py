"""Batch reads of a table, at its latest or an older version."""

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
from odradek.spark.delta.schemas import check_mapping, parse_schema
from odradek.spark.delta.source.commit_log import group_files
from odradek.spark.delta.source.file_reader import FilePartition, record_batches
from odradek.spark.delta.source.table_log import table_files
from odradek.spark.delta.storage import open_table, storage_errors
from odradek.spark.worker.quick_ack import QuickAckOnUnpickle


class TableReader(QuickAckOnUnpickle, DataSourceReader):
    """Reads all rows of one version, which is fixed when the query is planned."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[FilePartition]:
        files = sorted(table_files(open_requested_version(self._options), self._options.path))
        # With an empty list Spark would call ``read`` without a partition.
        return [FilePartition(group) for group in group_files(files, self._options.partition_bytes) or [()]]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        yield from record_batches(self._options, partition.files, self._schema)


def open_requested_version(options: SourceOptions) -> DeltaTable:
    """Open the table at the requested version or timestamp."""
    table = open_table(options.path, options.storage_options)
    requested = (
        options.version_as_of if options.timestamp_as_of is None else _parse_time(options.timestamp_as_of)
    )
    if requested is None:
        return table
    try:
        with storage_errors(options.path):
            table.load_as_version(requested)
    except (DeltaError, TableError, ValueError) as error:
        raise TableOptionError(
            f"the table at {options.path} does not have version {requested} ({error}): its latest version is"
            f" {table.version()}"
        ) from error
    return table


def _parse_time(text: str) -> datetime.datetime:
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise TableOptionError(
            f"option timestampAsOf must be a time such as 2026-01-31T12:00:00Z, got {text!r}"
        ) from error
    return time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)


def read_schema(options: SourceOptions) -> StructType:
    """Return the columns of the table; raise TableUnsupported if it cannot be read."""
    table = open_requested_version(options)
    check_mapping(table.metadata().configuration, options.path)
    return parse_schema(table.schema().to_json())
