"""Many multis in a bounded window."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from odradek.store.embedded.ensemble import EmbeddedEnsemble
from odradek.store.port import (
    BadVersion,
    CreateOp,
    NodeExists,
    Op,
    OpResult,
    SessionExpired,
    SetDataOp,
    Stat,
    Store,
    Unavailable,
)
from odradek.store.write_window import multi_each


class CountingStore:
    """Multis that take a loop iteration each; ``fails_at`` makes one unavailable."""

    def __init__(self, fails_at: int = -1) -> None:
        self.calls: list[str] = []
        self.in_flight = 0
        self.in_flight_max = 0
        self._fails_at = fails_at

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        number = len(self.calls)
        self.calls.append(ops[0].path)
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        await asyncio.sleep(0)
        self.in_flight -= 1
        if number == self._fails_at:
            raise Unavailable(ops[0].path, "away")
        return [ops[0].path]


def creations(count: int) -> list[list[Op]]:
    return [[CreateOp(f"/{number}")] for number in range(count)]


def run(store: CountingStore, count: int, in_flight_max: int) -> list[object]:
    return list(asyncio.run(multi_each(cast(Store, store), creations(count), None, in_flight_max)))


def test_window_is_full_and_bounded() -> None:
    store = CountingStore()
    assert run(store, 100, 7) == [[f"/{number}"] for number in range(100)]
    assert store.calls == [f"/{number}" for number in range(100)]
    assert (store.in_flight_max, store.in_flight) == (7, 0)
    assert run(CountingStore(), 0, 7) == []


def test_writes_are_not_begun_once_the_store_is_away() -> None:
    store = CountingStore(fails_at=10)
    outcomes = run(store, 100, 5)
    assert len(store.calls) < 20
    assert outcomes[:10] == [[f"/{number}"] for number in range(10)]
    assert [type(outcome) for outcome in outcomes[len(store.calls) :]] == [Unavailable] * (
        100 - len(store.calls)
    )
    assert str(outcomes[99]) == "store is unavailable: /99: away"


def test_each_write_has_its_own_outcome(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await store.create("/1")
        writes: list[list[Op]] = [*creations(3), [SetDataOp("/1", b"x", 9)], [SetDataOp("/1", b"x", 0)]]
        outcomes = await multi_each(store, writes)
        assert [type(outcome) for outcome in outcomes] == [list, NodeExists, list, BadVersion, list]
        stat = cast(list[OpResult], outcomes[4])[0]
        assert isinstance(stat, Stat)
        assert stat.version == 1
        await store.close()
        assert {type(outcome) for outcome in await multi_each(store, writes)} == {SessionExpired}

    run_on_store(scenario)
