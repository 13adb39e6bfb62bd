"""Advances a timing wheel from the event loop, with one pending call for the earliest deadline."""

from __future__ import annotations

import asyncio

from odradek.ports.clock import Clock
from odradek.timers.timing_wheel import TimingWheel


class TimerDriver:
    """Advances ``wheel``. Callers that add a timer call ``arm`` with its deadline."""

    __slots__ = ("_clock", "_deadline_ms", "_handle", "_loop", "wheel")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._deadline_ms = 0
        self.wheel = TimingWheel(clock.monotonic_ms())

    def arm(self, deadline_ms: int) -> None:
        """Ensure that the wheel is advanced no later than ``deadline_ms``."""
        if self._handle is not None:
            if self._deadline_ms <= deadline_ms:
                return
            self._handle.cancel()
        self._deadline_ms = deadline_ms
        delay_ms = max(deadline_ms - self._clock.monotonic_ms(), 0)
        self._handle = self._loop.call_later(delay_ms / 1000, self._advance)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _advance(self) -> None:
        self._handle = None
        try:
            self.wheel.advance(self._clock.monotonic_ms())
        finally:
            next_ms = self.wheel.next_deadline_ms()
            if next_ms is not None:
                self.arm(next_ms)
