"""Writers of a table: checks on the driver, files written by tasks, one commit on the driver.

Spark creates a new writer for each of these steps, so only commit messages link files to the commit. Files of
a failed batch are removed only if a task failed: then no commit was attempted. After a failed commit its
outcome is unknown, and the files are left to vacuum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from odradek.client.environment import new_uuid
from odradek.spark.delta import maintenance, schemas
from odradek.spark.delta.errors import InvalidRows, TableOptionError
from odradek.spark.delta.options import SinkOptions
from odradek.spark.delta.sink import dead_letters
from odradek.spark.delta.sink.commits import AppTransaction, commit_files
from odradek.spark.delta.sink.dead_letters import DeadLetterSender
from odradek.spark.delta.sink.merge import STAGING, merge_files, remove_staging
from odradek.spark.delta.sink.parquet_files import ParquetFiles, WrittenFile, remove_files
from odradek.spark.delta.storage import file_system, find_table, is_local, storage_errors
from odradek.spark.worker.heap import freeze_heap
from odradek.spark.worker.quick_ack import QuickAckOnUnpickle


@dataclass
class TaskFiles(WriterCommitMessage):
    """Commit message of one task."""

    query_id: str | None
    files: list[WrittenFile]
    row_count: int
    dead_count: int
    staging: str | None


class TableWriter:
    """One write to a table, shared by the batch and the stream writer."""

    def __init__(self, options: SinkOptions, frame: StructType, *, overwrite: bool) -> None:
        dead_letters.check_frame(frame, options)
        self.options = options
        self.overwrite = overwrite
        self.schema = schemas.table_schema(dead_letters.table_columns(frame), options.path)
        self.job = new_uuid().hex
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
                "option keys cannot be used with complete mode or overwrite, which replace the whole table:"
                " remove keys, or use append mode"
            )

    def _check_table(self) -> None:
        table = find_table(self.options.path, self.options.storage_options)
        if table is None:
            return
        table_schema = schemas.parse_schema(table.schema().to_json())
        metadata = table.metadata()
        schemas.check_writable(table_schema, metadata.configuration, self.options.path)
        change = schemas.compare_schemas(table_schema, self.schema)
        schemas.check_change(change, self.options.path, merge_schema=self.options.merge_schema)
        self.partition_by = tuple(metadata.partition_columns)
        self.not_null = tuple(field.name for field in table_schema if not field.nullable)
        if self.options.partition_by and self.options.partition_by != self.partition_by:
            raise TableOptionError(
                f"option partitionBy must match the table at {self.options.path}, which is partitioned by"
                f" {', '.join(self.partition_by) or 'nothing'}, got {', '.join(self.options.partition_by)}:"
                " remove the option, or write another table"
            )

    # On executors.

    def write(self, batches: Iterator[pa.RecordBatch]) -> TaskFiles:
        """Write the rows of one task to files that are not committed yet."""
        query_id, batch_id = _running_batch()
        staging = self._staging(query_id, batch_id)
        files = self._files(staging)
        dead_letter_sender = DeadLetterSender(self.options)
        row_count = 0
        schema = to_arrow_schema(self.schema, timezone="UTC")
        try:
            for batch in batches:
                row_count += batch.num_rows
                rows = cast_rows(dead_letter_sender.send_from(batch), schema)
                self._check_nulls(rows)
                if rows.num_rows:
                    files.write(rows)
            written = files.close()
            dead_letter_sender.finish()
        except BaseException:
            files.discard()
            raise
        return TaskFiles(query_id, written, row_count, dead_letter_sender.count, staging)

    def _staging(self, query_id: str | None, batch_id: str | None) -> str | None:
        if not self.options.keys:
            return None
        job = f"{query_id}/{batch_id}" if query_id and batch_id else self.job
        return f"{STAGING}{quote(job, safe='/')}/"

    def _files(self, staging: str | None) -> ParquetFiles:
        storage = file_system(self.options.path, self.options.storage_options)
        if is_local(self.options.path):
            with storage_errors(self.options.path):
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
                    f"column {name} of the table at {self.options.path} must not be null, got a row without a"
                    " value: filter such rows out, or drop the column's NOT NULL"
                )

    # On the driver.

    def commit(self, messages: Sequence[object], app_transaction: AppTransaction | None) -> None:
        """Commit the files of all tasks, unless the table already has this batch."""
        task_files = [message for message in messages if isinstance(message, TaskFiles)]
        self._check_ratio(task_files)
        files = [file for message in task_files for file in message.files]
        if self.options.keys:
            is_new = merge_files(self.options, self.schema, files, app_transaction)
            self._remove_staging(task_files)
        else:
            is_new = commit_files(self.options, self.schema, files, app_transaction, overwrite=self.overwrite)
            if not is_new:
                # Files of a replay of a committed batch are in no version.
                self._remove(files)
        version = -1 if app_transaction is None else app_transaction.version
        if is_new and maintenance.is_due(version, self.options.compact_every):
            maintenance.after_batch(
                self.options.path,
                self.options.storage_options,
                target_bytes=self.options.file_bytes,
                vacuum_hours=self.options.vacuum_hours,
            )

    def _check_ratio(self, task_files: list[TaskFiles]) -> None:
        dead_count = sum(message.dead_count for message in task_files)
        row_count = sum(message.row_count for message in task_files)
        options = self.options
        dead_letters.check_ratio(
            dead_count, row_count, options.dead_letter_ratio_max, options.dead_letter_topic
        )

    def abort(self, messages: Sequence[object]) -> None:
        """Remove the files of a batch whose tasks failed."""
        task_files = [message for message in messages if isinstance(message, TaskFiles)]
        if self.options.keys:
            self._remove_staging(task_files)
        elif any(message is None for message in messages):
            self._remove([file for message in task_files for file in message.files])

    def _remove(self, files: list[WrittenFile]) -> None:
        if files:
            storage = file_system(self.options.path, self.options.storage_options)
            remove_files(storage, [file.path for file in files])

    def _remove_staging(self, task_files: list[TaskFiles]) -> None:
        folders = {message.staging for message in task_files if message.staging is not None}
        if folders:
            remove_staging(file_system(self.options.path, self.options.storage_options), folders)


class StreamWriter(QuickAckOnUnpickle, DataSourceStreamArrowWriter):
    """Writes a micro-batch; the query id and the batch id make its commit idempotent."""

    def __init__(self, table: TableWriter) -> None:
        self._table = table

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        files = self._table.write(iterator)
        freeze_heap()
        return files

    def commit(self, messages: Sequence[object], batchId: int) -> None:
        query_ids = {message.query_id for message in messages if isinstance(message, TaskFiles)}
        name = self._table.options.sink_id or "odradek"
        # A batch without tasks has no files that could be added twice.
        app_transaction = None
        if query_ids:
            app_transaction = AppTransaction(f"{name}:{query_ids.pop()}", batchId, is_stream=True)
        self._table.commit(messages, app_transaction)

    def abort(self, messages: Sequence[object], batchId: int) -> None:
        self._table.abort(messages)


class BatchWriter(QuickAckOnUnpickle, DataSourceArrowWriter):
    """Writes a batch; with a ``sinkId`` it is idempotent too."""

    def __init__(self, table: TableWriter) -> None:
        self._table = table

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._table.write(iterator)

    def commit(self, messages: Sequence[object]) -> None:
        options = self._table.options
        app_transaction = (
            None if options.sink_id is None else AppTransaction(options.sink_id, options.sink_version)
        )
        self._table.commit(messages, app_transaction)

    def abort(self, messages: Sequence[object]) -> None:
        self._table.abort(messages)


def _running_batch() -> tuple[str | None, str | None]:
    """Return the query id and batch id of this task; a batch write has none."""
    context = TaskContext.get()
    if context is None:
        return None, None
    query_id = context.getLocalProperty("sql.streaming.queryId")
    return query_id, context.getLocalProperty("streaming.sql.batchId")


def cast_rows(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast the rows to the table's types: timestamps in UTC, everything nullable."""
    columns = []
    for field in schema:
        column = batch.column(batch.schema.get_field_index(field.name))
        columns.append(column if column.type.equals(field.type) else column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
