"""Limits of log moves between directories, and the throttle that enforces their rate.

One rate holds for all moves of a broker. Bytes are charged after they were copied: a move that copied more
than the rate allows waits until the debt is paid off, and so does the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from odradek.ports.clock import Clock

CHUNK_BYTES_MAX: Final = 1024 * 1024
"""Bytes copied at once. Checking and writing a chunk takes the event loop about a millisecond."""

RETRY_MS_MIN: Final = 10
"""A shorter wait would be a busy loop."""

RATE_CHECK_MS: Final = 500
"""Interval at which a waiting move checks whether the rate has changed."""

UNBOUNDED: Final = 2**63 - 1


class AlterLogDirsLimits(NamedTuple):
    """Limits as currently configured."""

    chunk_bytes_max: int = CHUNK_BYTES_MAX
    bytes_per_second_max: int = UNBOUNDED
    moves_max: int | None = None
    """Logs copied at the same time; None for the number of log directories."""
    retry_ms: int = 1_000
    """Time between attempts while a disk is full."""


class AlterLogDirsThrottle:
    """``rate`` is read while waiting, so that a change takes effect at once."""

    def __init__(self, clock: Clock, rate: Callable[[], int]) -> None:
        self._clock = clock
        self._rate = rate
        self._debt_bytes = 0.0
        self._updated_ms = clock.monotonic_ms()

    async def throttle(self, copied_bytes: int) -> None:
        """Charge copied bytes, and return once the rate allows more."""
        self._update()
        self._debt_bytes += copied_bytes
        while (wait_ms := self._debt_bytes * 1000 / max(self._rate(), 1)) >= 1:
            await self._clock.sleep_ms(min(round(wait_ms), RATE_CHECK_MS))
            self._update()

    def _update(self) -> None:
        now_ms = self._clock.monotonic_ms()
        self._debt_bytes = remaining_debt(self._debt_bytes, now_ms - self._updated_ms, self._rate())
        self._updated_ms = now_ms


def remaining_debt(debt_bytes: float, elapsed_ms: int, bytes_per_second: int) -> float:
    """Return the debt after a while. Time without debt earns no credit."""
    return max(debt_bytes - elapsed_ms * bytes_per_second / 1000, 0.0)
