"""Drives a timing wheel from the event loop: one pending alarm, set for the earliest deadline."""

from __future__ import annotations

import asyncio

from odradek.ports.clock import Clock
from odradek.timers.timing_wheel import TimingWheel


class TimerDriver:
    """Keeps ``wheel`` turning. Whoever adds a timer calls ``arm`` with its deadline."""

    __slots__ = ("_alarm", "_armed_ms", "_clock", "_loop", "wheel")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._alarm: asyncio.TimerHandle | None = None
        self._armed_ms = 0
        self.wheel = TimingWheel(clock.monotonic_ms())

    def arm(self, deadline_ms: int) -> None:
        """See to it that the wheel is turned no later than this."""
        if self._alarm is not None:
            if self._armed_ms <= deadline_ms:
                return
            self._alarm.cancel()
        self._armed_ms = deadline_ms
        delay_ms = max(deadline_ms - self._clock.monotonic_ms(), 0)
        self._alarm = self._loop.call_later(delay_ms / 1000, self._ring)

    def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _ring(self) -> None:
        self._alarm = None
        try:
            self.wheel.advance(self._clock.monotonic_ms())
        finally:
            due_ms = self.wheel.next_deadline_ms()
            if due_ms is not None:
                self.arm(due_ms)
