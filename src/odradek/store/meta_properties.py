"""``meta.properties``: whom a data directory belongs to. One file per log directory, version 0 as in Kafka.

Layout (a Java properties file)::

    #
    #Sun Nov 15 08:18:33 UTC 2026
    broker.id=1
    version=0
    cluster.id=r2ZBpvlJSAOxRG6Ck0D8Zw

A file is written whole or not at all. Keys this version does not know (``directory.id``) are kept.
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
    """None: the file does not say."""

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
    """``StorageError`` naming the file if it is not a version 0 file."""
    pairs = _read_pairs(path, data)
    version = pairs.pop("version", None)
    if version != "0":
        raise StorageError(
            f"{path}: version is {version!r}, a broker of a ZooKeeper cluster writes 0. "
            "The directory belongs to another kind of broker: use a log.dirs of its own"
        )
    broker_id, cluster_id = pairs.pop("broker.id", None), pairs.pop("cluster.id", None)
    if broker_id is not None and not re.fullmatch(r"\d{1,10}", broker_id):
        raise StorageError(f"{path}: broker.id is {broker_id!r}, not a broker's number")
    return MetaProperties(None if broker_id is None else int(broker_id), cluster_id, pairs)


def read_all(files: FileSystem, log_dirs: Iterable[str]) -> dict[str, MetaProperties]:
    """What the directories say that say anything, by the path of the file."""
    found = {}
    for log_dir in log_dirs:
        path = f"{log_dir}/{FILE_NAME}"
        if files.exists(path):
            if files.size_of(path) > _FILE_BYTES_MAX:
                raise StorageError(f"{path}: larger than {_FILE_BYTES_MAX} bytes, not a {FILE_NAME}")
            found[path] = decode(path, files.read_whole(path))
    return found


def write_all(
    files: FileSystem, log_dirs: Iterable[str], broker_id: int, cluster_id: str, now_ms: int
) -> list[str]:
    """Make every directory say whom it belongs to; give the files written. Files that say so stay untouched.

    Call ``agree`` first: this replaces whatever is there.
    """
    log_dirs = list(log_dirs)
    found = read_all(files, log_dirs)
    written = []
    for log_dir in log_dirs:
        path = f"{log_dir}/{FILE_NAME}"
        before = found.get(path, MetaProperties(None, None))
        wanted = MetaProperties(broker_id, cluster_id, before.others)
        if before != wanted:
            files.write_whole(path, encode(wanted, now_ms))
            written.append(path)
    return written


def agree(found: Mapping[str, MetaProperties]) -> MetaProperties:
    """The one broker and cluster that all files name; ``StorageError`` if they differ."""
    broker_path = _same_everywhere("broker.id", {path: meta.broker_id for path, meta in found.items()})
    cluster_path = _same_everywhere("cluster.id", {path: meta.cluster_id for path, meta in found.items()})
    return MetaProperties(
        found[broker_path].broker_id if broker_path else None,
        found[cluster_path].cluster_id if cluster_path else None,
    )


def check_cluster_id(found: Mapping[str, MetaProperties], cluster_id: str | None) -> None:
    """Refuse directories that hold another cluster's data; ``None`` is the id of a store that is new."""
    for path, meta in found.items():
        if meta.cluster_id is not None and cluster_id is None:
            raise StorageError(
                f"{path}: the data belongs to cluster {meta.cluster_id}, and no store knows its topics. "
                "Check whether the first of log.dirs changed, or put the store back from a copy; to "
                "give up this data, empty the directory"
            )
        if meta.cluster_id is not None and meta.cluster_id != cluster_id:
            raise StorageError(
                f"{path}: the data belongs to cluster {meta.cluster_id}, the store says this is cluster "
                f"{cluster_id}. Check zookeeper.connect (or, with the embedded store, whether the first of "
                "log.dirs changed); to give up this data, empty the directory"
            )


def _same_everywhere(name: str, values: Mapping[str, object]) -> str | None:
    said = {path: value for path, value in values.items() if value is not None}
    if len(set(said.values())) > 1:
        listed = ", ".join(f"{value} in {path}" for path, value in said.items())
        raise StorageError(
            f"the log.dirs disagree about {name}: {listed}. They come from different brokers or clusters: "
            "take the wrong one out of log.dirs, or empty it"
        )
    return next(iter(said), None)


def _read_pairs(path: str, data: bytes) -> dict[str, str]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as bad:
        raise StorageError(f"{path}: not text: {bad}") from bad
    pairs = {}
    for line in _LINE_END.split(text):
        line = line.lstrip(" \t\f")  # noqa: PLW2901 - what stands before a key means nothing
        if line and line[0] not in "#!":
            match = _LINE.fullmatch(line)
            if match is None:
                raise StorageError(f"{path}: cannot read the line {line[:80]!r}")
            pairs[_unescape(match[1])] = _unescape(match[2])
    return pairs


def _escape(value: str) -> str:
    escaped = re.sub(r"([\\=:#!])", r"\\\1", value)
    for letter, character in _NAMED.items():
        escaped = escaped.replace(character, f"\\{letter}")
    return "\\" + escaped if escaped.startswith(" ") else escaped


def _unescape(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        what = match[1]
        return chr(int(what[1:], 16)) if len(what) > 1 else _NAMED.get(what, what)

    return _ESCAPED.sub(plain, text)
