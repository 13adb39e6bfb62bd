"""Who is the controller: election, epoch, and the fence that keeps a former one from writing.

Invariant: ``/controller`` and the increment of ``/controller_epoch`` are one write, so each controller has an
epoch of its own; every later write of a controller checks that the epoch's node still has the version its
election gave it. One that was replaced fails that check whatever it believes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from odradek.store import znode_paths
from odradek.store.port import (
    BadVersion,
    Check,
    Create,
    Delete,
    NodeExists,
    NoNode,
    Op,
    OpResult,
    SetData,
    Stat,
    Store,
    StoreError,
    Watcher,
)
from odradek.store.znodes import (
    ControllerRegistration,
    decode_controller,
    decode_number,
    encode_controller,
    encode_number,
)

_INITIAL_EPOCH: Final = 0


class ControllerMoved(StoreError):
    what = "another broker is the controller now"


@dataclass(frozen=True, slots=True)
class Fence:
    """A won election: the controller's epoch, and the version its node got."""

    controller_epoch: int
    epoch_version: int

    def check(self) -> Check:
        return Check(znode_paths.CONTROLLER_EPOCH, self.epoch_version)


async def elect(store: Store, broker_id: int, now_ms: int) -> Fence | None:
    """Try to become the controller; None if another is, or was quicker.

    May be called again after ``Unavailable``: an election this session won is found as won.
    """
    held = await store.exists(znode_paths.CONTROLLER)
    if held is not None:
        return await _find_own_fence(store, held)
    epoch, version = await _read_or_create_epoch(store)
    registration = encode_controller(ControllerRegistration(broker_id, now_ms))
    try:
        results = await store.multi(
            [
                Create(znode_paths.CONTROLLER, registration, ephemeral=True),
                SetData(znode_paths.CONTROLLER_EPOCH, encode_number(epoch + 1), version),
            ]
        )
    except (NodeExists, BadVersion):
        return None
    stat = results[1]
    assert isinstance(stat, Stat)
    return Fence(epoch + 1, stat.version)


async def resign(store: Store, fence: Fence) -> None:
    """Give up the office so that another broker can be elected. Nothing happens if one already was."""
    try:
        await store.multi([fence.check(), Delete(znode_paths.CONTROLLER)])
    except (BadVersion, NoNode):
        return


async def read_controller(store: Store) -> ControllerRegistration | None:
    try:
        data, _ = await store.get(znode_paths.CONTROLLER)
    except NoNode:
        return None
    return decode_controller(znode_paths.CONTROLLER, data)


async def watch_controller(store: Store, watcher: Watcher) -> ControllerRegistration | None:
    """As ``read_controller``, and one event when the controller comes, changes or goes."""
    await store.watch_exists(znode_paths.CONTROLLER, watcher)
    return await read_controller(store)


async def read_epoch(store: Store) -> tuple[int, int] | None:
    """The controller epoch and its node's version; None before the first election."""
    try:
        data, stat = await store.get(znode_paths.CONTROLLER_EPOCH)
    except NoNode:
        return None
    return decode_number(znode_paths.CONTROLLER_EPOCH, data), stat.version


async def fenced(store: Store, fence: Fence | None, ops: Sequence[Op]) -> list[OpResult]:
    """A multi that happens only while the fence stands; without a fence, a plain one.

    ``ControllerMoved`` if it fell; other errors keep the place of the failing operation in ``ops``.
    """
    if fence is None:
        return await store.multi(ops)
    try:
        return (await store.multi([fence.check(), *ops]))[1:]
    except StoreError as refused:
        if refused.op_index is None:
            raise
        if refused.op_index == 0:
            raise ControllerMoved(
                znode_paths.CONTROLLER_EPOCH, f"epoch {fence.controller_epoch} is over"
            ) from refused
        raise type(refused)(refused.path, refused.detail, refused.op_index - 1) from refused


async def _find_own_fence(store: Store, held: Stat) -> Fence | None:
    """The fence of a controller's node, if this session made it.

    The epoch changes only together with that node's creation: while the node stays, the epoch is its own.
    """
    if held.ephemeral_owner != store.session_id:
        return None
    epoch = await read_epoch(store)
    again = await store.exists(znode_paths.CONTROLLER)
    if epoch is None or again is None or again.czxid != held.czxid:
        return None
    return Fence(*epoch)


async def _read_or_create_epoch(store: Store) -> tuple[int, int]:
    found = await read_epoch(store)
    if found is not None:
        return found
    with suppress(NodeExists):  # another broker may stand for election too
        await store.create(znode_paths.CONTROLLER_EPOCH, encode_number(_INITIAL_EPOCH))
    found = await read_epoch(store)
    if found is None:
        raise StoreError(znode_paths.CONTROLLER_EPOCH, "was deleted during an election")
    return found
