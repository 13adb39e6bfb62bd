"""Workers without threads: work runs in the awaiting task, so that simulations are deterministic."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


class InlineWorkers:
    """``ran`` and ``ran_alone`` count the calls."""

    def __init__(self) -> None:
        self.ran = 0
        self.ran_alone = 0

    def run(self, work: Callable[[], T]) -> Awaitable[T]:
        self.ran += 1
        return _do(work)

    def run_alone(self, work: Callable[[], T]) -> Awaitable[T]:
        self.ran_alone += 1
        return _do(work)


async def _do(work: Callable[[], T]) -> T:
    return work()
