"""Decisions of a transfer between an embedded store and ZooKeeper: refused or not, and nodes to write. Pure.

Not copied: ephemeral nodes, notifications (every broker reads all state when it starts), and ``/cluster/id``,
which is written last. Numbers that must not go back are kept if the target has larger ones: the controller
epoch, the producer ids, and the versions of ``/brokers/seqid`` and ``/feature``, from which broker ids and
the epoch of the features derive.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from odradek.store.layout import znode_paths
from odradek.store.layout.node_paths import prefixes_of
from odradek.store.layout.znodes import (
    decode_cluster_id,
    decode_number,
    decode_partition_state,
    decode_producer_id_block,
    decode_topic,
)
from odradek.store.port import CreateOp, DeleteOp, Node, Op, SetDataOp
from odradek.store.transfer.renumbering import renumber
from odradek.store.transfer.transfer_mark import TRANSFER, TransferKind, TransferMark

WINDOW_OPS_MAX: Final = 500
WINDOW_BYTES_MAX: Final = 256 * 1024
"""A quarter of ZooKeeper's limit of a request, which counts more than paths and contents."""
VERSION_STEPS_MAX: Final = 5000
"""Writes to one node in order to raise its version; they are one request."""
_SHOWN_MAX: Final = 5
_STATE_DEPTH: Final = 6
_TOPIC_DEPTH: Final = 3

_NOT_COPIED: Final = frozenset({znode_paths.CLUSTER_ID, znode_paths.CONTROLLER})
_EMPTIED: Final = (
    znode_paths.BROKER_IDS,
    znode_paths.CONFIG_CHANGES,
    znode_paths.ISR_CHANGE_NOTIFICATION,
    znode_paths.LOG_DIR_EVENT_NOTIFICATION,
    znode_paths.ACL_CHANGES,
    znode_paths.ACL_EXTENDED_CHANGES,
    znode_paths.DELEGATION_TOKEN_CHANGES,
)
"""Nodes that are copied without their children."""
_VERSIONED: Final = frozenset({znode_paths.BROKER_SEQUENCE_ID, znode_paths.FEATURE})


class TransferRefused(Exception):
    """Raised when a transfer would lose or mix data; the message says what to do."""


class LogDirsIdentity(NamedTuple):
    """Ids in the ``meta.properties`` of all log directories; two broker ids while one is being replaced."""

    cluster_id: str | None
    broker_ids: frozenset[int]


class StoreState(NamedTuple):
    """State of a store that decides whether a transfer is possible."""

    cluster_id: str | None = None
    mark: TransferMark | None = None
    registered: tuple[int, ...] = ()
    topics: tuple[str, ...] = ()
    unknown_roots: tuple[str, ...] = ()


class AdoptionDecision(NamedTuple):
    """The mark of an adoption. ``is_complete`` says that ZooKeeper has everything already."""

    mark: TransferMark
    is_complete: bool


class PlannedNode(NamedTuple):
    """A node to write; its version must be at least ``version_min``."""

    path: str
    data: bytes
    version_min: int = 0


def store_state(
    nodes: Mapping[str, Node], mark: TransferMark | None, unknown_roots: Collection[str] = ()
) -> StoreState:
    """Return the state of a store with these nodes."""
    cluster = nodes.get(znode_paths.CLUSTER_ID)
    return StoreState(
        None if cluster is None else decode_cluster_id(znode_paths.CLUSTER_ID, cluster[0]),
        mark,
        tuple(sorted(int(name) for name in _names_under(nodes, znode_paths.BROKER_IDS) if name.isdecimal())),
        tuple(sorted(_names_under(nodes, znode_paths.TOPICS))),
        tuple(path for path in unknown_roots if path != TRANSFER),
    )


def decide_adoption(
    identity: LogDirsIdentity, source: StoreState, target: StoreState, new_broker_id: int | None = None
) -> AdoptionDecision:
    """Return the mark of the adoption of an embedded store by ZooKeeper; raises ``TransferRefused``."""
    _check_source(identity, source)
    mark = _adoption_mark(identity, source, new_broker_id)
    if source.mark is not None and target.mark is None and target.cluster_id == source.cluster_id:
        return AdoptionDecision(mark, is_complete=True)
    if target.registered:
        raise TransferRefused(
            f"brokers are registered in ZooKeeper: {_listed(target.registered)}. Stop them, or use another "
            "path in zookeeper.connect"
        )
    if target.mark is None:
        _check_empty(source, target)
        return AdoptionDecision(mark, is_complete=False)
    if target.mark.cluster_id != source.cluster_id:
        raise TransferRefused(
            f"ZooKeeper is marked by the {target.mark.kind.value} of cluster {target.mark.cluster_id}, this "
            f"is cluster {source.cluster_id}. Use another path in zookeeper.connect"
        )
    if target.mark.kind is TransferKind.RELEASE:
        return AdoptionDecision(replace(mark, replaces=True), is_complete=False)
    if source.mark is None or replace(target.mark, replaces=False) != mark:
        raise TransferRefused(
            "ZooKeeper is marked by another attempt to adopt this cluster, from another copy of the store or "
            "with another broker id. Cancel it with `odradek cluster adopt --cancel`, and adopt again"
        )
    return AdoptionDecision(target.mark, is_complete=False)


def _check_source(identity: LogDirsIdentity, source: StoreState) -> None:
    if source.cluster_id is None:
        raise TransferRefused(
            "the embedded store has no cluster id: its broker has never been started, so there is nothing to "
            "adopt. Start it with zookeeper.connect and empty log.dirs"
        )
    if identity.cluster_id != source.cluster_id:
        raise TransferRefused(
            f"log.dirs must belong to the cluster of the embedded store, {source.cluster_id}, got "
            f"{identity.cluster_id}. Name all log.dirs of the broker, in its order"
        )
    if source.unknown_roots:
        raise TransferRefused(
            f"the embedded store has nodes that this version does not know: {_listed(source.unknown_roots)}. "
            "Use the version of odradek that wrote it"
        )


def _adoption_mark(identity: LogDirsIdentity, source: StoreState, new_broker_id: int | None) -> TransferMark:
    assert source.cluster_id is not None
    if source.mark is not None:
        mark = source.mark
        if new_broker_id not in (None, mark.new_broker_id):
            raise TransferRefused(
                f"--broker-id must be {mark.new_broker_id}, as when the adoption began, got {new_broker_id}"
            )
        expected = {mark.broker_id, mark.new_broker_id}
        if not identity.broker_ids <= expected:
            raise TransferRefused(
                f"broker.id in meta.properties must be {_listed(sorted(expected))}, got "
                f"{_listed(sorted(identity.broker_ids))}"
            )
        return mark
    if len(identity.broker_ids) != 1:
        raise TransferRefused(
            "broker.id must be the same in all log.dirs, got "
            f"{_listed(sorted(identity.broker_ids)) or 'none'}"
        )
    (broker_id,) = identity.broker_ids
    new_id = broker_id if new_broker_id is None else new_broker_id
    return TransferMark(TransferKind.ADOPTION, source.cluster_id, broker_id, new_id)


def _check_empty(source: StoreState, target: StoreState) -> None:
    if target.cluster_id == source.cluster_id:
        raise TransferRefused(
            f"ZooKeeper already has cluster {target.cluster_id}, but not from this embedded store, which may "
            f"be an old copy. To use ZooKeeper's state, move odradek-store.sqlite away and start the broker"
        )
    if target.cluster_id is not None:
        raise TransferRefused(
            f"ZooKeeper already has cluster {target.cluster_id}, this is cluster {source.cluster_id}. Use "
            "another path in zookeeper.connect, such as host:2181/odradek"
        )
    if target.topics:
        raise TransferRefused(
            f"ZooKeeper already has topics ({_listed(target.topics)}). Use another path in "
            "zookeeper.connect, such as host:2181/odradek"
        )


def plan_copy(nodes: Mapping[str, Node], old_broker_id: int, new_broker_id: int) -> list[PlannedNode]:
    """Return the nodes to write, parents before their children."""
    planned = []
    for path, (data, stat) in nodes.items():
        if stat.ephemeral_owner or path in _NOT_COPIED or _is_emptied(path):
            continue
        new_path, new_data = renumber(path, data, old_broker_id, new_broker_id)
        planned.append(PlannedNode(new_path, new_data, stat.version if path in _VERSIONED else 0))
        if planned[-1].version_min > VERSION_STEPS_MAX:
            raise TransferRefused(
                f"the version of {path} must be at most {VERSION_STEPS_MAX}, got {stat.version}"
            )
    return sorted(planned)


def plan_windows(planned: Sequence[PlannedNode]) -> Iterator[list[PlannedNode]]:
    """Yield the nodes in windows, each small enough for one request."""
    window: list[PlannedNode] = []
    size = ops = 0
    for node in planned:
        node_size, node_ops = len(node.data) + len(node.path), 1 + node.version_min
        if window and (size + node_size > WINDOW_BYTES_MAX or ops + node_ops > WINDOW_OPS_MAX):
            yield window
            window, size, ops = [], 0, 0
        window.append(node)
        size, ops = size + node_size, ops + node_ops
    if window:
        yield window


def write_ops(window: Sequence[PlannedNode], existing: Sequence[Node | None]) -> list[Op]:
    """Return the operations that make the existing nodes equal to a window; none if they are."""
    ops: list[Op] = []
    for planned, node in zip(window, existing, strict=True):
        version = 0
        if node is None:
            ops.append(CreateOp(planned.path, planned.data))
        else:
            version = node[1].version
            if node[0] != planned.data and not _is_larger(planned.path, node[0], planned.data):
                ops.append(SetDataOp(planned.path, planned.data, version))
                version += 1
        ops += [SetDataOp(planned.path, planned.data) for _ in range(version, planned.version_min)]
    return ops


def obsolete_nodes(nodes: Mapping[str, Node], planned: Collection[PlannedNode]) -> list[DeleteOp]:
    """Return the deletions of all nodes that are not planned, children before their parents."""
    kept = {node.path for node in planned} | _NOT_COPIED
    return [DeleteOp(path) for path in sorted(nodes, reverse=True) if path not in kept]


def copied_nodes(nodes: Mapping[str, Node], planned: Collection[PlannedNode]) -> list[DeleteOp]:
    """Return the deletions of the planned nodes, children first; parents of other nodes stay."""
    paths = {node.path for node in planned}
    kept = {prefix for path in nodes if path not in paths for prefix in prefixes_of(path)}
    return [DeleteOp(path) for path in sorted(paths & nodes.keys(), reverse=True) if path not in kept]


def release_problems(nodes: Mapping[str, Node], identity: LogDirsIdentity) -> list[str]:
    """Return why a cluster cannot be released to the embedded store of this broker; none if it can."""
    state = store_state(nodes, None)
    if state.cluster_id is None or state.cluster_id != identity.cluster_id:
        return [
            f"ZooKeeper has cluster {state.cluster_id or 'none'}, log.dirs belong to {identity.cluster_id}: "
            "check zookeeper.connect and log.dirs"
        ]
    if len(identity.broker_ids) != 1:
        ids = _listed(sorted(identity.broker_ids)) or "none"
        return [f"broker.id must be the same in all log.dirs, got {ids}"]
    if state.registered:
        return [f"brokers are registered: {_listed(state.registered)}; stop all brokers of the cluster"]
    if znode_paths.REASSIGN_PARTITIONS in nodes:
        return ["a reassignment was requested; start the cluster and wait for it"]
    (broker_id,) = identity.broker_ids
    elsewhere = [*_partitions_elsewhere(nodes, broker_id), *_states_elsewhere(nodes, broker_id)]
    if elsewhere:
        return [
            f"broker {broker_id} must be the only replica of every partition, and in sync, but is not of "
            f"{_listed(elsewhere)}; start the cluster, and reassign these partitions to broker {broker_id}"
        ]
    return []


def _partitions_elsewhere(nodes: Mapping[str, Node], broker_id: int) -> Iterator[str]:
    for path in sorted(nodes):
        if _is_topic(path):
            topic = decode_topic(path, nodes[path][0])
            for number, partition in sorted(topic.partitions.items()):
                if partition.replicas != (broker_id,) or partition.adding or partition.removing:
                    yield f"{path.rpartition('/')[2]}-{number}"


def _states_elsewhere(nodes: Mapping[str, Node], broker_id: int) -> Iterator[str]:
    """Yield partitions whose last in-sync replica is another broker, although this one is the replica."""
    for path in sorted(nodes):
        if _is_partition_state(path):
            _, _, _, topic, _, number, _ = path.split("/")
            if decode_partition_state(path, nodes[path][0]).isr != (broker_id,):
                yield f"{topic}-{number} (ISR)"


def count_topics(planned: Collection[PlannedNode]) -> int:
    return sum(_is_topic(node.path) for node in planned)


def count_partitions(planned: Collection[PlannedNode]) -> int:
    """Return the number of partitions that have a leader and ISR."""
    return sum(_is_partition_state(node.path) for node in planned)


def _is_topic(path: str) -> bool:
    return path.startswith(f"{znode_paths.TOPICS}/") and path.count("/") == _TOPIC_DEPTH


def _is_partition_state(path: str) -> bool:
    return path.startswith(f"{znode_paths.TOPICS}/") and path.count("/") == _STATE_DEPTH


def _is_emptied(path: str) -> bool:
    return any(path.startswith(f"{root}/") for root in _EMPTIED)


def _is_larger(path: str, existing: bytes, planned: bytes) -> bool:
    """Return whether a number of the target is larger, so that it must be kept."""
    if path == znode_paths.CONTROLLER_EPOCH:
        return decode_number(path, existing) > decode_number(path, planned)
    if path == znode_paths.LATEST_PRODUCER_ID_BLOCK and existing:
        last = decode_producer_id_block(path, planned).last if planned else -1
        return decode_producer_id_block(path, existing).last > last
    return False


def _names_under(nodes: Mapping[str, Node], root: str) -> list[str]:
    depth = root.count("/") + 1
    return [
        path.rpartition("/")[2] for path in nodes if path.startswith(f"{root}/") and path.count("/") == depth
    ]


def _listed(items: Sequence[object]) -> str:
    more = f" and {len(items) - _SHOWN_MAX} more" if len(items) > _SHOWN_MAX else ""
    return ", ".join(map(str, items[:_SHOWN_MAX])) + more
