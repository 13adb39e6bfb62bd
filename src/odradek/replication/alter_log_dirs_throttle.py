"""How fast logs are moved between directories: the bounds, and the waiting that keeps them.

One pace holds for all moves of a broker. Bytes are paid for after they were copied: whoever copied more than
the rate allows waits until it has been made up for, and so does whoever comes next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from odradek.ports.clock import Clock

PIECE_BYTES_MAX: Final = 1024 * 1024
"""Copied at once. Checking and writing a piece takes the event loop about a millisecond."""

RETRY_MS_MIN: Final = 10
"""Less would be as good as no wait at all."""

LOOK_MS: Final = 500
"""Whoever waits looks this often whether the rate was changed."""

UNBOUNDED: Final = 2**63 - 1


class AlterLogDirsLimits(NamedTuple):
    """As the settings have them now."""

    piece_bytes_max: int = PIECE_BYTES_MAX
    bytes_per_second_max: int = UNBOUNDED
    moves_max: int | None = None
    """Logs that are copied at the same time; as many as there are directories if None."""
    retry_ms: int = 1_000
    """Between attempts, where there is no room."""


class AlterLogDirsThrottle:
    """``rate`` is asked while waiting, so that a changed one holds at once."""

    def __init__(self, clock: Clock, rate: Callable[[], int]) -> None:
        self._clock = clock
        self._rate = rate
        self._owed_bytes = 0.0
        self._paid_ms = clock.monotonic_ms()

    async def keep(self, copied_bytes: int) -> None:
        """Return once this much more may have been copied."""
        self._pay()
        self._owed_bytes += copied_bytes
        while (wait_ms := self._owed_bytes * 1000 / max(self._rate(), 1)) >= 1:
            await self._clock.sleep_ms(min(round(wait_ms), LOOK_MS))
            self._pay()

    def _pay(self) -> None:
        now_ms = self._clock.monotonic_ms()
        self._owed_bytes = left_to_pay(self._owed_bytes, now_ms - self._paid_ms, self._rate())
        self._paid_ms = now_ms


def left_to_pay(owed_bytes: float, elapsed_ms: int, bytes_per_second: int) -> float:
    """What is owed after a while. Time in which nothing was owed earns nothing."""
    return max(owed_bytes - elapsed_ms * bytes_per_second / 1000, 0.0)
