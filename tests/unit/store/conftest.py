"""An empty store in memory, and what a broker passes to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from odradek.store.embedded.database import MEMORY
from odradek.store.embedded.ensemble import EmbeddedEnsemble

T = TypeVar("T")


class SetClock:
    """Shows the time it was set to."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    async def sleep_ms(self, duration_ms: int) -> None:
        self.now_ms += duration_ms


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


async def later(work: Callable[[], None]) -> None:
    """Let others run before and after a commit, as a thread would."""
    await asyncio.sleep(0)
    work()
    await asyncio.sleep(0)


@pytest.fixture(params=[None, later], ids=["inline", "later"])
def play(request, clock: SetClock) -> Callable[[Callable[[EmbeddedEnsemble], Awaitable[T]]], T]:
    """Run a coroutine function on a fresh store; once with commits within the call, once with real races."""

    def run(body: Callable[[EmbeddedEnsemble], Awaitable[T]]) -> T:
        async def main() -> T:
            ensemble = EmbeddedEnsemble(MEMORY, clock, offload=request.param)
            try:
                return await body(ensemble)
            finally:
                await ensemble.close()

        return asyncio.run(main())

    return run
