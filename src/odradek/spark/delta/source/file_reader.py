"""Reading of data files in tasks, as record batches of exactly the schema that Spark expects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from odradek.spark.delta.errors import HistoryLost
from odradek.spark.delta.options import SourceOptions
from odradek.spark.delta.partition_values import from_text
from odradek.spark.delta.source.commit_log import TableFile
from odradek.spark.delta.storage import file_system, storage_errors
from odradek.telemetry import events

_ROWS_PER_BATCH: Final = 10_000
_log: Final = events.logger("spark")


class FilePartition(InputPartition):
    """InputPartition with the files of one task."""

    def __init__(self, files: tuple[TableFile, ...]) -> None:
        self.files = files


def record_batches(
    options: SourceOptions, files: tuple[TableFile, ...], schema: StructType
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files, with the columns of the schema only."""
    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    storage = file_system(options.path, options.storage_options)
    for file in files:
        stream = _open(storage, file, options)
        if stream is not None:
            with storage_errors(options.path), stream:
                yield from _read_rows(stream, file, arrow_schema)


def _open(storage: pa.fs.FileSystem, file: TableFile, options: SourceOptions) -> pa.NativeFile | None:
    """Open the file; None if it is missing and data loss is accepted."""
    with storage_errors(options.path):
        try:
            return storage.open_input_file(file.path)
        except FileNotFoundError as error:
            _on_missing(options, file, error)
            return None


def _read_rows(stream: pa.NativeFile, file: TableFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    parquet = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")
    file_columns = set(parquet.schema_arrow.names)
    constants = {name: from_text(text, schema.field(name).type) for name, text in file.partition_values
                 if name in schema.names}  # fmt: skip
    columns = [name for name in schema.names if name in file_columns and name not in constants]
    for batch in parquet.iter_batches(batch_size=_ROWS_PER_BATCH, columns=columns):
        yield pa.RecordBatch.from_arrays(
            [_column(batch, field, constants) for field in schema], schema=schema
        )


def _column(batch: pa.RecordBatch, field: pa.Field, constants: dict[str, pa.Scalar]) -> pa.Array:
    if field.name in constants:
        return pa.repeat(constants[field.name], batch.num_rows)
    index = batch.schema.get_field_index(field.name)
    if index < 0:  # The file is older than the column.
        return pa.nulls(batch.num_rows, field.type)
    column = batch.column(index)
    return column if column.type.equals(field.type) else column.cast(field.type)


def _on_missing(options: SourceOptions, file: TableFile, error: FileNotFoundError) -> None:
    if not options.fail_on_data_loss:
        _log.warning("table_file_lost", path=options.path, file=file.path)
        return
    raise HistoryLost(
        f"file {file.path} of the table at {options.path} was removed (by vacuum, or manually) before it was"
        " read: its rows are lost to this reader; read the latest version with a new checkpoint, or set"
        " failOnDataLoss=false to continue without it, and vacuum with a longer retention"
    ) from error
