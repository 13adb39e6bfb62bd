"""Many independent multis at once, in a bounded window.

A window is a number of tasks that share one list of writes: each takes the next write as soon as its
previous one is complete. So the store always has work, the calls keep the order of the list, and memory does
not grow with its length.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

from odradek.store.controller_election import ControllerMoved, Fence, fenced_multi
from odradek.store.port import Op, OpResult, SessionExpired, Store, StoreError, Unavailable

IN_FLIGHT_MAX: Final = 1000
"""As many writes as the embedded store commits in one transaction. ZooKeeper sessions have a smaller window
of their own (``zookeeper.max.in.flight.requests``)."""


async def multi_each(
    store: Store,
    writes: Sequence[Sequence[Op]],
    fence: Fence | None = None,
    in_flight_max: int = IN_FLIGHT_MAX,
    writes_per_multi: int = 1,
) -> list[list[OpResult] | StoreError]:
    """Run each write as a multi; return the results or the error of each.

    ``writes_per_multi`` consecutive writes share one multi. If it fails because of one of them, each is
    tried alone, so that the outcome of a write never depends on others. When the store is away, the writes
    that have not begun are not tried, and get the same error.
    """
    outcomes: list[list[OpResult] | StoreError] = [[] for _ in writes]
    indexes = range(len(writes))
    groups = [indexes[first : first + writes_per_multi] for first in indexes[::writes_per_multi]]
    window = _Window(store, fence, writes, iter(groups), outcomes)
    await asyncio.gather(*(window.work() for _ in range(min(in_flight_max, len(groups)))))
    return outcomes


class _Window:
    def __init__(
        self,
        store: Store,
        fence: Fence | None,
        writes: Sequence[Sequence[Op]],
        groups: Iterator[range],
        outcomes: list[list[OpResult] | StoreError],
    ) -> None:
        self._store = store
        self._fence = fence
        self._writes = writes
        self._groups = groups
        self._outcomes = outcomes
        self._failure: StoreError | None = None

    async def work(self) -> None:
        """Write until no group is left."""
        for group in self._groups:
            if len(group) == 1 or not await self._write_together(group):
                for index in group:
                    await self._write(index)

    async def _write_together(self, group: range) -> bool:
        """Write a group by one multi; return False if each write must be tried alone."""
        if self._failure is not None:
            return False
        try:
            results = await fenced_multi(
                self._store, self._fence, [op for index in group for op in self._writes[index]]
            )
        except (Unavailable, SessionExpired, ControllerMoved) as error:
            if not isinstance(error, ControllerMoved):
                self._failure = error
            for index in group:
                self._outcomes[index] = type(error)(self._writes[index][0].path, error.detail)
            return True
        except StoreError:
            return False
        first = 0
        for index in group:
            end = first + len(self._writes[index])
            self._outcomes[index] = results[first:end]
            first = end
        return True

    async def _write(self, index: int) -> None:
        ops = self._writes[index]
        if self._failure is not None:
            self._outcomes[index] = type(self._failure)(ops[0].path, self._failure.detail)
            return
        try:
            self._outcomes[index] = await fenced_multi(self._store, self._fence, ops)
        except StoreError as error:
            self._outcomes[index] = error
            if isinstance(error, Unavailable | SessionExpired):
                self._failure = error
