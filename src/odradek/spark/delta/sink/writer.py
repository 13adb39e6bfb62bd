"""Writers of a table, as Spark calls them: checks on the driver, files by executors, one commit on the
driver.

Spark makes a fresh writer for each of these steps, so that only messages lead from files to the commit.
Files of a failed batch are removed only if a task failed: then no commit was tried. After a commit that
failed nobody can say whether it did, and the files stay for vacuum.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from odradek.spark.delta import maintenance, schemas
from odradek.spark.delta.errors import InvalidRows, TableOptionError
from odradek.spark.delta.options import SinkOptions
from odradek.spark.delta.sink import dead_letters
from odradek.spark.delta.sink.commits import Application, commit_files
from odradek.spark.delta.sink.dead_letters import DeadLetters
from odradek.spark.delta.sink.merge import STAGING, merge_files, remove_staging
from odradek.spark.delta.sink.parquet_files import ParquetFiles, WrittenFile, remove
from odradek.spark.delta.storage import file_system, find_table, is_local, told
from odradek.spark.worker.heap import settle
from odradek.spark.worker.quick_ack import QuickAckOnUnpickle


@dataclass
class TaskFiles(WriterCommitMessage):
    """What one task has written."""

    query_id: str | None
    files: list[WrittenFile]
    row_count: int
    dead_count: int
    staging: str | None


class TableWriter:
    """One write to a table: what the batch and the stream writer share."""

    def __init__(self, options: SinkOptions, frame: StructType, *, overwrite: bool) -> None:
        dead_letters.check_frame(frame, options)
        self.options = options
        self.overwrite = overwrite
        self.schema = schemas.table_schema(dead_letters.table_columns(frame), options.path)
        self.job = uuid.uuid4().hex
        self.partition_by = options.partition_by
        self.not_null: tuple[str, ...] = ()
        self._check_options()
        self._check_table()

    def _check_options(self) -> None:
        schemas.check_partitioning(self.schema, self.options.partition_by)
        schemas.check_columns(self.schema, self.options.keys, "keys")
        if self.options.order_by is not None:
            schemas.check_columns(self.schema, (self.options.order_by,), "orderBy")
        if self.options.keys and self.overwrite:
            raise TableOptionError(
                "option keys updates rows by their keys, but complete mode and overwrite replace the whole"
                " table: leave keys out, or use append mode"
            )

    def _check_table(self) -> None:
        table = find_table(self.options.path, self.options.storage_options)
        if table is None:
            return
        there = schemas.from_delta(table.schema().to_json())
        metadata = table.metadata()
        schemas.check_writable(there, metadata.configuration, self.options.path)
        change = schemas.compare(there, self.schema)
        schemas.check_change(change, self.options.path, merge_schema=self.options.merge_schema)
        self.partition_by = tuple(metadata.partition_columns)
        self.not_null = tuple(field.name for field in there if not field.nullable)
        if self.options.partition_by and self.options.partition_by != self.partition_by:
            raise TableOptionError(
                f"the table at {self.options.path} is partitioned by"
                f" {', '.join(self.partition_by) or 'nothing'}, not by"
                f" {', '.join(self.options.partition_by)}: leave the option partitionBy out, or write another"
                " table"
            )

    # On executors.

    def write(self, batches: Iterator[pa.RecordBatch]) -> TaskFiles:
        """Write the rows of one task into files that no version knows yet."""
        query_id, batch_id = _running_batch()
        staging = self._staging(query_id, batch_id)
        files = self._files(staging)
        dead = DeadLetters(self.options)
        row_count = 0
        schema = to_arrow_schema(self.schema, timezone="UTC")
        try:
            for batch in batches:
                row_count += batch.num_rows
                rows = fitted(dead.without(batch), schema)
                self._check_nulls(rows)
                if rows.num_rows:
                    files.write(rows)
            written = files.close()
            dead.finish()
        except BaseException:
            files.discard()
            raise
        return TaskFiles(query_id, written, row_count, dead.count, staging)

    def _staging(self, query_id: str | None, batch_id: str | None) -> str | None:
        if not self.options.keys:
            return None
        job = f"{query_id}/{batch_id}" if query_id and batch_id else self.job
        return f"{STAGING}{quote(job, safe='/')}/"

    def _files(self, staging: str | None) -> ParquetFiles:
        storage = file_system(self.options.path, self.options.storage_options)
        if is_local(self.options.path):
            with told(self.options.path):
                storage.base_fs.create_dir(self.options.path, recursive=True)
        return ParquetFiles(
            storage,
            to_arrow_schema(self.schema, timezone="UTC"),
            () if staging else self.partition_by,
            table_path=self.options.path,
            file_bytes=self.options.file_bytes,
            compression=self.options.compression,
            root=staging or "",
        )

    def _check_nulls(self, rows: pa.RecordBatch) -> None:
        for name in self.not_null:
            index = rows.schema.get_field_index(name)
            if index < 0 or rows.column(index).null_count:
                raise InvalidRows(
                    f"column {name} of the table at {self.options.path} must not be null, but a row has no"
                    " value there: filter such rows out, or drop the column's NOT NULL"
                )

    # On the driver.

    def commit(self, messages: list[Any], application: Application | None) -> None:
        """Make the files of all tasks part of the table, if this batch is not there already."""
        sent = [message for message in messages if isinstance(message, TaskFiles)]
        self._check_ratio(sent)
        files = [file for message in sent for file in message.files]
        if self.options.keys:
            is_new = merge_files(self.options, self.schema, files, application)
            self._remove_staging(sent)
        else:
            is_new = commit_files(self.options, self.schema, files, application, overwrite=self.overwrite)
            if not is_new:
                # Written again by a batch that had been committed before: in no version, and in none to come.
                self._remove(files)
        version = -1 if application is None else application.version
        if is_new and maintenance.is_due(version, self.options.compact_every):
            maintenance.after_batch(
                self.options.path,
                self.options.storage_options,
                target_bytes=self.options.file_bytes,
                vacuum_hours=self.options.vacuum_hours,
            )

    def _check_ratio(self, sent: list[TaskFiles]) -> None:
        dead_count = sum(message.dead_count for message in sent)
        row_count = sum(message.row_count for message in sent)
        options = self.options
        dead_letters.check_ratio(
            dead_count, row_count, options.dead_letter_ratio_max, options.dead_letter_topic
        )

    def abort(self, messages: list[Any]) -> None:
        """Remove the files of a batch whose tasks failed."""
        sent = [message for message in messages if isinstance(message, TaskFiles)]
        if self.options.keys:
            self._remove_staging(sent)
        elif any(message is None for message in messages):
            self._remove([file for message in sent for file in message.files])

    def _remove(self, files: list[WrittenFile]) -> None:
        if files:
            storage = file_system(self.options.path, self.options.storage_options)
            remove(storage, [file.path for file in files])

    def _remove_staging(self, sent: list[TaskFiles]) -> None:
        folders = {message.staging for message in sent if message.staging is not None}
        if folders:
            remove_staging(file_system(self.options.path, self.options.storage_options), folders)


class StreamWriter(QuickAckOnUnpickle, DataSourceStreamArrowWriter):
    """A micro-batch; the query's id and the batch's number make its commit idempotent."""

    def __init__(self, table: TableWriter) -> None:
        self._table = table

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        files = self._table.write(iterator)
        settle()
        return files

    def commit(self, messages: list[Any], batchId: int) -> None:
        query_ids = {message.query_id for message in messages if message is not None}
        name = self._table.options.sink_id or "odradek"
        # A batch of no tasks has no files either: there is nothing that could be added twice.
        application = None
        if query_ids:
            application = Application(f"{name}:{query_ids.pop()}", batchId, is_stream=True)
        self._table.commit(messages, application)

    def abort(self, messages: list[Any], batchId: int) -> None:
        self._table.abort(messages)


class BatchWriter(QuickAckOnUnpickle, DataSourceArrowWriter):
    """A batch; with a ``sinkId`` it is idempotent too."""

    def __init__(self, table: TableWriter) -> None:
        self._table = table

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._table.write(iterator)

    def commit(self, messages: list[Any]) -> None:
        options = self._table.options
        application = None if options.sink_id is None else Application(options.sink_id, options.sink_version)
        self._table.commit(messages, application)

    def abort(self, messages: list[Any]) -> None:
        self._table.abort(messages)


def _running_batch() -> tuple[str | None, str | None]:
    """The query and the batch that this task works for; a batch write has none."""
    context = TaskContext.get()
    if context is None:
        return None, None
    query_id = context.getLocalProperty("sql.streaming.queryId")
    return query_id, context.getLocalProperty("streaming.sql.batchId")


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows in the table's types: times in UTC, everything nullable."""
    columns = []
    for field in schema:
        column = batch.column(batch.schema.get_field_index(field.name))
        columns.append(column if column.type.equals(field.type) else column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
