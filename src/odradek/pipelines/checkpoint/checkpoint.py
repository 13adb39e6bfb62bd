"""The checkpoint location of a pipeline: Spark's files, which are only read, and our sidecar files.

Spark writes ``offsets/N`` (offset log) before batch N runs, and ``commits/N`` (commit log) after it. Sidecar
files are in ``odradek/``. Spark's files are never changed; ``move_aside`` renames the whole directory.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyarrow import fs

Offsets = Mapping[str, Mapping[str, int]]
"""``{"orders": {"0": 12}}``, as in Spark's offset log for a topic source."""

SIDECAR_DIRECTORY: Final = "odradek"
_NUMBER: Final = re.compile(r"\d+")
_NO_OFFSET: Final = "-"
_REPAIR: Final = (
    "Restore the file from a copy of the checkpoint, or start over with odradek pipeline reset, which keeps "
    "the old checkpoint"
)
_HADOOP_S3: Final = re.compile(r"^s3[an]://")


class CheckpointUnreadable(Exception):
    """Raised for an invalid file of a checkpoint."""


@dataclass(frozen=True)
class PlannedBatch:
    """An entry of the offset log: the end offsets of each source, and the time of planning."""

    batch_id: int
    planned_ms: int | None
    ends: tuple[Mapping[str, Any] | None, ...]
    settings: Mapping[str, str]


@dataclass(frozen=True)
class CheckpointState:
    """Progress of a query."""

    query_id: str | None = None
    last_planned: PlannedBatch | None = None
    last_committed: PlannedBatch | None = None
    """The last committed batch; its end offsets are known as long as Spark keeps them."""
    committed_id: int | None = None

    @property
    def has_begun(self) -> bool:
        return self.last_planned is not None

    @property
    def unfinished(self) -> PlannedBatch | None:
        """The batch that is planned and not committed: it is replayed first."""
        planned = self.last_planned
        if planned is None or (self.committed_id is not None and planned.batch_id <= self.committed_id):
            return None
        return planned


def newest_number(names: Iterable[str]) -> int | None:
    """Return the latest batch id among the names of a log's files; others are temporary files."""
    return max((int(name) for name in names if _NUMBER.fullmatch(name)), default=None)


def parse_planned(batch_id: int, text: str) -> PlannedBatch:
    """Parse a file of the offset log: a version, the batch metadata, and one line per source."""
    lines = text.splitlines()
    try:
        metadata = json.loads(lines[1])
        ends = tuple(None if line == _NO_OFFSET else json.loads(line) for line in lines[2:])
        planned_ms = metadata.get("batchTimestampMs")
        return PlannedBatch(batch_id, planned_ms, ends, metadata.get("conf") or {})
    except IndexError:
        raise CheckpointUnreadable(f"offsets/{batch_id} is not a valid offset log: truncated") from None
    except (ValueError, AttributeError) as error:
        raise CheckpointUnreadable(f"offsets/{batch_id} is not a valid offset log: {error}") from None


def parse_query_id(text: str) -> str:
    """Parse the file ``metadata``."""
    try:
        return str(json.loads(text)["id"])
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointUnreadable(f"metadata has no query id: {error}") from None


class Checkpoint:
    """A checkpoint at a path or URI; it need not exist yet."""

    def __init__(self, location: str) -> None:
        self.location = location
        if "://" in location:
            # Arrow does not know Hadoop's URI schemes of S3.
            self._files, root = fs.FileSystem.from_uri(_HADOOP_S3.sub("s3://", location))
        else:
            self._files, root = fs.LocalFileSystem(), location
        self._root = root.rstrip("/")
        self.is_local = isinstance(self._files, fs.LocalFileSystem)

    @property
    def spark_location(self) -> str:
        """The location for Spark: a bare path could mean another default file system."""
        return self.location if "://" in self.location else f"file://{self.location}"

    def exists(self) -> bool:
        return bool(self._files.get_file_info(self._root).type == fs.FileType.Directory)

    def state(self) -> CheckpointState:
        """Return the progress of the query; raise CheckpointUnreadable."""
        query = self._read("metadata")
        planned_id = newest_number(self._names("offsets"))
        committed_id = newest_number(self._names("commits"))
        try:
            return CheckpointState(
                None if query is None else parse_query_id(query),
                self._planned(planned_id),
                self._planned(committed_id),
                committed_id,
            )
        except CheckpointUnreadable as error:
            raise CheckpointUnreadable(f"{self.location}/{error}. {_REPAIR}") from None

    def _planned(self, batch_id: int | None) -> PlannedBatch | None:
        text = None if batch_id is None else self._read(f"offsets/{batch_id}")
        return None if text is None or batch_id is None else parse_planned(batch_id, text)

    def read_sidecar(self, name: str) -> str | None:
        """Return the text of a sidecar file; None if it does not exist."""
        return self._read(f"{SIDECAR_DIRECTORY}/{name}")

    def read_sidecar_json(self, name: str) -> dict[str, Any] | None:
        """Return the JSON object of a sidecar file; None if it does not exist. Raise CheckpointUnreadable."""
        text = self.read_sidecar(name)
        if text is None:
            return None
        path = f"{self.location}/{SIDECAR_DIRECTORY}/{name}"
        try:
            value = json.loads(text)
        except ValueError as error:
            raise CheckpointUnreadable(f"{path} is not valid JSON: {error}. {_REPAIR}") from None
        if not isinstance(value, dict):
            raise CheckpointUnreadable(f"{path} is not a JSON object. {_REPAIR}")
        return value

    def write_sidecar(self, name: str, text: str) -> None:
        """Write a sidecar file, atomically on a local file system."""
        self._write(f"{self._root}/{SIDECAR_DIRECTORY}/{name}", text)

    def read_beside(self, name: str) -> str | None:
        """Return a file beside the directory, which stays when it is moved; None if it does not exist."""
        return self._text_of(f"{self._root}.{name}")

    def write_beside(self, name: str, text: str) -> None:
        self._write(f"{self._root}.{name}", text)

    def remove_beside(self, name: str) -> None:
        self._remove(f"{self._root}.{name}")

    def move_aside(self, suffix: str) -> str:
        """Rename the whole checkpoint; return its new location."""
        self._files.move(self._root, f"{self._root}.{suffix}")
        return f"{self.location.rstrip('/')}.{suffix}"

    def _read(self, name: str) -> str | None:
        return self._text_of(f"{self._root}/{name}")

    def _text_of(self, path: str) -> str | None:
        if self._files.get_file_info(path).type != fs.FileType.File:
            return None
        with self._files.open_input_stream(path) as stream:
            # Invalid UTF-8 is reported as invalid JSON.
            return bytes(stream.read()).decode(errors="replace")

    def _write(self, path: str, text: str) -> None:
        self._files.create_dir(os.path.dirname(path), recursive=True)
        temporary = f"{path}.{os.getpid()}.tmp" if self.is_local else path
        with self._files.open_output_stream(temporary) as stream:
            stream.write(text.encode())
        if temporary != path:
            self._files.move(temporary, path)

    def _remove(self, path: str) -> None:
        if self._files.get_file_info(path).type == fs.FileType.File:
            self._files.delete_file(path)

    def _names(self, folder: str) -> list[str]:
        listing = fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True)
        return [entry.base_name for entry in self._files.get_file_info(listing)]
