"""File lock of a local checkpoint, released when its process ends; and the holder of a lease."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, NamedTuple

from odradek.pipelines.checkpoint.checkpoint import SIDECAR_DIRECTORY, Checkpoint
from odradek.pipelines.spec.model import Spec

LOCK_FILE: Final = "lease"
_HOLDER: Final = re.compile(r"(.+):(\d+)")


class LeaseTaken(Exception):
    """Raised when another process runs this pipeline."""


class Holder(NamedTuple):
    """A process that holds a lease."""

    host: str
    pid: int

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"


def parse_holder(text: str) -> Holder | None:
    """Parse ``host:pid``, the client id of a lease holder; None if it is another client id."""
    match = _HOLDER.fullmatch(text)
    return None if match is None else Holder(match[1], int(match[2]))


def is_process_dead(pid: int) -> bool:
    """Return True if this host has no such process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def holder_id() -> str:
    """Return ``host:pid`` of this process."""
    return str(Holder(platform.node(), os.getpid()))


def taken_message(spec: Spec, holder: str | None) -> str:
    return (
        f"{spec.name} is already running: {holder or 'unknown holder'} (host:process). Stop it first; two "
        "runs at once would write twice"
    )


@contextmanager
def local_lock(spec: Spec) -> Iterator[None]:
    """Hold the lock of a local checkpoint; do nothing for a remote one."""
    path = _lock_path(spec)
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LeaseTaken(taken_message(spec, _read_holder(file))) from None
        file.truncate(0)
        file.write(json.dumps(holder_id()))
        file.flush()
        yield


def _lock_path(spec: Spec) -> Path | None:
    if not Checkpoint(spec.checkpoint).is_local:
        return None
    return Path(spec.checkpoint.removeprefix("file://")) / SIDECAR_DIRECTORY / LOCK_FILE


def lock_holder(spec: Spec) -> str | None:
    """Return the holder of the lock; None if it is free, or the checkpoint is remote."""
    path = _lock_path(spec)
    if path is None or not path.is_file():
        return None
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read_holder(file)
    return None


def _read_holder(file: IO[str]) -> str | None:
    file.seek(0)
    try:
        return str(json.loads(file.read()))
    except ValueError:
        return None
