"""Many multis in a bounded window."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest

from odradek.store.controller_election import ControllerMoved, elect
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


def test_writes_share_multis() -> None:
    store = CountingStore()
    asyncio.run(multi_each(cast(Store, store), creations(250), writes_per_multi=100))
    assert store.calls == ["/0", "/100", "/200"]


@pytest.mark.parametrize("writes_per_multi", [1, 2, 3, 4, 100])
def test_outcomes_do_not_depend_on_the_multis(run_on_store, writes_per_multi: int) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await store.create("/taken")
        await store.create("/set")
        writes: list[list[Op]] = [
            [CreateOp("/a"), CreateOp("/a/b")],
            [CreateOp("/c")],
            [CreateOp("/taken")],
            [SetDataOp("/set", b"x", 0)],
            [SetDataOp("/set", b"y", 7)],
            [CreateOp("/d"), CreateOp("/d/e")],
        ]
        outcomes = await multi_each(store, writes, writes_per_multi=writes_per_multi)
        results = [len(outcome) if isinstance(outcome, list) else type(outcome) for outcome in outcomes]
        assert results == [2, 1, NodeExists, 1, BadVersion, 2]
        assert (await store.get("/set"))[1].version == 1
        assert (await store.children("/d")) == ["e"]

    run_on_store(scenario)


def test_group_is_not_tried_again_once_the_store_is_away() -> None:
    store = CountingStore(fails_at=0)
    outcomes = asyncio.run(multi_each(cast(Store, store), creations(30), None, 1, writes_per_multi=10))
    assert len(store.calls) == 1
    assert {type(outcome) for outcome in outcomes} == {Unavailable}


def test_fenced_group_is_refused_as_a_whole(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        fence = await elect(store, 1, 0)
        assert fence is not None
        stale = replace(fence, epoch_version=fence.epoch_version + 1)
        outcomes = await multi_each(store, creations(5), stale, writes_per_multi=3)
        assert {type(outcome) for outcome in outcomes} == {ControllerMoved}

    run_on_store(scenario)
