"""Controller election, the controller epoch, and the fencing of former controllers.

Invariant: the creation of ``/controller`` and the increment of ``/controller_epoch`` are one write, so each
controller has its own epoch; every later write of a controller checks that ``/controller_epoch`` still has
the version of its election. A controller that was replaced fails that check.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import (
    ControllerRegistration,
    decode_controller,
    decode_number,
    encode_controller,
    encode_number,
)
from odradek.store.port import (
    BadPayload,
    BadVersion,
    CheckOp,
    CreateOp,
    DeleteOp,
    Node,
    NodeExists,
    NoNode,
    Op,
    OpResult,
    SetDataOp,
    Stat,
    Store,
    StoreError,
)

_INITIAL_EPOCH: Final = 0


class ControllerMoved(StoreError):
    what = "another broker is the controller"


@dataclass(frozen=True, slots=True)
class Fence:
    """Result of a won election: the controller epoch, and the version of its znode."""

    controller_epoch: int
    epoch_version: int

    def check(self) -> CheckOp:
        return CheckOp(znode_paths.CONTROLLER_EPOCH, self.epoch_version)


async def elect(store: Store, broker_id: int, now_ms: int) -> Fence | None:
    """Try to become the controller; return None if another broker is.

    May be called again after ``Unavailable``: an election that this session has won is recognised. A node of
    this session that names another broker was overwritten to force an election: it is deleted.
    """
    controller = await _read_controller_node(store)
    if controller is not None:
        data, stat = controller
        if stat.ephemeral_owner != store.session_id:
            return None
        if _is_controller(data, broker_id):
            return await _fence_if_elected(store, stat)
        with suppress(NoNode):
            await store.delete(znode_paths.CONTROLLER, stat.version)
    epoch, version = await _read_or_create_epoch(store)
    registration = encode_controller(ControllerRegistration(broker_id, now_ms))
    try:
        results = await store.multi(
            [
                CreateOp(znode_paths.CONTROLLER, registration, ephemeral=True),
                SetDataOp(znode_paths.CONTROLLER_EPOCH, encode_number(epoch + 1), version),
            ]
        )
    except (NodeExists, BadVersion):
        return None
    epoch_stat = results[1]
    assert isinstance(epoch_stat, Stat)
    return Fence(epoch + 1, epoch_stat.version)


async def resign(store: Store, fence: Fence) -> None:
    """Delete ``/controller`` so that another broker can be elected. Does nothing if one already was."""
    try:
        await store.multi([fence.check(), DeleteOp(znode_paths.CONTROLLER)])
    except (BadVersion, NoNode):
        return


async def is_elected(store: Store, broker_id: int) -> bool:
    """Return whether ``/controller`` belongs to this session and names this broker."""
    controller = await _read_controller_node(store)
    if controller is None:
        return False
    data, stat = controller
    return stat.ephemeral_owner == store.session_id and _is_controller(data, broker_id)


async def read_controller(store: Store) -> ControllerRegistration | None:
    try:
        data, _ = await store.get(znode_paths.CONTROLLER)
    except NoNode:
        return None
    return decode_controller(znode_paths.CONTROLLER, data)


async def read_controller_epoch(store: Store) -> tuple[int, int] | None:
    """Return the controller epoch and its znode version; None before the first election."""
    try:
        data, stat = await store.get(znode_paths.CONTROLLER_EPOCH)
    except NoNode:
        return None
    return decode_number(znode_paths.CONTROLLER_EPOCH, data), stat.version


async def fenced_multi(store: Store, fence: Fence | None, ops: Sequence[Op]) -> list[OpResult]:
    """Run a multi that also checks the controller epoch; without a fence, a plain one.

    Raises ``ControllerMoved`` if the check fails; other errors have the operation's index in ``ops``.
    """
    if fence is None:
        return await store.multi(ops)
    try:
        return (await store.multi([fence.check(), *ops]))[1:]
    except StoreError as error:
        if error.op_index is None:
            raise
        if error.op_index == 0:
            raise ControllerMoved(
                znode_paths.CONTROLLER_EPOCH, f"controller epoch {fence.controller_epoch} is fenced"
            ) from error
        raise type(error)(error.path, error.detail, error.op_index - 1) from error


async def _read_controller_node(store: Store) -> Node | None:
    try:
        return await store.get(znode_paths.CONTROLLER)
    except NoNode:
        return None


def _is_controller(data: bytes, broker_id: int) -> bool:
    try:
        return decode_controller(znode_paths.CONTROLLER, data).broker_id == broker_id
    except BadPayload:
        return False


async def _fence_if_elected(store: Store, controller_stat: Stat) -> Fence | None:
    """Return the fence of ``/controller``, which this session created.

    The epoch changes only together with the creation of that node: while the node stays, the epoch is its
    own.
    """
    epoch = await read_controller_epoch(store)
    stat_now = await store.exists(znode_paths.CONTROLLER)
    if epoch is None or stat_now is None or stat_now.czxid != controller_stat.czxid:
        return None
    return Fence(*epoch)


async def _read_or_create_epoch(store: Store) -> tuple[int, int]:
    epoch_and_version = await read_controller_epoch(store)
    if epoch_and_version is not None:
        return epoch_and_version
    with suppress(NodeExists):  # another candidate may have created it
        await store.create(znode_paths.CONTROLLER_EPOCH, encode_number(_INITIAL_EPOCH))
    epoch_and_version = await read_controller_epoch(store)
    if epoch_and_version is None:
        raise StoreError(znode_paths.CONTROLLER_EPOCH, "was deleted during an election")
    return epoch_and_version
