"""One version of a table's log: what its commit added and removed. Pure.

Invariant: files are in the order of the log, which never changes; so a position within a version means the
same whenever it is read.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote


class TableFile(NamedTuple):
    """A file of a table; its path as storage knows it, its partition values as the log spells them."""

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
    """What one version did to the rows."""

    kind: CommitKind
    operation: str
    added: tuple[TableFile, ...]
    schema_json: str | None
    """The schema from here on, where the commit sets one."""


def log_name(version: int) -> str:
    """Where a version lies in the table's folder."""
    return f"_delta_log/{version:020d}.json"


def version_of(name: str) -> int | None:
    """The version that a file of the log tells of, if it tells of one."""
    stem, dot, ending = name.partition(".")
    return int(stem) if dot and ending == "json" and stem.isdigit() else None


def read_commit(text: str) -> Commit:
    """What a version's actions say; files that only moved rows (``dataChange`` is false) do not count."""
    actions = [json.loads(line) for line in text.splitlines() if line.strip()]
    added = [action["add"] for action in actions if "add" in action]
    removed = [action["remove"] for action in actions if "remove" in action]
    new = [add for add in added if add.get("dataChange", True)]
    gone = [remove for remove in removed if remove.get("dataChange", True)]
    is_moved = bool(added or removed) and not new and not gone
    schemas = [action["metaData"]["schemaString"] for action in actions if "metaData" in action]
    return Commit(
        kind=CommitKind.REARRANGES if is_moved else _kind(new, gone),
        operation=next(
            (action["commitInfo"].get("operation", "") for action in actions if "commitInfo" in action), ""
        ),
        added=tuple(_file(add) for add in new),
        schema_json=schemas[-1] if schemas else None,
    )


def _kind(new: list[dict[str, Any]], gone: list[dict[str, Any]]) -> CommitKind:
    if not gone:
        return CommitKind.APPENDS
    return CommitKind.CHANGES if new else CommitKind.DELETES


def _file(add: dict[str, Any]) -> TableFile:
    values = add.get("partitionValues") or {}
    return TableFile(
        path=unquote(add["path"]),
        size_bytes=add.get("size", 0),
        partition_values=tuple(sorted(values.items())),
        has_deletions=add.get("deletionVector") is not None,
    )


def grouped(files: Iterable[TableFile], group_bytes: int) -> list[tuple[TableFile, ...]]:
    """Files put together until they are about as large as one input partition should be."""
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
