"""Worker threads, started when first needed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

THREADS_DEFAULT = 2


class ThreadWorkers:
    def __init__(self, threads_max: int = THREADS_DEFAULT) -> None:
        self._threads_max = threads_max
        self._pool: ThreadPoolExecutor | None = None
        self._alone: ThreadPoolExecutor | None = None

    def run(self, work: Callable[[], T]) -> Awaitable[T]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads_max, thread_name_prefix="odradek-work")
        return asyncio.get_running_loop().run_in_executor(self._pool, work)

    def run_alone(self, work: Callable[[], T]) -> Awaitable[T]:
        if self._alone is None:
            self._alone = ThreadPoolExecutor(1, thread_name_prefix="odradek-large-work")
        return asyncio.get_running_loop().run_in_executor(self._alone, work)

    def close(self) -> None:
        """Wait for the threads and stop them."""
        for pool in (self._pool, self._alone):
            if pool is not None:
                pool.shutdown(wait=True)
        self._pool = self._alone = None
