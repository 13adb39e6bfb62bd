"""The log of a table as a stream follows it: versions, their commits, the files of the whole table.

What is read once is kept, within bounds, for the plan of a batch needs it again. Versions never change, so
nothing kept can be wrong.
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
from odradek.spark.delta.source.commit_log import Commit, TableFile, log_name, read_commit, version_of
from odradek.spark.delta.storage import file_system, open_table, told

_COMMITS_KEPT_MAX: Final = 1000
_SNAPSHOTS_KEPT_MAX: Final = 2


class TableLog:
    """Reads the log of one table; made on the driver, when it is first needed."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._files = file_system(options.path, options.storage_options)
        self._commits: OrderedDict[int, Commit] = OrderedDict()
        self._snapshots: OrderedDict[int, tuple[TableFile, ...]] = OrderedDict()
        self._looked_from = -1
        self._newest = -1

    def newest(self, position: int) -> int:
        """The newest version, looked for from ``position`` on; less than it if there is nothing new."""
        version = max(position, self._newest + 1)
        while self._exists(version):
            self._newest = version
            version += 1
        if version == position and self._looked_from != position:
            # The version may be still to come, or gone already: the folder tells, looked at once a position.
            self._looked_from = position
            last = max(self._listed(), default=-1)
            if last < position - 1:
                self._refuse_rebuilt(position, last)
            self._newest = max(self._newest, last)
        return self._newest

    def _refuse_rebuilt(self, position: int, last: int) -> None:
        raise HistoryLost(
            f"the table at {self._options.path} ends with version {last}, but this stream is to go on with"
            f" version {position}: the table was removed and made anew, or the option startingVersion is too"
            " high; begin with a new checkpoint, or with a version that is there"
        )

    def commit(self, version: int) -> Commit:
        """What a version did."""
        known = self._commits.get(version)
        if known is None:
            known = self._commits[version] = read_commit(self._text(version))
            while len(self._commits) > _COMMITS_KEPT_MAX:
                self._commits.popitem(last=False)
        return known

    def snapshot(self, version: int) -> tuple[TableFile, ...]:
        """All files of the table at a version, in an order that does not depend on who asks."""
        known = self._snapshots.get(version)
        if known is None:
            table = self._table_at(version)
            known = self._snapshots[version] = tuple(sorted(table_files(table, self._options.path)))
            while len(self._snapshots) > _SNAPSHOTS_KEPT_MAX:
                self._snapshots.popitem(last=False)
        return known

    def _table_at(self, version: int) -> DeltaTable:
        try:
            return open_table(self._options.path, self._options.storage_options, version)
        except (DeltaError, TableNotFound) as error:
            raise HistoryLost(
                f"version {version} of the table at {self._options.path}, with which this stream begins, is"
                f" no longer in its log ({error}): begin with a new checkpoint"
            ) from error

    def oldest_from(self, version: int) -> int | None:
        """The oldest version that is still in the log, from the one given on."""
        return min((found for found in self._listed() if found >= version), default=None)

    def _exists(self, version: int) -> bool:
        with told(self._options.path):
            return bool(self._files.get_file_info(log_name(version)).type == FileType.File)

    def _listed(self) -> list[int]:
        with told(self._options.path):
            listed = self._files.get_file_info(FileSelector("_delta_log", allow_not_found=True))
        return [version for entry in listed if (version := version_of(entry.base_name)) is not None]

    def _text(self, version: int) -> str:
        try:
            with self._files.open_input_stream(log_name(version)) as stream:
                return str(stream.read().decode())
        except FileNotFoundError as error:
            oldest = self.oldest_from(version)
            gone = f"versions {version} to {oldest - 1}" if oldest is not None else f"version {version}"
            raise HistoryLost(
                f"{gone} of the table at {self._options.path} were removed from its log before this stream"
                " read them (delta.logRetentionDuration): their rows may be lost to it; set"
                " failOnDataLoss=false to go on with what is left, or begin with a new checkpoint"
            ) from error


def table_files(table: DeltaTable, path: str) -> list[TableFile]:
    """All files of a version of a table."""
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
    """Refuse a table some of whose rows are deleted beside their files."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return
    if pa.RecordBatchReader.from_stream(table.deletion_vectors()).read_all().num_rows:
        raise_deletions(path)


def raise_deletions(path: str) -> None:
    raise TableUnsupported(
        f"rows of the table at {path} are deleted by deletion vectors, which are not supported: rewrite its"
        " files (REORG TABLE … APPLY (PURGE)) and set delta.enableDeletionVectors=false"
    )
