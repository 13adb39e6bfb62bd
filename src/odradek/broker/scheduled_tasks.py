"""What a broker does every now and then: named work at intervals, one task each, all ended together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from odradek.model.errors import StorageError
from odradek.ports.clock import Clock
from odradek.store.port import StoreError
from odradek.telemetry import events
from odradek.telemetry.rate_limited_events import RateLimitedEvents

log = events.logger("scheduled_tasks")


class Chore(NamedTuple):
    """Done first after ``delay_ms``, or else after one interval."""

    name: str
    interval_ms: int
    work: Callable[[], Awaitable[object]]
    delay_ms: int | None = None


class Chores:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # A disk that is full lets some fail every second.
        self._failures = RateLimitedEvents(log, clock.monotonic_ms)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, chores: Iterable[Chore]) -> None:
        loop = asyncio.get_running_loop()
        self._tasks += [loop.create_task(self._repeat(chore)) for chore in chores]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def _repeat(self, chore: Chore) -> None:
        wait_ms = chore.interval_ms if chore.delay_ms is None else chore.delay_ms
        while True:
            await self._clock.sleep_ms(wait_ms)
            wait_ms = chore.interval_ms
            try:
                await chore.work()
            except (OSError, StorageError, StoreError) as failed:
                self._failures.error(
                    "scheduled_task_failed", chore.name, chore=chore.name, reason=str(failed)
                )
            except Exception as broken:  # noqa: BLE001 - the edge of a task
                log.failure("scheduled_task_crashed", broken, chore=chore.name)
