"""Commits of a table's log: the files that a version added and removed. Pure.

Invariant: files are in the order of the log, which never changes, so an index within a version is stable.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote


class TableFile(NamedTuple):
    """A data file of a table; the path is relative to the table, partition values are text of the log."""

    path: str
    size_bytes: int
    partition_values: tuple[tuple[str, str | None], ...]
    has_deletions: bool = False


class CommitKind(enum.Enum):
    APPENDS = "appends rows"
    REARRANGES = "rearranges rows"
    DELETES = "deletes rows"
    CHANGES = "changes rows"


@dataclass(frozen=True)
class Commit:
    """One version: the kind of change, and the files added."""

    kind: CommitKind
    operation: str
    added: tuple[TableFile, ...]
    schema_json: str | None
    """The new schema, if the commit changes it."""


def log_path(version: int) -> str:
    """Return the path of a version's log entry, relative to the table."""
    return f"_delta_log/{version:020d}.json"


def parse_version(name: str) -> int | None:
    """Return the version of a log file; None if it is not a log entry."""
    stem, dot, ending = name.partition(".")
    return int(stem) if dot and ending == "json" and stem.isdigit() else None


def read_commit(text: str) -> Commit:
    """Parse a version's actions; files that only rearrange rows (``dataChange`` false) do not count."""
    actions = [json.loads(line) for line in text.splitlines() if line.strip()]
    added = [action["add"] for action in actions if "add" in action]
    removed = [action["remove"] for action in actions if "remove" in action]
    changed_adds = [add for add in added if add.get("dataChange", True)]
    changed_removes = [remove for remove in removed if remove.get("dataChange", True)]
    is_rearranged = bool(added or removed) and not changed_adds and not changed_removes
    schemas = [action["metaData"]["schemaString"] for action in actions if "metaData" in action]
    return Commit(
        kind=CommitKind.REARRANGES if is_rearranged else _kind(changed_adds, changed_removes),
        operation=next(
            (action["commitInfo"].get("operation", "") for action in actions if "commitInfo" in action), ""
        ),
        added=tuple(_file(add) for add in changed_adds),
        schema_json=schemas[-1] if schemas else None,
    )


def _kind(adds: list[dict[str, Any]], removes: list[dict[str, Any]]) -> CommitKind:
    if not removes:
        return CommitKind.APPENDS
    return CommitKind.CHANGES if adds else CommitKind.DELETES


def _file(add: dict[str, Any]) -> TableFile:
    values = add.get("partitionValues") or {}
    return TableFile(
        path=unquote(add["path"]),
        size_bytes=add.get("size", 0),
        partition_values=tuple(sorted(values.items())),
        has_deletions=add.get("deletionVector") is not None,
    )


def group_files(files: Iterable[TableFile], group_bytes: int) -> list[tuple[TableFile, ...]]:
    """Group files into input partitions of about ``group_bytes``."""
    groups: list[tuple[TableFile, ...]] = []
    group: list[TableFile] = []
    size_bytes = 0
    for file in files:
        if group and size_bytes + file.size_bytes > group_bytes:
            groups.append(tuple(group))
            group, size_bytes = [], 0
        group.append(file)
        size_bytes += file.size_bytes
    return [*groups, tuple(group)] if group else groups
