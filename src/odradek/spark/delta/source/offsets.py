"""How far a stream has read a table, and how far its next batch goes: pure.

A position is the next thing to read: a version, and how many of its files are done. ``snapshot`` says that
the files are those of the whole table at that version, with which a stream begins unless told otherwise. A
version that is read to its end is never a position: the next one is, so that each place has one name only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from odradek.spark.delta.errors import TableChanged
from odradek.spark.delta.options import SourceOptions
from odradek.spark.delta.source.commit_log import Commit, CommitKind, TableFile


class Position(NamedTuple):
    """The next thing to read."""

    version: int
    files: int = 0
    snapshot: bool = False

    def as_offset(self) -> dict[str, Any]:
        """As Spark keeps it, which compares offsets as text: the keys are sorted."""
        return {"files": self.files, "snapshot": self.snapshot, "version": self.version}


class Span(NamedTuple):
    """Files ``start`` to ``end`` (None: the last) of a version, or of the whole table at it."""

    version: int
    start: int
    end: int | None
    snapshot: bool


class Limits(NamedTuple):
    """How much one batch may take; at least one file or version is always taken."""

    files_max: int | None
    versions_max: int | None


def from_offset(offset: dict[str, Any]) -> Position:
    """A position as a checkpoint has it."""
    return Position(int(offset["version"]), int(offset.get("files", 0)), bool(offset.get("snapshot", False)))


def spans(start: Position, end: Position) -> list[Span]:
    """What lies between two positions: a function of these two only, for a replay must read the same."""
    if end.snapshot:
        is_same = start.snapshot and start.version == end.version and start.files < end.files
        return [Span(end.version, start.files, end.files, True)] if is_same else []
    found: list[Span] = []
    if start.snapshot:
        if end.version <= start.version:
            return []
        found.append(Span(start.version, start.files, None, True))
        start = Position(start.version + 1)
    for version in range(start.version, end.version):
        found.append(Span(version, start.files if version == start.version else 0, None, False))
    if end.files:
        first = start.files if start.version == end.version else 0
        if start.version <= end.version and first < end.files:
            found.append(Span(end.version, first, end.files, False))
    return found


def advance(
    start: Position,
    newest: int,
    limits: Limits,
    file_count: Callable[[int, bool], int],
) -> Position:
    """How far the next batch goes, at most to the end of version ``newest``.

    ``file_count`` tells how many files a version has to read, or the whole table at it.
    """
    position, files, versions = start, 0, 0
    while position.version <= newest:
        if limits.versions_max is not None and versions >= limits.versions_max:
            break
        total = file_count(position.version, position.snapshot)
        left = max(0, total - position.files)
        room = left if limits.files_max is None else limits.files_max - files
        if left > room:
            return position._replace(files=position.files + room)
        files += left
        versions += 1
        position = Position(position.version + 1)
    return position


def files_to_read(commit: Commit, version: int, options: SourceOptions) -> tuple[TableFile, ...]:
    """The files of a version that a stream reads; other commits than plain additions must be allowed."""
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
        f" ({commit.operation or 'a commit'}), and a stream can only pass on rows that are added: set the"
        " option skipChangeCommits=true to leave such versions out, or ignoreChanges=true to read the files"
        " they rewrote (rows may come twice), or begin with a new checkpoint"
    )
