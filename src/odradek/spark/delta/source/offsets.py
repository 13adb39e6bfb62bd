"""Offsets of a stream over a table, and the end of its next batch. Pure.

An offset is the next file to read: a version, and the number of its files that are read. With ``snapshot``
the files are those of the whole table at that version, with which a stream starts by default. A version that
is completely read is never an offset: the next one is, so that each offset has a single form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from odradek.spark.delta.errors import TableChanged
from odradek.spark.delta.options import SourceOptions
from odradek.spark.delta.source.commit_log import Commit, CommitKind, TableFile


class DeltaOffset(NamedTuple):
    """The next file to read."""

    version: int
    files: int = 0
    snapshot: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; Spark compares offsets as text, so the keys are sorted."""
        return {"files": self.files, "snapshot": self.snapshot, "version": self.version}


class FileSpan(NamedTuple):
    """Files ``start`` to ``end`` (None: the last) of a version, or of the whole table at it."""

    version: int
    start: int
    end: int | None
    snapshot: bool


class BatchLimits(NamedTuple):
    """BatchLimits of one batch; at least one file or version is always read."""

    files_max: int | None
    versions_max: int | None


def offset_from_json(offset: dict[str, Any]) -> DeltaOffset:
    """Parse the offset of a checkpoint."""
    return DeltaOffset(
        int(offset["version"]), int(offset.get("files", 0)), bool(offset.get("snapshot", False))
    )


def spans_between(start: DeltaOffset, end: DeltaOffset) -> list[FileSpan]:
    """Return the files between two offsets: a function of these only, because a replay must read the same."""
    if end.snapshot:
        is_same = start.snapshot and start.version == end.version and start.files < end.files
        return [FileSpan(end.version, start.files, end.files, True)] if is_same else []
    result: list[FileSpan] = []
    if start.snapshot:
        if end.version <= start.version:
            return []
        result.append(FileSpan(start.version, start.files, None, True))
        start = DeltaOffset(start.version + 1)
    for version in range(start.version, end.version):
        result.append(FileSpan(version, start.files if version == start.version else 0, None, False))
    if end.files:
        first = start.files if start.version == end.version else 0
        if start.version <= end.version and first < end.files:
            result.append(FileSpan(end.version, first, end.files, False))
    return result


def next_offset(
    start: DeltaOffset,
    latest: int,
    limits: BatchLimits,
    file_count: Callable[[int, bool], int],
) -> DeltaOffset:
    """Return the end of the next batch, at most the end of version ``latest``.

    ``file_count`` returns the number of files of a version, or of the snapshot at it.
    """
    offset, files, versions = start, 0, 0
    while offset.version <= latest:
        if limits.versions_max is not None and versions >= limits.versions_max:
            break
        total = file_count(offset.version, offset.snapshot)
        left = max(0, total - offset.files)
        room = left if limits.files_max is None else limits.files_max - files
        if left > room:
            return offset._replace(files=offset.files + room)
        files += left
        versions += 1
        offset = DeltaOffset(offset.version + 1)
    return offset


def files_to_read(commit: Commit, version: int, options: SourceOptions) -> tuple[TableFile, ...]:
    """Return the files of a version that a stream reads; raise TableChanged unless changes are allowed."""
    if commit.kind in (CommitKind.APPENDS, CommitKind.REARRANGES):
        return commit.added
    if options.skip_change_commits:
        return ()
    if options.ignore_changes:
        return commit.added
    if options.ignore_deletes and commit.kind is CommitKind.DELETES:
        return ()
    raise TableChanged(
        f"version {version} of the table at {options.path} {commit.kind.value}"
        f" ({commit.operation or 'a commit'}), but a stream can only read added rows: set the option"
        " skipChangeCommits=true to skip such versions, or ignoreChanges=true to read the files they rewrote"
        " (with duplicate rows), or start with a new checkpoint"
    )
