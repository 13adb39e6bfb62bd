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


def test_one_of_many_candidates_wins_and_the_others_see_who(play) -> None:
    async def body(ensemble: EmbeddedEnsemble) -> None:
        stores = [ensemble.connect() for _ in range(4)]
        fences = await asyncio.gather(*(elect(store, n, 1) for n, store in enumerate(stores)))
        won = [n for n, fence in enumerate(fences) if fence is not None]
        assert len(won) == 1
        assert await read_controller(stores[0]) == ControllerRegistration(won[0], 1)
        assert await read_epoch(stores[0]) == (1, 1)

    play(body)


def test_won_election_is_found_as_won_when_asked_again(play) -> None:
    async def body(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        assert await elect(store, 1, 1) == await elect(store, 1, 2) == Fence(1, 1)

    play(body)


def test_successor_has_the_next_epoch_and_the_former_controller_is_fenced(play) -> None:
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


def test_error_of_a_fenced_write_names_its_own_operation(play) -> None:
    async def body(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        fence = await elect(store, 1, 1)
        with pytest.raises(NodeExists) as caught:
            await fenced(store, fence, [Create("/a"), Create("/a")])
        assert caught.value.op_index == 1

    play(body)


def test_resigned_controller_makes_room_and_watchers_hear_of_it(play) -> None:
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


def test_expired_controller_leaves_room(play) -> None:
    async def body(ensemble: EmbeddedEnsemble) -> None:
        one, two = ensemble.connect(), ensemble.connect()
        await elect(one, 1, 1)
        assert await elect(two, 2, 2) is None
        await ensemble.expire(one.session_id)
        assert await elect(two, 2, 2) == Fence(2, 2)

    play(body)


def test_expired_session_gets_the_stores_own_error_from_a_fenced_write(play) -> None:
    async def body(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        fence = await elect(store, 1, 1)
        await ensemble.expire(store.session_id)
        with pytest.raises(SessionExpired):
            await fenced(store, fence, [Create("/a")])

    play(body)
