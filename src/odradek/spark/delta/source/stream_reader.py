"""Streaming reads of a table: a snapshot first, then the files that each version adds.

The first batch is empty on purpose: it records the stream's start in the checkpoint. Otherwise Spark would
request the initial offset again after a failure, and get another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from odradek.spark.delta.errors import HistoryLost, SchemaMismatch
from odradek.spark.delta.options import SourceOptions
from odradek.spark.delta.schemas import compare_schemas, parse_schema
from odradek.spark.delta.source.commit_log import TableFile, group_files
from odradek.spark.delta.source.file_reader import FilePartition, record_batches
from odradek.spark.delta.source.offsets import (
    BatchLimits,
    DeltaOffset,
    FileSpan,
    files_to_read,
    next_offset,
    offset_from_json,
    spans_between,
)
from odradek.spark.delta.source.table_log import TableLog, raise_deletions
from odradek.spark.delta.storage import open_table
from odradek.spark.worker.quick_ack import QuickAckOnUnpickle
from odradek.telemetry import events

_log = events.logger("spark")


class TableStreamReader(QuickAckOnUnpickle, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One object per query on the driver; ``read`` runs on executors with a copy."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._initial: DeltaOffset | None = None
        self._is_initial_batch_planned = False
        self._target: int | None = None
        self._log: TableLog | None = None
        self._latest = -1

    def initialOffset(self) -> dict[str, Any]:
        if self._initial is None:
            self._initial = self._first_offset()
        return self._initial.to_json()

    def _first_offset(self) -> DeltaOffset:
        starting_version = self._options.starting_version
        if isinstance(starting_version, int):
            return DeltaOffset(starting_version)
        latest = open_table(self._options.path, self._options.storage_options).version()
        if starting_version == "latest":
            return DeltaOffset(latest + 1)
        return DeltaOffset(latest, 0, snapshot=True)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxFiles(self._options.files_per_trigger_max)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = open_table(self._options.path, self._options.storage_options).version()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if self._initial is not None and not self._is_initial_batch_planned:
            self._is_initial_batch_planned = True
            return start
        offset = offset_from_json(start)
        self._latest = self._table_log().latest(offset.version)
        latest = self._latest if self._target is None else min(self._latest, self._target)
        if offset.snapshot:
            latest = max(latest, offset.version)
        files_max = None if isinstance(limit, ReadAllAvailable) else self._options.files_per_trigger_max
        limits = BatchLimits(files_max, self._options.versions_per_trigger_max)
        return next_offset(
            offset, latest, limits, lambda version, snapshot: len(self._files(version, snapshot))
        ).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return DeltaOffset(self._latest + 1).to_json() if self._latest >= 0 else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[FilePartition]:
        files = [
            file
            for span in spans_between(offset_from_json(start), offset_from_json(end))
            for file in self._files_of(span)
        ]  # fmt: skip
        return [FilePartition(group) for group in group_files(files, self._options.partition_bytes)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        yield from record_batches(self._options, partition.files, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the checkpoint holds the stream's progress."""

    def _files_of(self, span: FileSpan) -> tuple[TableFile, ...]:
        return self._files(span.version, span.snapshot)[span.start : span.end]

    def _files(self, version: int, snapshot: bool) -> tuple[TableFile, ...]:
        if snapshot:
            return self._table_log().snapshot(version)
        try:
            commit = self._table_log().commit(version)
        except HistoryLost as error:
            if self._options.fail_on_data_loss:
                raise
            _log.warning("table_version_lost", path=self._options.path, version=version, reason=str(error))
            return ()
        if commit.schema_json is not None:
            self._check_schema(commit.schema_json, version)
        files = files_to_read(commit, version, self._options)
        if any(file.has_deletions for file in files):
            raise_deletions(self._options.path)
        return files

    def _check_schema(self, schema_json: str, version: int) -> None:
        # A column missing at that version is read as nulls; one of another type cannot be read.
        retyped = compare_schemas(parse_schema(schema_json), self._schema).retyped
        if retyped:
            changes = ", ".join(
                f"{name} to {table_type} (read as {read_type})" for name, table_type, read_type in retyped
            )
            raise SchemaMismatch(
                f"version {version} of the table at {self._options.path} changes {changes}: restart the query"
                " with the current schema and a new checkpoint, or read only the unchanged columns"
            )

    def _table_log(self) -> TableLog:
        if self._log is None:
            self._log = TableLog(self._options)
        return self._log
