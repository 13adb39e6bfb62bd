"""The lock of a local checkpoint: one process of this machine has it, and it ends with that process."""

from __future__ import annotations

import fcntl
import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from odradek.pipelines.checkpoint.checkpoint import OURS, Checkpoint
from odradek.pipelines.checkpoint.lease_holder import Holder
from odradek.pipelines.spec.model import Spec

LOCK_FILE: Final = "lease"


class LeaseTaken(Exception):
    """Somebody else runs this pipeline."""


def me() -> str:
    """This process, as others see it."""
    return str(Holder(platform.node(), os.getpid()))


def taken_words(spec: Spec, who: str | None) -> str:
    return (
        f"{spec.name} is run by {who or 'somebody else'} already (host:process). Stop that one first; two at "
        "once would write twice"
    )


@contextmanager
def local_lock(spec: Spec) -> Iterator[None]:
    """The lock of a local checkpoint; nothing for one elsewhere. The system ends it with its process."""
    path = _lock_path(spec)
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LeaseTaken(taken_words(spec, _written(file))) from None
        file.truncate(0)
        file.write(json.dumps(me()))
        file.flush()
        yield


def _lock_path(spec: Spec) -> Path | None:
    if not Checkpoint(spec.checkpoint).is_local:
        return None
    return Path(spec.checkpoint.removeprefix("file://")) / OURS / LOCK_FILE


def lock_holder(spec: Spec) -> str | None:
    """Who has the lock; None if nobody has, or the checkpoint is elsewhere."""
    path = _lock_path(spec)
    if path is None or not path.is_file():
        return None
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _written(file)
    return None


def _written(file: IO[str]) -> str | None:
    file.seek(0)
    try:
        return str(json.loads(file.read()))
    except ValueError:
        return None
