"""Parquet files of one task: rows come in as record batches, files of about the wanted size come out.

Invariants: rows are kept until they make a row group worth having, and never more than ``_HELD_BYTES_MAX``
of them; at most ``_OPEN_MAX`` files are open; each file has a name that no other attempt can have, so that
files of lost attempts are never mistaken for others. A failure removes what this task has written, as far
as it can.
"""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odradek.spark.delta.errors import StorageFailed
from odradek.spark.delta.partition_values import Key, folder, split
from odradek.spark.delta.sink.statistics import add_statistics
from odradek.spark.delta.storage import is_local, storage_words

_ROW_GROUP_BYTES: Final = 32 * 1024 * 1024
_ROW_GROUP_ROWS_MAX: Final = 1024 * 1024
_HELD_BYTES_MAX: Final = 128 * 1024 * 1024
_OPEN_MAX: Final = 64


@dataclass(frozen=True)
class WrittenFile:
    """A file that waits for its commit; ``path`` is relative to the table."""

    path: str
    size_bytes: int
    row_count: int
    partition_values: dict[str, str | None]
    stats: str


@dataclass
class _OpenFile:
    path: str
    stream: Any
    writer: pq.ParquetWriter
    metadata: list[pq.FileMetaData]


@dataclass
class _Pending:
    """Rows of one partition that are not in a file yet, and the file they will go to."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    byte_count: int = 0
    row_count: int = 0
    file: _OpenFile | None = None
    with_nan: set[str] = field(default_factory=set)


class ParquetFiles:
    """Writes rows of one schema into files below ``root``, split by partition columns."""

    def __init__(
        self,
        file_system: Any,
        schema: pa.Schema,
        partition_by: tuple[str, ...],
        *,
        table_path: str,
        file_bytes: int,
        compression: str,
        root: str = "",
    ) -> None:
        self._file_system = file_system
        self._partition_by = partition_by
        self._schema = pa.schema([column for column in schema if column.name not in partition_by])
        self._floating = [column.name for column in self._schema if _holds_floats(column.type)]
        self._table_path = table_path
        self._file_bytes = file_bytes
        self._compression = compression
        self._root = root
        self._pending: dict[Key, _Pending] = {}
        self._held_bytes = 0
        self._written: list[WrittenFile] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows; some of them, or older ones, may go to a file now."""
        try:
            for key, rows in split(batch, self._partition_by):
                self._take(key, rows)
            while self._held_bytes > _HELD_BYTES_MAX:
                self._flush(max(self._pending, key=lambda key: self._pending[key].byte_count))
        except OSError as error:
            raise StorageFailed(storage_words(self._table_path, error)) from error

    def close(self) -> list[WrittenFile]:
        """Write what is left; all files of this task."""
        try:
            for key in list(self._pending):
                self._flush(key)
                self._finish(key)
        except OSError as error:
            raise StorageFailed(storage_words(self._table_path, error)) from error
        return self._written

    def discard(self) -> None:
        """Remove all files of this task, as far as the storage lets us."""
        started = [pending.file for pending in self._pending.values() if pending.file is not None]
        for file in started:
            # The storage failed already; the file is removed below or left to vacuum.
            with contextlib.suppress(OSError):
                file.stream.close()
        remove(self._file_system, [file.path for file in started] + [file.path for file in self._written])

    def _take(self, key: Key, rows: pa.RecordBatch) -> None:
        pending = self._pending.setdefault(key, _Pending())
        pending.batches.append(rows)
        pending.byte_count += rows.nbytes
        pending.row_count += rows.num_rows
        self._held_bytes += rows.nbytes
        if pending.byte_count >= _ROW_GROUP_BYTES or pending.row_count >= _ROW_GROUP_ROWS_MAX:
            self._flush(key)

    def _flush(self, key: Key) -> None:
        """Put the rows of a partition into its file as one row group."""
        pending = self._pending[key]
        if not pending.batches:
            return
        file = pending.file or self._open(key)
        pending.file = file
        table = pa.Table.from_batches(pending.batches, self._schema)
        for name in self._floating:
            if name not in pending.with_nan and _has_nan(table.column(name)):
                pending.with_nan.add(name)
        file.writer.write_table(table, row_group_size=_ROW_GROUP_ROWS_MAX)
        self._held_bytes -= pending.byte_count
        pending.batches, pending.byte_count, pending.row_count = [], 0, 0
        if file.stream.tell() >= self._file_bytes:
            self._finish(key)

    def _open(self, key: Key) -> _OpenFile:
        opened = [other for other, pending in self._pending.items() if pending.file is not None]
        if len(opened) >= _OPEN_MAX:
            self._finish(opened[0])
        directory = self._root + folder(self._partition_by, key)
        if directory and is_local(self._table_path):
            self._file_system.create_dir(directory, recursive=True)
        path = f"{directory}part-{uuid.uuid4()}.{self._compression}.parquet"
        stream = self._file_system.open_output_stream(path)
        metadata: list[pq.FileMetaData] = []
        # Kept before the writer is made: a failure from here on must find the file to remove it.
        self._pending[key].file = file = _OpenFile(path, stream, None, metadata)
        file.writer = pq.ParquetWriter(
            stream, self._schema, compression=self._compression, metadata_collector=metadata, version="2.6"
        )
        return file

    def _finish(self, key: Key) -> None:
        """Close the file of a partition; its next rows begin another."""
        pending = self._pending[key]
        file = pending.file
        if file is None:
            return
        file.writer.close()
        size_bytes = file.stream.tell()
        file.stream.close()
        metadata = file.metadata[0]
        self._written.append(
            WrittenFile(
                path=file.path,
                size_bytes=size_bytes,
                row_count=metadata.num_rows,
                partition_values=dict(zip(self._partition_by, key, strict=True)),
                stats=add_statistics(metadata, self._schema, frozenset(pending.with_nan)),
            )
        )
        pending.file = None
        pending.with_nan = set()


def remove(file_system: Any, paths: list[str]) -> None:
    """Remove files that belong to no commit; whatever stays is vacuum's."""
    for path in paths:
        # Best effort: an orphan takes room and does no harm.
        with contextlib.suppress(OSError):
            file_system.delete_file(path)


def _holds_floats(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_holds_floats(field.type) for field in kind)
    return bool(pa.types.is_floating(kind))


def _has_nan(column: pa.ChunkedArray) -> bool:
    # Floats within structs are rare, and looking for NaN there is dear: no bounds for them.
    if pa.types.is_struct(column.type):
        return True
    return bool(pc.any(pc.is_nan(column)).as_py())
