"""Many independent multis at once, in a bounded window.

A window is a number of tasks that share one list of writes: each takes the next write as soon as its
previous one is complete. So the store always has work, the calls keep the order of the list, and memory does
not grow with its length.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

from odradek.store.controller_election import Fence, fenced_multi
from odradek.store.port import Op, OpResult, SessionExpired, Store, StoreError, Unavailable

IN_FLIGHT_MAX: Final = 1000
"""As many writes as the embedded store commits in one transaction. ZooKeeper sessions have a smaller window
of their own (``zookeeper.max.in.flight.requests``)."""


async def multi_each(
    store: Store,
    writes: Sequence[Sequence[Op]],
    fence: Fence | None = None,
    in_flight_max: int = IN_FLIGHT_MAX,
) -> list[list[OpResult] | StoreError]:
    """Run each write as a multi; return the results or the error of each.

    When the store is away, the writes that have not begun are not tried, and get the same error.
    """
    outcomes: list[list[OpResult] | StoreError] = [[] for _ in writes]
    window = _Window(store, fence, enumerate(writes), outcomes)
    await asyncio.gather(*(window.work() for _ in range(min(in_flight_max, len(writes)))))
    return outcomes


class _Window:
    def __init__(
        self,
        store: Store,
        fence: Fence | None,
        writes: Iterator[tuple[int, Sequence[Op]]],
        outcomes: list[list[OpResult] | StoreError],
    ) -> None:
        self._store = store
        self._fence = fence
        self._writes = writes
        self._outcomes = outcomes
        self._failure: StoreError | None = None

    async def work(self) -> None:
        """Write until the list is empty."""
        for index, ops in self._writes:
            if self._failure is not None:
                self._outcomes[index] = type(self._failure)(ops[0].path, self._failure.detail)
                continue
            try:
                self._outcomes[index] = await fenced_multi(self._store, self._fence, ops)
            except StoreError as error:
                self._outcomes[index] = error
                if isinstance(error, Unavailable | SessionExpired):
                    self._failure = error
