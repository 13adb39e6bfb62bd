"""The real clock."""

import asyncio
import time


class SystemClock:
    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    monotonic_ns = staticmethod(time.monotonic_ns)

    async def sleep_ms(self, duration_ms: int) -> None:
        await asyncio.sleep(duration_ms / 1000)


def block_thread(duration_s: float) -> None:
    """Block the calling thread; for code that runs without an event loop."""
    time.sleep(duration_s)
