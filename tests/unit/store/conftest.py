"""An empty embedded store in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from odradek.store.embedded.database import MEMORY
from odradek.store.embedded.ensemble import EmbeddedEnsemble

T = TypeVar("T")


class ManualClock:
    """A clock set by the test."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000

    async def sleep_ms(self, duration_ms: int) -> None:
        self.now_ms += duration_ms


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def yielding_offload(work: Callable[[], None]) -> None:
    """Yield to other tasks before and after a commit, as a thread would."""
    await asyncio.sleep(0)
    work()
    await asyncio.sleep(0)


@pytest.fixture(params=[None, yielding_offload], ids=["inline", "later"])
def run_on_store(request, clock: ManualClock) -> Callable[[Callable[[EmbeddedEnsemble], Awaitable[T]]], T]:
    """Run a scenario on a new store, once with inline commits and once with interleaving."""

    def run(scenario: Callable[[EmbeddedEnsemble], Awaitable[T]]) -> T:
        async def main() -> T:
            ensemble = EmbeddedEnsemble(MEMORY, clock, offload=request.param)
            try:
                return await scenario(ensemble)
            finally:
                await ensemble.close()

        return asyncio.run(main())

    return run
