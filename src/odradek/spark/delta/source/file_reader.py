"""Files of a table as record batches of exactly the schema that Spark expects: what executors do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from odradek.spark.delta.errors import HistoryLost
from odradek.spark.delta.options import SourceOptions
from odradek.spark.delta.partition_values import from_text
from odradek.spark.delta.source.commit_log import TableFile
from odradek.spark.delta.storage import file_system, told
from odradek.telemetry import events

_ROWS_PER_BATCH: Final = 10_000
_log: Final = events.logger("spark")


class FilePartition(InputPartition):
    """Files that one task reads."""

    def __init__(self, files: tuple[TableFile, ...]) -> None:
        self.files = files


def record_batches(
    options: SourceOptions, files: tuple[TableFile, ...], schema: StructType
) -> Iterator[pa.RecordBatch]:
    """The rows of files, only the columns of the schema."""
    wanted = to_arrow_schema(schema, timezone="UTC")
    storage = file_system(options.path, options.storage_options)
    for file in files:
        stream = _opened(storage, file, options)
        if stream is not None:
            with told(options.path), stream:
                yield from _rows_of(stream, file, wanted)


def _opened(storage: Any, file: TableFile, options: SourceOptions) -> Any:
    """A stream of the file, or None if it is gone and may be."""
    with told(options.path):
        try:
            return storage.open_input_file(file.path)
        except FileNotFoundError as error:
            _lose(options, file, error)
            return None


def _rows_of(stream: Any, file: TableFile, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    parquet = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")
    there = set(parquet.schema_arrow.names)
    constants = {name: from_text(text, wanted.field(name).type) for name, text in file.partition_values
                 if name in wanted.names}  # fmt: skip
    columns = [name for name in wanted.names if name in there and name not in constants]
    for batch in parquet.iter_batches(batch_size=_ROWS_PER_BATCH, columns=columns):
        yield pa.RecordBatch.from_arrays(
            [_column(batch, field, constants) for field in wanted], schema=wanted
        )


def _column(batch: pa.RecordBatch, field: pa.Field, constants: dict[str, pa.Scalar]) -> pa.Array:
    if field.name in constants:
        return pa.repeat(constants[field.name], batch.num_rows)
    index = batch.schema.get_field_index(field.name)
    if index < 0:  # The file is older than the column.
        return pa.nulls(batch.num_rows, field.type)
    column = batch.column(index)
    return column if column.type.equals(field.type) else column.cast(field.type)


def _lose(options: SourceOptions, file: TableFile, error: FileNotFoundError) -> None:
    if not options.fail_on_data_loss:
        _log.warning("table_file_lost", path=options.path, file=file.path)
        return
    raise HistoryLost(
        f"file {file.path} of the table at {options.path} is gone (vacuumed, or removed by hand) before it"
        " was read: its rows are lost to this reader; read the newest version with a new checkpoint, set"
        " failOnDataLoss=false to go on without it, and vacuum with a longer retention"
    ) from error
