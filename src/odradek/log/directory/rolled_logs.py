"""Logs that rolled and are to be flushed, to keep the recovery scan after a crash short."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from odradek.log.log import Log
from odradek.model.errors import StorageError

SYNCS_AT_ONCE: Final = 8
"""Concurrent log syncs: the file system combines them into one journal commit."""


class RolledLogs:
    __slots__ = ("_logs",)

    def __init__(self) -> None:
        self._logs: dict[Log, None] = {}

    def add(self, log: Log) -> None:
        self._logs[log] = None

    def discard(self, log: Log) -> None:
        self._logs.pop(log, None)

    def clear(self) -> None:
        self._logs.clear()

    async def flush(self, is_in_use: Callable[[Log], bool]) -> int:
        """Flush the logs; return their number. One that is still in use and has not failed is retried."""
        rolled, self._logs = list(self._logs), {}
        limit = asyncio.Semaphore(SYNCS_AT_ONCE)
        failures = []

        async def flush(log: Log) -> None:
            async with limit:
                try:
                    await log.flush()
                except StorageError as error:
                    failures.append(error)
                    if log.failure is None and is_in_use(log):
                        self._logs[log] = None

        await asyncio.gather(*(flush(log) for log in rolled))
        if failures:
            raise failures[0]
        return len(rolled)
