"""Controller election, epochs and fences."""

from __future__ import annotations

import asyncio

import pytest

from odradek.store import znode_paths
from odradek.store.controller_election import (
    ControllerMoved,
    Fence,
    elect,
    fenced,
    read_controller,
    read_epoch,
    resign,
    watch_controller,
)
from odradek.store.embedded.ensemble import EmbeddedEnsemble
from odradek.store.port import Create, NodeExists, SessionExpired, WatchedEvent, WatchedEventType
from odradek.store.znodes import ControllerRegistration


def test_first_controller_has_epoch_one(play) -> None:
    async def body(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        assert await read_epoch(store) is None
        assert await read_controller(store) is None
        assert await elect(store, 3, 17) == Fence(1, 1)
        assert await read_controller(store) == ControllerRegistration(3, 17)
        assert await read_epoch(store) == (1, 1)

    play(body)


def test_one_of_many_candidates_is_elected(play) -> None:
    async def body(ensemble: EmbeddedEnsemble) -> None:
        stores = [ensemble.connect() for _ in range(4)]
        fences = await asyncio.gather(*(elect(store, n, 1) for n, store in enumerate(stores)))
        won = [n for n, fence in enumerate(fences) if fence is not None]
        assert len(won) == 1
        assert await read_controller(stores[0]) == ControllerRegistration(won[0], 1)
        assert await read_epoch(stores[0]) == (1, 1)

    play(body)


def test_repeated_election_by_the_controller_returns_its_fence(play) -> None:
    async def body(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        assert await elect(store, 1, 1) == await elect(store, 1, 2) == Fence(1, 1)

    play(body)


def test_next_controller_has_next_epoch_and_fences_the_former(play) -> None:
    async def body(ensemble: EmbeddedEnsemble) -> None:
        one, two = ensemble.connect(), ensemble.connect()
        old = await elect(one, 1, 1)
        assert old is not None
        await fenced(one, old, [Create("/written")])
        await one.delete(znode_paths.CONTROLLER)
        new = await elect(two, 2, 2)
        assert new == Fence(2, 2)
        with pytest.raises(ControllerMoved, match="epoch 1 is over"):
            await fenced(one, old, [Create("/late")])
        assert await one.exists("/late") is None
        await fenced(two, new, [Create("/late")])
        await resign(one, old)
        assert await read_controller(one) == ControllerRegistration(2, 2)

    play(body)


def test_fenced_write_error_has_the_index_of_its_operation(play) -> None:
    async def body(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        fence = await elect(store, 1, 1)
        with pytest.raises(NodeExists) as caught:
            await fenced(store, fence, [Create("/a"), Create("/a")])
        assert caught.value.op_index == 1

    play(body)


def test_resignation_deletes_controller_node_and_fires_watches(play) -> None:
    async def body(ensemble: EmbeddedEnsemble) -> None:
        one, two = ensemble.connect(), ensemble.connect()
        told: list[WatchedEvent] = []
        fence = await elect(one, 1, 1)
        assert fence is not None
        assert await watch_controller(two, told.append) == ControllerRegistration(1, 1)
        await resign(one, fence)
        await asyncio.sleep(0)
        assert told == [WatchedEvent(WatchedEventType.DELETED, znode_paths.CONTROLLER)]
        assert await elect(two, 2, 2) == Fence(2, 2)

    play(body)


def test_expired_controller_can_be_replaced(play) -> None:
    async def body(ensemble: EmbeddedEnsemble) -> None:
        one, two = ensemble.connect(), ensemble.connect()
        await elect(one, 1, 1)
        assert await elect(two, 2, 2) is None
        await ensemble.expire(one.session_id)
        assert await elect(two, 2, 2) == Fence(2, 2)

    play(body)


def test_fenced_write_of_expired_session_raises_session_expired(play) -> None:
    async def body(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        fence = await elect(store, 1, 1)
        await ensemble.expire(store.session_id)
        with pytest.raises(SessionExpired):
            await fenced(store, fence, [Create("/a")])

    play(body)
