"""Periodic tasks of a broker: named, one asyncio task each, stopped together."""

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


class ScheduledTask(NamedTuple):
    """Runs first after ``delay_ms``, or after one interval if that is None."""

    name: str
    interval_ms: int
    run: Callable[[], Awaitable[object]]
    delay_ms: int | None = None


class TaskScheduler:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # With a full disk some fail every second.
        self._failures = RateLimitedEvents(log, clock.monotonic_ms)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, tasks: Iterable[ScheduledTask]) -> None:
        loop = asyncio.get_running_loop()
        self._tasks += [loop.create_task(self._repeat(task)) for task in tasks]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def _repeat(self, task: ScheduledTask) -> None:
        wait_ms = task.interval_ms if task.delay_ms is None else task.delay_ms
        while True:
            await self._clock.sleep_ms(wait_ms)
            wait_ms = task.interval_ms
            try:
                await task.run()
            except (OSError, StorageError, StoreError) as error:
                self._failures.error("scheduled_task_failed", task.name, task=task.name, reason=str(error))
            except Exception as error:  # noqa: BLE001 - the edge of a task
                log.failure("scheduled_task_crashed", error, task=task.name)
