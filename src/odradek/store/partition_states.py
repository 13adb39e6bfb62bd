"""Leader and ISR of each partition: ``/brokers/topics/T/partitions/N/state``.

Each partition has an outcome of its own: the new znode version, or an error. Many writes share a transaction
of the store, because a failover changes all partitions of a broker. Many are in flight at once, within a
bound. A controller passes its fence; if it is fenced, each outcome is ``ControllerMoved``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from odradek.model.ids import TopicPartition
from odradek.store.controller_election import ControllerMoved, Fence, fenced_multi
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import (
    LeaderIsrAndControllerEpoch,
    decode_partition_state,
    encode_partition_state,
)
from odradek.store.port import (
    BadPayload,
    CreateOp,
    NodeExists,
    NoNode,
    Op,
    OpResult,
    SetDataOp,
    Stat,
    Store,
    StoreError,
)
from odradek.store.write_window import multi_each
from odradek.telemetry import events
from odradek.timers.turns import in_turns

WRITES_PER_MULTI: Final = 100
"""States written by one transaction: about 20 KB, of the megabyte that ZooKeeper accepts."""

log = events.logger("store")


class VersionedLeaderAndIsr(NamedTuple):
    """Leader and ISR of a partition, and the version of its znode."""

    leader_and_isr: LeaderIsrAndControllerEpoch
    version: int


Outcome = int | StoreError
"""The new znode version, or the error of the write."""


async def read_partition_states(
    store: Store, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, VersionedLeaderAndIsr]:
    """Return the stored states; partitions without one, or with one that cannot be decoded, are omitted."""
    states, _ = await read_partition_states_and_zxids(store, partitions)
    return states


async def read_partition_states_and_zxids(
    store: Store, partitions: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, VersionedLeaderAndIsr], dict[TopicPartition, int]]:
    """Return the stored states, and the zxid of the last write of each."""
    requested = list(partitions)
    states: dict[TopicPartition, VersionedLeaderAndIsr] = {}
    zxids: dict[TopicPartition, int] = {}
    nodes = await store.get_many(map(znode_paths.partition_state, requested))
    async for turn in in_turns(zip(requested, nodes, strict=True)):
        for partition, node in turn:
            if node is not None:
                try:
                    state = decode_partition_state(znode_paths.partition_state(partition), node[0])
                except BadPayload as error:
                    log.error("partition_state_not_decoded", reason=str(error))
                else:
                    states[partition] = VersionedLeaderAndIsr(state, node[1].version)
                    zxids[partition] = node[1].mzxid
    return states, zxids


async def write_partition_states(
    store: Store, states: Mapping[TopicPartition, VersionedLeaderAndIsr], fence: Fence | None = None
) -> dict[TopicPartition, Outcome]:
    """Replace states, each if its znode still has the expected version (else ``BadVersion``)."""
    writes: list[list[Op]] = []
    async for turn in in_turns(states.items()):
        for partition, (leader_and_isr, version) in turn:
            path = znode_paths.partition_state(partition)
            writes.append([SetDataOp(path, encode_partition_state(leader_and_isr), version)])
    return dict(zip(states, await _write_each(store, writes, fence), strict=True))


async def create_partition_states(
    store: Store, states: Mapping[TopicPartition, LeaderIsrAndControllerEpoch], fence: Fence | None = None
) -> dict[TopicPartition, Outcome]:
    """Create the states of new partitions (``NodeExists`` if a partition has a state already).

    Parent nodes left by an earlier attempt are used.
    """
    topics = dict.fromkeys(partition.topic for partition in states)
    roots = [znode_paths.partitions(topic) for topic in topics]
    for root, node in zip(roots, await store.get_many(roots), strict=True):
        if node is None:
            # Of a topic that was deleted nothing may be left; the writes below fail for the same reason.
            with suppress(NodeExists, NoNode, ControllerMoved):
                await fenced_multi(store, fence, [CreateOp(root)])
    parents = await store.get_many(map(znode_paths.partition, states))
    writes: list[list[Op]] = []
    async for turn in in_turns(zip(states.items(), parents, strict=True)):
        for (partition, state), parent in turn:
            create = CreateOp(znode_paths.partition_state(partition), encode_partition_state(state))
            writes.append([] if parent is not None else [CreateOp(znode_paths.partition(partition))])
            writes[-1].append(create)
    return dict(zip(states, await _write_each(store, writes, fence), strict=True))


async def _write_each(store: Store, writes: Sequence[Sequence[Op]], fence: Fence | None) -> list[Outcome]:
    return [
        _outcome(result)
        for result in await multi_each(store, writes, fence, writes_per_multi=WRITES_PER_MULTI)
    ]


def _outcome(result: list[OpResult] | StoreError) -> Outcome:
    if isinstance(result, StoreError):
        return result
    return result[-1].version if isinstance(result[-1], Stat) else 0
