"""Controller election, epochs and fencing."""

from __future__ import annotations

import asyncio

import pytest

from odradek.store.controller_election import (
    ControllerMoved,
    Fence,
    elect,
    fenced_multi,
    is_elected,
    read_controller,
    read_controller_epoch,
    resign,
)
from odradek.store.embedded.ensemble import EmbeddedEnsemble
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import ControllerRegistration, encode_controller
from odradek.store.port import CreateOp, NodeExists, SessionExpired, WatchedEvent, WatchedEventType


def test_first_controller_has_epoch_one(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        assert await read_controller_epoch(store) is None
        assert await read_controller(store) is None
        assert await elect(store, 3, 17) == Fence(1, 1)
        assert await read_controller(store) == ControllerRegistration(3, 17)
        assert await read_controller_epoch(store) == (1, 1)

    run_on_store(scenario)


def test_one_of_many_candidates_is_elected(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        stores = [ensemble.connect() for _ in range(4)]
        fences = await asyncio.gather(*(elect(store, n, 1) for n, store in enumerate(stores)))
        won = [n for n, fence in enumerate(fences) if fence is not None]
        assert len(won) == 1
        assert await read_controller(stores[0]) == ControllerRegistration(won[0], 1)
        assert await read_controller_epoch(stores[0]) == (1, 1)

    run_on_store(scenario)


def test_repeated_election_by_the_controller_returns_its_fence(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        assert await elect(store, 1, 1) == await elect(store, 1, 2) == Fence(1, 1)

    run_on_store(scenario)


def test_next_controller_has_next_epoch_and_fences_the_former(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        first, second = ensemble.connect(), ensemble.connect()
        old = await elect(first, 1, 1)
        assert old is not None
        await fenced_multi(first, old, [CreateOp("/written")])
        await first.delete(znode_paths.CONTROLLER)
        new = await elect(second, 2, 2)
        assert new == Fence(2, 2)
        with pytest.raises(ControllerMoved, match="epoch 1 is fenced"):
            await fenced_multi(first, old, [CreateOp("/late")])
        assert await first.exists("/late") is None
        await fenced_multi(second, new, [CreateOp("/late")])
        await resign(first, old)
        assert await read_controller(first) == ControllerRegistration(2, 2)

    run_on_store(scenario)


def test_fenced_write_error_has_the_index_of_its_operation(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        fence = await elect(store, 1, 1)
        with pytest.raises(NodeExists) as caught:
            await fenced_multi(store, fence, [CreateOp("/a"), CreateOp("/a")])
        assert caught.value.op_index == 1

    run_on_store(scenario)


def test_resignation_deletes_controller_node_and_fires_watches(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        first, second = ensemble.connect(), ensemble.connect()
        events: list[WatchedEvent] = []
        fence = await elect(first, 1, 1)
        assert fence is not None
        assert await second.watch_exists(znode_paths.CONTROLLER, events.append) is not None
        await resign(first, fence)
        await asyncio.sleep(0)
        assert events == [WatchedEvent(WatchedEventType.DELETED, znode_paths.CONTROLLER)]
        assert await elect(second, 2, 2) == Fence(2, 2)

    run_on_store(scenario)


@pytest.mark.parametrize("data", [encode_controller(ControllerRegistration(99, 1)), b"no json", b""])
def test_overwritten_controller_node_is_replaced_under_a_new_epoch(run_on_store, data: bytes) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        first, second = ensemble.connect(), ensemble.connect()
        assert await elect(first, 1, 1) == Fence(1, 1)
        assert await is_elected(first, 1)
        assert not await is_elected(second, 1)
        await second.set(znode_paths.CONTROLLER, data)
        assert not await is_elected(first, 1)
        # Only the session of the node may judge it.
        assert await elect(second, 2, 2) is None
        assert await elect(first, 1, 2) == Fence(2, 2)
        assert await read_controller(second) == ControllerRegistration(1, 2)

    run_on_store(scenario)


def test_expired_controller_can_be_replaced(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        first, second = ensemble.connect(), ensemble.connect()
        await elect(first, 1, 1)
        assert await elect(second, 2, 2) is None
        await ensemble.expire(first.session_id)
        assert await elect(second, 2, 2) == Fence(2, 2)

    run_on_store(scenario)


def test_fenced_write_of_expired_session_raises_session_expired(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        fence = await elect(store, 1, 1)
        await ensemble.expire(store.session_id)
        with pytest.raises(SessionExpired):
            await fenced_multi(store, fence, [CreateOp("/a")])

    run_on_store(scenario)
