"""Cached access to the log of a table: versions, their commits, the files of a snapshot.

The caches are bounded; planning a batch reads the same entries again. Versions never change, so a cached
entry is never stale.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow.fs import FileSelector, FileType

from odradek.spark.delta.errors import HistoryLost, TableNotFound, TableUnsupported
from odradek.spark.delta.options import SourceOptions
from odradek.spark.delta.partition_values import as_text
from odradek.spark.delta.source.commit_log import Commit, TableFile, log_path, parse_version, read_commit
from odradek.spark.delta.storage import file_system, open_table, storage_errors

_COMMITS_CACHED_MAX: Final = 1000
_SNAPSHOTS_CACHED_MAX: Final = 2


class TableLog:
    """The log of one table, read on the driver."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._files = file_system(options.path, options.storage_options)
        self._commits: OrderedDict[int, Commit] = OrderedDict()
        self._snapshots: OrderedDict[int, tuple[TableFile, ...]] = OrderedDict()
        self._listed_from = -1
        self._latest = -1

    def latest(self, position: int) -> int:
        """Return the latest version, searched from ``position`` on; lower than that if none is new."""
        version = max(position, self._latest + 1)
        while self._exists(version):
            self._latest = version
            version += 1
        if version == position and self._listed_from != position:
            # The version is not written yet, or already removed: list the directory, once per position.
            self._listed_from = position
            last = max(self._list_versions(), default=-1)
            if last < position - 1:
                self._raise_recreated(position, last)
            self._latest = max(self._latest, last)
        return self._latest

    def _raise_recreated(self, position: int, last: int) -> None:
        raise HistoryLost(
            f"the latest version of the table at {self._options.path} is {last}, but this stream continues"
            f" with version {position}: the table was deleted and recreated, or the option startingVersion is"
            " too high; start with a new checkpoint, or with an existing version"
        )

    def commit(self, version: int) -> Commit:
        """Return the commit of a version."""
        commit = self._commits.get(version)
        if commit is None:
            commit = self._commits[version] = read_commit(self._text(version))
            while len(self._commits) > _COMMITS_CACHED_MAX:
                self._commits.popitem(last=False)
        return commit

    def snapshot(self, version: int) -> tuple[TableFile, ...]:
        """Return all files of the table at a version, in a deterministic order."""
        files = self._snapshots.get(version)
        if files is None:
            table = self._table_at(version)
            files = self._snapshots[version] = tuple(sorted(table_files(table, self._options.path)))
            while len(self._snapshots) > _SNAPSHOTS_CACHED_MAX:
                self._snapshots.popitem(last=False)
        return files

    def _table_at(self, version: int) -> DeltaTable:
        try:
            return open_table(self._options.path, self._options.storage_options, version)
        except (DeltaError, TableNotFound) as error:
            raise HistoryLost(
                f"version {version} of the table at {self._options.path}, with which this stream starts, is"
                f" no longer in its log ({error}): start with a new checkpoint"
            ) from error

    def oldest_from(self, version: int) -> int | None:
        """Return the oldest version in the log that is not below ``version``."""
        return min((listed for listed in self._list_versions() if listed >= version), default=None)

    def _exists(self, version: int) -> bool:
        with storage_errors(self._options.path):
            return bool(self._files.get_file_info(log_path(version)).type == FileType.File)

    def _list_versions(self) -> list[int]:
        with storage_errors(self._options.path):
            entries = self._files.get_file_info(FileSelector("_delta_log", allow_not_found=True))
        return [version for entry in entries if (version := parse_version(entry.base_name)) is not None]

    def _text(self, version: int) -> str:
        try:
            with self._files.open_input_stream(log_path(version)) as stream:
                return str(stream.read().decode())
        except FileNotFoundError as error:
            oldest = self.oldest_from(version)
            removed = f"versions {version} to {oldest - 1}" if oldest is not None else f"version {version}"
            raise HistoryLost(
                f"{removed} of the table at {self._options.path} were removed from its log before this stream"
                " read them (delta.logRetentionDuration), and their rows may be lost; set"
                " failOnDataLoss=false to continue with the rest, or start with a new checkpoint"
            ) from error


def table_files(table: DeltaTable, path: str) -> list[TableFile]:
    """Return all files of a table at its loaded version."""
    check_deletions(table, path)
    actions = pa.table(table.get_add_actions())
    partitions: list[dict[str, Any]] = [{}] * actions.num_rows
    if "partition" in actions.column_names:
        partitions = actions["partition"].to_pylist()
    return [
        TableFile(
            path=unquote(location),
            size_bytes=size_bytes,
            partition_values=tuple(sorted((name, as_text(value)) for name, value in (values or {}).items())),
        )
        for location, size_bytes, values in zip(
            actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), partitions, strict=True
        )
    ]


def check_deletions(table: DeltaTable, path: str) -> None:
    """Raise TableUnsupported if the table has deletion vectors."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return
    if pa.RecordBatchReader.from_stream(table.deletion_vectors()).read_all().num_rows:
        raise_deletions(path)


def raise_deletions(path: str) -> None:
    raise TableUnsupported(
        f"the table at {path} has deletion vectors, which are not supported: rewrite its files"
        " (REORG TABLE … APPLY (PURGE)) and set delta.enableDeletionVectors=false"
    )
