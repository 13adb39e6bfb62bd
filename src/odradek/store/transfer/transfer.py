"""A cluster's state carried over between an embedded store and ZooKeeper.

Adoption: mark the embedded store, mark ZooKeeper, copy all nodes, then delete ZooKeeper's mark and create the
cluster id in one write. That write is the point of no return. Whatever ends an adoption before it, and
whenever, the next attempt finds the marks and goes on: every node is compared and written only if it differs.

Release: mark ZooKeeper, check that one broker has all replicas, and copy to a new embedded store, which the
caller puts into place. The caller holds the lock of the log directories throughout, so no broker runs on
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from odradek.store.layout import znode_paths
from odradek.store.port import CheckOp, CreateOp, DeleteOp, NodeExists, Op, SetDataOp, Store
from odradek.store.transfer.stored_nodes import read_nodes, read_unknown_roots
from odradek.store.transfer.transfer_mark import TRANSFER, TransferKind, TransferMark, encode_mark, read_mark
from odradek.store.transfer.transfer_plan import (
    WINDOW_OPS_MAX,
    AdoptionDecision,
    LogDirsIdentity,
    PlannedNode,
    TransferRefused,
    copied_nodes,
    count_partitions,
    count_topics,
    decide_adoption,
    obsolete_nodes,
    plan_copy,
    plan_windows,
    release_problems,
    store_state,
    write_ops,
)

Report = Callable[[int, int], None]
"""Takes the number of nodes that are written, and of all nodes."""


class TransferResult(NamedTuple):
    """``is_complete`` says that the target has everything already, from an earlier attempt."""

    mark: TransferMark
    is_complete: bool
    nodes: int
    topics: int
    partitions: int


async def plan_adoption(
    source: Store, target: Store, identity: LogDirsIdentity, new_broker_id: int | None = None
) -> TransferResult:
    """Return the result of an adoption without writing anything; raises ``TransferRefused``."""
    decision = await _decide(source, target, identity, new_broker_id)
    return _result(decision, await _plan(source, decision.mark))


async def adopt(
    source: Store,
    target: Store,
    identity: LogDirsIdentity,
    new_broker_id: int | None = None,
    report: Report = lambda _written, _all: None,
) -> TransferResult:
    """Carry the embedded store ``source`` over to ZooKeeper; may be repeated after any failure."""
    decision = await _decide(source, target, identity, new_broker_id)
    mark = decision.mark
    planned = await _plan(source, mark)
    if decision.is_complete:
        return _result(decision, planned)
    await _mark_source(source, mark)
    await _mark_target(target, mark)
    fence = CheckOp(TRANSFER, await _mark_version(target))
    if mark.replaces:
        await _delete(target, obsolete_nodes(await read_nodes(target), planned), fence)
    await _copy(target, planned, fence, report)
    await _commit(source, target, fence)
    return _result(decision, planned)


async def cancel_adoption(source: Store, target: Store, identity: LogDirsIdentity) -> TransferMark:
    """Remove the marks and the copied nodes of an adoption that is not complete."""
    source_mark = await read_mark(source)
    state = store_state(await read_nodes(target), await read_mark(target))
    target_mark = state.mark
    if target_mark is not None and (
        target_mark.kind is not TransferKind.ADOPTION or target_mark.cluster_id != identity.cluster_id
    ):
        target_mark = None  # of another transfer
    mark = target_mark or source_mark
    if mark is None:
        raise TransferRefused("there is no adoption to cancel")
    if state.mark is None and state.cluster_id == mark.cluster_id:
        raise TransferRefused(
            "the adoption is complete in ZooKeeper and cannot be cancelled. Complete it here with `odradek "
            "cluster adopt`; to go back, `odradek cluster release`"
        )
    if target_mark is not None:
        fence = CheckOp(TRANSFER, await _mark_version(target))
        planned = await _plan(source, target_mark)
        await _delete(target, copied_nodes(await read_nodes(target), planned), fence)
        await target.delete(TRANSFER)
    if source_mark is not None:
        await source.delete(TRANSFER)
    return mark


async def plan_release(source: Store, identity: LogDirsIdentity) -> list[PlannedNode]:
    """Return the nodes of a release from ZooKeeper without writing anything; raises ``TransferRefused``."""
    nodes = await read_nodes(source)
    mark = await read_mark(source)
    if mark is not None and (mark.kind, mark.cluster_id) != (TransferKind.RELEASE, identity.cluster_id):
        raise TransferRefused(
            f"ZooKeeper is marked by the {mark.kind.value} of cluster {mark.cluster_id}; complete it, or "
            "cancel it"
        )
    if problems := release_problems(nodes, identity):
        raise TransferRefused("; ".join(problems))
    (broker_id,) = identity.broker_ids
    cluster_id = nodes[znode_paths.CLUSTER_ID]
    planned = plan_copy(nodes, broker_id, broker_id)
    return sorted([*planned, PlannedNode(znode_paths.CLUSTER_ID, cluster_id[0])])


async def release(
    source: Store,
    target: Store,
    identity: LogDirsIdentity,
    report: Report = lambda _written, _all: None,
) -> list[PlannedNode]:
    """Copy the cluster from ZooKeeper to an empty embedded store, and keep brokers off ZooKeeper."""
    await plan_release(source, identity)
    assert identity.cluster_id is not None
    (broker_id,) = identity.broker_ids
    mark = TransferMark(TransferKind.RELEASE, identity.cluster_id, broker_id, broker_id)
    is_new = await source.exists(TRANSFER) is None
    if is_new:
        await source.create(TRANSFER, encode_mark(mark))
    try:
        # Again: a broker may have started before the mark was there.
        planned = await plan_release(source, identity)
    except TransferRefused:
        if is_new:
            await source.delete(TRANSFER)
        raise
    await _copy(target, planned, None, report)
    return planned


async def _decide(
    source: Store, target: Store, identity: LogDirsIdentity, new_broker_id: int | None
) -> AdoptionDecision:
    source_state = store_state(
        await read_nodes(source), await read_mark(source), await read_unknown_roots(source)
    )
    target_state = store_state(await read_nodes(target), await read_mark(target))
    return decide_adoption(identity, source_state, target_state, new_broker_id)


async def _plan(source: Store, mark: TransferMark) -> list[PlannedNode]:
    return plan_copy(await read_nodes(source), mark.broker_id, mark.new_broker_id)


async def _mark_source(source: Store, mark: TransferMark) -> None:
    if await source.exists(TRANSFER) is None:
        # An attempt with another ZooKeeper may replace nothing.
        await source.create(TRANSFER, encode_mark(replace(mark, replaces=False)))


async def _mark_target(target: Store, mark: TransferMark) -> None:
    """Mark ZooKeeper. The state from before a release loses its cluster id in the same write."""
    current = await read_mark(target)
    if current == mark:
        return
    if current is None:
        try:
            await target.create(TRANSFER, encode_mark(mark))
        except NodeExists:
            raise TransferRefused("another adoption has begun in ZooKeeper meanwhile") from None
        return
    ops: list[Op] = [SetDataOp(TRANSFER, encode_mark(mark), await _mark_version(target))]
    if await target.exists(znode_paths.CLUSTER_ID) is not None:
        ops.append(DeleteOp(znode_paths.CLUSTER_ID))
    await target.multi(ops)


async def _mark_version(target: Store) -> int:
    return (await target.get(TRANSFER))[1].version


async def _copy(target: Store, planned: Sequence[PlannedNode], fence: CheckOp | None, report: Report) -> None:
    written = 0
    for window in plan_windows(planned):
        existing = await target.get_many([node.path for node in window])
        if ops := write_ops(window, existing):
            await target.multi(ops if fence is None else [fence, *ops])
        written += len(window)
        report(written, len(planned))


async def _delete(target: Store, deletions: Sequence[DeleteOp], fence: CheckOp) -> None:
    for start in range(0, len(deletions), WINDOW_OPS_MAX):
        await target.multi([fence, *deletions[start : start + WINDOW_OPS_MAX]])


async def _commit(source: Store, target: Store, fence: CheckOp) -> None:
    data, _ = await source.get(znode_paths.CLUSTER_ID)
    try:
        await target.multi([DeleteOp(TRANSFER, fence.version), CreateOp(znode_paths.CLUSTER_ID, data)])
    except NodeExists:
        raise TransferRefused(
            "a broker has created another cluster in ZooKeeper meanwhile. Stop it, cancel this adoption with "
            "`odradek cluster adopt --cancel`, and use another path in zookeeper.connect"
        ) from None


def _result(decision: AdoptionDecision, planned: Sequence[PlannedNode]) -> TransferResult:
    topics, partitions = count_topics(planned), count_partitions(planned)
    return TransferResult(decision.mark, decision.is_complete, len(planned), topics, partitions)
