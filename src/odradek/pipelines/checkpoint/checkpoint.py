"""What is in the checkpoint of a pipeline: Spark's own files, which are only read, and ours beside them.

Spark writes ``offsets/N`` before batch N runs and ``commits/N`` after it. Ours are in ``odradek/``. Nothing
here ever changes a file of Spark's; ``move_aside`` renames the whole folder.
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
"""``{"orders": {"0": 12}}``, as Spark's log of offsets has it for a topic source."""

OURS: Final = "odradek"
_NUMBER: Final = re.compile(r"\d+")
_NOTHING: Final = "-"
_REPAIR: Final = (
    "Put the file back from a copy of the checkpoint, or begin anew with odradek pipeline reset, which keeps "
    "the old checkpoint beside the new one"
)
_HADOOP_S3: Final = re.compile(r"^s3[an]://")


class CheckpointUnreadable(Exception):
    """Files of a checkpoint are not what they should be; names the place."""


@dataclass(frozen=True)
class PlannedBatch:
    """A batch that Spark has written down to run: where each source ends, and when it was planned."""

    batch_id: int
    planned_ms: int | None
    ends: tuple[Mapping[str, Any] | None, ...]
    settings: Mapping[str, str]


@dataclass(frozen=True)
class CheckpointState:
    """How far a query has come."""

    query_id: str | None = None
    last_planned: PlannedBatch | None = None
    last_committed: PlannedBatch | None = None
    """The last batch that ended; its ends are known as long as Spark keeps them."""
    committed_id: int | None = None

    @property
    def has_begun(self) -> bool:
        return self.last_planned is not None

    @property
    def unfinished(self) -> PlannedBatch | None:
        """The batch that will run again first: planned, and not known to have ended."""
        planned = self.last_planned
        if planned is None or (self.committed_id is not None and planned.batch_id <= self.committed_id):
            return None
        return planned


def newest_number(names: Iterable[str]) -> int | None:
    """The newest batch among the names of a log's files; others are Spark's temporary ones."""
    return max((int(name) for name in names if _NUMBER.fullmatch(name)), default=None)


def parse_planned(batch_id: int, text: str) -> PlannedBatch:
    """A file of ``offsets``: a version, a line about the batch, and one line for each source."""
    lines = text.splitlines()
    try:
        about = json.loads(lines[1])
        ends = tuple(None if line == _NOTHING else json.loads(line) for line in lines[2:])
        planned_ms = about.get("batchTimestampMs")
        return PlannedBatch(batch_id, planned_ms, ends, about.get("conf") or {})
    except IndexError:
        raise CheckpointUnreadable(f"offsets/{batch_id} is no log of offsets: it ends too early") from None
    except (ValueError, AttributeError) as wrong:
        raise CheckpointUnreadable(f"offsets/{batch_id} is no log of offsets: {wrong}") from None


def parse_query_id(text: str) -> str:
    """The file ``metadata``."""
    try:
        return str(json.loads(text)["id"])
    except (ValueError, KeyError, TypeError) as wrong:
        raise CheckpointUnreadable(f"metadata names no query: {wrong}") from None


class Checkpoint:
    """A checkpoint at a path or URI; it need not exist yet."""

    def __init__(self, place: str) -> None:
        self.place = place
        if "://" in place:
            # Hadoop's names of S3 mean nothing to Arrow.
            self._files, root = fs.FileSystem.from_uri(_HADOOP_S3.sub("s3://", place))
        else:
            self._files, root = fs.LocalFileSystem(), place
        self._root = root.rstrip("/")
        self.is_local = isinstance(self._files, fs.LocalFileSystem)

    @property
    def spark_place(self) -> str:
        """The place as Spark must be told it: a bare path could mean another file system there."""
        return self.place if "://" in self.place else f"file://{self.place}"

    def exists(self) -> bool:
        return bool(self._files.get_file_info(self._root).type == fs.FileType.Directory)

    def state(self) -> CheckpointState:
        """How far Spark has come; raises CheckpointUnreadable."""
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
        except CheckpointUnreadable as wrong:
            raise CheckpointUnreadable(f"{self.place}/{wrong}. {_REPAIR}") from None

    def _planned(self, batch_id: int | None) -> PlannedBatch | None:
        text = None if batch_id is None else self._read(f"offsets/{batch_id}")
        return None if text is None or batch_id is None else parse_planned(batch_id, text)

    def read_sidecar(self, name: str) -> str | None:
        """A file of ours; None if there is none."""
        return self._read(f"{OURS}/{name}")

    def read_sidecar_json(self, name: str) -> dict[str, Any] | None:
        """A file of ours that holds an object; None if there is none. Raises CheckpointUnreadable."""
        text = self.read_sidecar(name)
        if text is None:
            return None
        try:
            found = json.loads(text)
        except ValueError as wrong:
            raise CheckpointUnreadable(f"{self.place}/{OURS}/{name} is no JSON: {wrong}. {_REPAIR}") from None
        if not isinstance(found, dict):
            raise CheckpointUnreadable(f"{self.place}/{OURS}/{name} holds no JSON object. {_REPAIR}")
        return found

    def write_sidecar(self, name: str, text: str) -> None:
        """A file of ours, whole or not at all."""
        self._write(f"{self._root}/{OURS}/{name}", text)

    def remove_sidecar(self, name: str) -> None:
        """Forget a file of ours, if there is one."""
        self._remove(f"{self._root}/{OURS}/{name}")

    def read_beside(self, name: str) -> str | None:
        """A file that stays when the folder is moved; None if there is none."""
        return self._text_of(f"{self._root}.{name}")

    def write_beside(self, name: str, text: str) -> None:
        self._write(f"{self._root}.{name}", text)

    def remove_beside(self, name: str) -> None:
        self._remove(f"{self._root}.{name}")

    def move_aside(self, suffix: str) -> str:
        """Rename the whole checkpoint; gives its new place."""
        self._files.move(self._root, f"{self._root}.{suffix}")
        return f"{self.place.rstrip('/')}.{suffix}"

    def _read(self, name: str) -> str | None:
        return self._text_of(f"{self._root}/{name}")

    def _text_of(self, path: str) -> str | None:
        if self._files.get_file_info(path).type != fs.FileType.File:
            return None
        with self._files.open_input_stream(path) as stream:
            # What is no text is no JSON either, and told as such.
            return bytes(stream.read()).decode(errors="replace")

    def _write(self, path: str, text: str) -> None:
        self._files.create_dir(os.path.dirname(path), recursive=True)
        fresh = f"{path}.{os.getpid()}.tmp" if self.is_local else path
        with self._files.open_output_stream(fresh) as stream:
            stream.write(text.encode())
        if fresh != path:
            self._files.move(fresh, path)

    def _remove(self, path: str) -> None:
        if self._files.get_file_info(path).type == fs.FileType.File:
            self._files.delete_file(path)

    def _names(self, folder: str) -> list[str]:
        listing = fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True)
        return [found.base_name for found in self._files.get_file_info(listing)]
