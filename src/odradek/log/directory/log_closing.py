"""Closing the logs of a directory, on several threads at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from odradek.log.directory.rolled_logs import SYNCS_AT_ONCE
from odradek.log.log import Log
from odradek.model.errors import StorageError
from odradek.ports.files import FileSystem


async def close_logs(files: FileSystem, logs: Sequence[Log], threads: int) -> list[StorageError]:
    """Close logs; return the errors of those that could not be synced. No log may be used afterwards."""
    failures: list[StorageError] = []
    work: deque[tuple[Log, Callable[[], None]]] = deque()
    for log in logs:
        try:
            plan = log.plan_close()
        except StorageError as error:
            failures.append(error)
        else:
            if plan is not None:
                work.append((log, plan))

    def run() -> None:
        while work:
            with suppress(IndexError):
                log, plan = work.popleft()
                try:
                    plan()
                except OSError as error:
                    failures.append(StorageError(f"cannot close {log.directory}: {error}"))

    for running in [files.offload(run) for _ in range(min(max(threads, SYNCS_AT_ONCE), len(work)))]:
        await running
    for log in logs:
        log.finish_close()
    return failures
