"""Parquet files of one task, written from record batches with a target size.

Invariants: rows are buffered until they fill a row group, up to ``_BUFFERED_BYTES_MAX``; at most
``_OPEN_MAX`` files are open; each attempt uses unique file names, so that files of failed attempts are never
mistaken for others. After a failure the task's files are removed, best effort.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odradek.client.environment import new_uuid
from odradek.spark.delta.errors import StorageFailed
from odradek.spark.delta.partition_values import Key, folder, split
from odradek.spark.delta.sink.statistics import add_statistics
from odradek.spark.delta.storage import is_local, storage_error_message

_ROW_GROUP_BYTES: Final = 32 * 1024 * 1024
_ROW_GROUP_ROWS_MAX: Final = 1024 * 1024
_BUFFERED_BYTES_MAX: Final = 128 * 1024 * 1024
_OPEN_MAX: Final = 64


@dataclass(frozen=True)
class WrittenFile:
    """A file to be committed; ``path`` is relative to the table."""

    path: str
    size_bytes: int
    row_count: int
    partition_values: dict[str, str | None]
    stats: str


@dataclass
class _OpenFile:
    path: str
    stream: pa.NativeFile
    writer: pq.ParquetWriter
    metadata: list[pq.FileMetaData]


@dataclass
class _Pending:
    """Buffered rows of one partition, and the file they are written to."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    byte_count: int = 0
    row_count: int = 0
    file: _OpenFile | None = None
    with_nan: set[str] = field(default_factory=set)


class ParquetFiles:
    """Writes rows of one schema to files below ``root``, split by partition columns."""

    def __init__(
        self,
        file_system: pa.fs.FileSystem,
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
        self._buffered_bytes = 0
        self._written: list[WrittenFile] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Buffer rows; some of them, or older ones, may be written to a file now."""
        try:
            for key, rows in split(batch, self._partition_by):
                self._buffer(key, rows)
            while self._buffered_bytes > _BUFFERED_BYTES_MAX:
                self._flush(max(self._pending, key=lambda key: self._pending[key].byte_count))
        except OSError as error:
            raise StorageFailed(storage_error_message(self._table_path, error)) from error

    def close(self) -> list[WrittenFile]:
        """Write the buffered rows; return all files of this task."""
        try:
            for key in list(self._pending):
                self._flush(key)
                self._finish(key)
        except OSError as error:
            raise StorageFailed(storage_error_message(self._table_path, error)) from error
        return self._written

    def discard(self) -> None:
        """Remove all files of this task, best effort."""
        open_files = [pending.file for pending in self._pending.values() if pending.file is not None]
        for file in open_files:
            # The storage has failed already; the file is removed below, or by vacuum.
            with contextlib.suppress(OSError):
                file.stream.close()
        remove_files(
            self._file_system, [file.path for file in open_files] + [file.path for file in self._written]
        )

    def _buffer(self, key: Key, rows: pa.RecordBatch) -> None:
        pending = self._pending.setdefault(key, _Pending())
        pending.batches.append(rows)
        pending.byte_count += rows.nbytes
        pending.row_count += rows.num_rows
        self._buffered_bytes += rows.nbytes
        if pending.byte_count >= _ROW_GROUP_BYTES or pending.row_count >= _ROW_GROUP_ROWS_MAX:
            self._flush(key)

    def _flush(self, key: Key) -> None:
        """Write the buffered rows of a partition to its file as one row group."""
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
        self._buffered_bytes -= pending.byte_count
        pending.batches, pending.byte_count, pending.row_count = [], 0, 0
        if file.stream.tell() >= self._file_bytes:
            self._finish(key)

    def _open(self, key: Key) -> _OpenFile:
        open_keys = [other for other, pending in self._pending.items() if pending.file is not None]
        if len(open_keys) >= _OPEN_MAX:
            self._finish(open_keys[0])
        directory = self._root + folder(self._partition_by, key)
        if directory and is_local(self._table_path):
            self._file_system.create_dir(directory, recursive=True)
        path = f"{directory}part-{new_uuid()}.{self._compression}.parquet"
        stream = self._file_system.open_output_stream(path)
        metadata: list[pq.FileMetaData] = []
        # Stored before the writer is created: after a failure the file must be removed.
        self._pending[key].file = file = _OpenFile(path, stream, None, metadata)
        file.writer = pq.ParquetWriter(
            stream, self._schema, compression=self._compression, metadata_collector=metadata, version="2.6"
        )
        return file

    def _finish(self, key: Key) -> None:
        """Close the file of a partition; its next rows start another."""
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


def remove_files(file_system: pa.fs.FileSystem, paths: list[str]) -> None:
    """Remove uncommitted files, best effort: vacuum removes the rest."""
    for path in paths:
        # An orphaned file only takes space.
        with contextlib.suppress(OSError):
            file_system.delete_file(path)


def _holds_floats(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_holds_floats(field.type) for field in kind)
    return bool(pa.types.is_floating(kind))


def _has_nan(column: pa.ChunkedArray) -> bool:
    # Floats in structs are rare, and finding NaN there is expensive: they get no bounds.
    if pa.types.is_struct(column.type):
        return True
    return bool(pc.any(pc.is_nan(column)).as_py())
