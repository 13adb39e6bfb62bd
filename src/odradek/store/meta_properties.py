"""``meta.properties``: broker id and cluster id of a log directory, version 0 as in Kafka.

Layout (a Java properties file)::

    # #Sun Nov 15 08:18:33 UTC 2026 broker.id=1 version=0 cluster.id=r2ZBpvlJSAOxRG6Ck0D8Zw

A file is written atomically. Unknown keys (``directory.id``) are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from odradek.model.errors import StorageError
from odradek.ports.files import FileSystem

FILE_NAME: Final = "meta.properties"
_FILE_BYTES_MAX: Final = 64 * 1024
_ESCAPED: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_NAMED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LINE: Final = re.compile(r"((?:\\.|[^\\=: \t\f])+)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_LINE_END: Final = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """Contents of a file; None for an id that is missing."""

    broker_id: int | None
    cluster_id: str | None
    others: Mapping[str, str] = field(default_factory=dict)


def encode(meta: MetaProperties, now_ms: int) -> bytes:
    date = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
    pairs = {"version": "0"}
    if meta.broker_id is not None:
        pairs = {"broker.id": str(meta.broker_id), **pairs}
    if meta.cluster_id is not None:
        pairs["cluster.id"] = meta.cluster_id
    lines = [f"{name}={_escape(value)}" for name, value in {**pairs, **meta.others}.items()]
    return "\n".join(["#", f"#{date}", *lines, ""]).encode("utf-8")


def decode(path: str, data: bytes) -> MetaProperties:
    """Decode a file; raise ``StorageError`` with its path unless it has version 0."""
    pairs = _read_pairs(path, data)
    version = pairs.pop("version", None)
    if version != "0":
        raise StorageError(
            f"{path}: version must be '0' (ZooKeeper mode), got {version!r}. "
            "The directory belongs to another kind of broker: use another log.dirs"
        )
    broker_id, cluster_id = pairs.pop("broker.id", None), pairs.pop("cluster.id", None)
    if broker_id is not None and not re.fullmatch(r"\d{1,10}", broker_id):
        raise StorageError(f"{path}: broker.id must be an integer, got {broker_id!r}")
    return MetaProperties(None if broker_id is None else int(broker_id), cluster_id, pairs)


def read_all(files: FileSystem, log_dirs: Iterable[str]) -> dict[str, MetaProperties]:
    """Decode the existing files of the directories, by path."""
    by_path = {}
    for log_dir in log_dirs:
        path = f"{log_dir}/{FILE_NAME}"
        if files.exists(path):
            if files.size_of(path) > _FILE_BYTES_MAX:
                raise StorageError(
                    f"{path}: must be at most {_FILE_BYTES_MAX} bytes, got {files.size_of(path)}"
                )
            by_path[path] = decode(path, files.read_whole(path))
    return by_path


def write_all(
    files: FileSystem, log_dirs: Iterable[str], broker_id: int, cluster_id: str, now_ms: int
) -> list[str]:
    """Write the ids to every directory that lacks them; return the files written.

    Call ``agree`` first: other ids are overwritten.
    """
    log_dirs = list(log_dirs)
    by_path = read_all(files, log_dirs)
    written = []
    for log_dir in log_dirs:
        path = f"{log_dir}/{FILE_NAME}"
        before = by_path.get(path, MetaProperties(None, None))
        updated = MetaProperties(broker_id, cluster_id, before.others)
        if before != updated:
            files.write_whole(path, encode(updated, now_ms))
            written.append(path)
    return written


def agree(by_path: Mapping[str, MetaProperties]) -> MetaProperties:
    """Return the broker id and cluster id common to all files; raise ``StorageError`` if they differ."""
    broker_path = _same_everywhere("broker.id", {path: meta.broker_id for path, meta in by_path.items()})
    cluster_path = _same_everywhere("cluster.id", {path: meta.cluster_id for path, meta in by_path.items()})
    return MetaProperties(
        by_path[broker_path].broker_id if broker_path else None,
        by_path[cluster_path].cluster_id if cluster_path else None,
    )


def check_cluster_id(by_path: Mapping[str, MetaProperties], cluster_id: str | None) -> None:
    """Reject directories of another cluster; ``cluster_id`` is None for a new store."""
    for path, meta in by_path.items():
        if meta.cluster_id is not None and cluster_id is None:
            raise StorageError(
                f"{path}: the data belongs to cluster {meta.cluster_id}, but the store is empty. "
                "Check whether the first of log.dirs changed, or restore the store from a backup; to discard "
                "the data, empty the directory"
            )
        if meta.cluster_id is not None and meta.cluster_id != cluster_id:
            raise StorageError(
                f"{path}: the data belongs to cluster {meta.cluster_id}, the store to cluster "
                f"{cluster_id}. Check zookeeper.connect (or, with the embedded store, whether the first of "
                "log.dirs changed); to discard the data, empty the directory"
            )


def _same_everywhere(name: str, values: Mapping[str, object]) -> str | None:
    known = {path: value for path, value in values.items() if value is not None}
    if len(set(known.values())) > 1:
        listed = ", ".join(f"{value} in {path}" for path, value in known.items())
        raise StorageError(
            f"{name} must be the same in all log.dirs, got {listed}. The directories belong to different "
            "brokers or clusters: remove the wrong one from log.dirs, or empty it"
        )
    return next(iter(known), None)


def _read_pairs(path: str, data: bytes) -> dict[str, str]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as bad:
        raise StorageError(f"{path}: not valid UTF-8: {bad}") from bad
    pairs = {}
    for line in _LINE_END.split(text):
        line = line.lstrip(" \t\f")  # noqa: PLW2901 - leading whitespace is ignored
        if line and line[0] not in "#!":
            match = _LINE.fullmatch(line)
            if match is None:
                raise StorageError(f"{path}: invalid line {line[:80]!r}")
            pairs[_unescape(match[1])] = _unescape(match[2])
    return pairs


def _escape(value: str) -> str:
    escaped = re.sub(r"([\\=:#!])", r"\\\1", value)
    for letter, character in _NAMED.items():
        escaped = escaped.replace(character, f"\\{letter}")
    return "\\" + escaped if escaped.startswith(" ") else escaped


def _unescape(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        escaped_part = match[1]
        return (
            chr(int(escaped_part[1:], 16))
            if len(escaped_part) > 1
            else _NAMED.get(escaped_part, escaped_part)
        )

    return _ESCAPED.sub(plain, text)
