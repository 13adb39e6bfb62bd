"""A table followed as a stream: the whole of it first, then what each version adds.

The first batch is empty on purpose: it pins in the checkpoint where the stream begins, which Spark would
otherwise ask again after a failure, and hear another answer.
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

from odradek.spark.delta.errors import HistoryLost, SchemaRefused
from odradek.spark.delta.options import SourceOptions
from odradek.spark.delta.schemas import compare, from_delta
from odradek.spark.delta.source.commit_log import TableFile, grouped
from odradek.spark.delta.source.file_reader import FilePartition, record_batches
from odradek.spark.delta.source.offsets import (
    Limits,
    Position,
    Span,
    advance,
    files_to_read,
    from_offset,
    spans,
)
from odradek.spark.delta.source.table_log import TableLog, raise_deletions
from odradek.spark.delta.storage import open_table
from odradek.spark.worker.quick_ack import QuickAckOnUnpickle
from odradek.telemetry import events

_log = events.logger("spark")


class TableStreamReader(QuickAckOnUnpickle, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives as long as the query, on the driver; ``read`` runs on executors with a copy."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._initial: Position | None = None
        self._is_anchored = False
        self._target: int | None = None
        self._log: TableLog | None = None
        self._newest = -1

    def initialOffset(self) -> dict[str, Any]:
        if self._initial is None:
            self._initial = self._first_position()
        return self._initial.as_offset()

    def _first_position(self) -> Position:
        wanted = self._options.starting_version
        if isinstance(wanted, int):
            return Position(wanted)
        newest = open_table(self._options.path, self._options.storage_options).version()
        return Position(newest + 1) if wanted == "latest" else Position(newest, 0, snapshot=True)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxFiles(self._options.files_per_trigger_max)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = open_table(self._options.path, self._options.storage_options).version()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if self._initial is not None and not self._is_anchored:
            self._is_anchored = True
            return start
        position = from_offset(start)
        self._newest = self._table_log().newest(position.version)
        newest = self._newest if self._target is None else min(self._newest, self._target)
        if position.snapshot:
            newest = max(newest, position.version)
        files_max = None if isinstance(limit, ReadAllAvailable) else self._options.files_per_trigger_max
        limits = Limits(files_max, self._options.versions_per_trigger_max)
        return advance(
            position, newest, limits, lambda version, whole: len(self._files(version, whole))
        ).as_offset()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return Position(self._newest + 1).as_offset() if self._newest >= 0 else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[FilePartition]:
        files = [
            file
            for span in spans(from_offset(start), from_offset(end))
            for file in self._files_of(span)
        ]  # fmt: skip
        return [FilePartition(group) for group in grouped(files, self._options.partition_bytes)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        yield from record_batches(self._options, partition.files, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: the checkpoint knows how far the stream is."""

    def _files_of(self, span: Span) -> tuple[TableFile, ...]:
        return self._files(span.version, span.snapshot)[span.start : span.end]

    def _files(self, version: int, whole: bool) -> tuple[TableFile, ...]:
        if whole:
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
        # A column that is not there at that version is read as nulls; one of another type cannot be.
        retyped = compare(from_delta(schema_json), self._schema).retyped
        if retyped:
            told = ", ".join(f"{name} {was} (read as {asked})" for name, was, asked in retyped)
            raise SchemaRefused(
                f"version {version} of the table at {self._options.path} makes {told}: start the query"
                " again with the schema it has now and a new checkpoint, or read only the columns that stayed"
            )

    def _table_log(self) -> TableLog:
        if self._log is None:
            self._log = TableLog(self._options)
        return self._log
