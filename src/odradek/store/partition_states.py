"""Leader and in-sync replicas of each partition: ``/brokers/topics/T/partitions/N/state``.

Each partition is written for itself: its outcome is its new version, or the error that kept it. Many are
under way at once. A controller passes its fence; a fallen fence shows as ``ControllerMoved`` for each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from odradek.model.ids import TopicPartition
from odradek.store import znode_paths
from odradek.store.controller_election import Fence, fenced
from odradek.store.port import Create, Op, SetData, Stat, Store, StoreError
from odradek.store.znodes import LeaderIsrAndControllerEpoch, decode_partition_state, encode_partition_state

_UNDER_WAY_MAX: Final = 5000


class VersionedLeaderAndIsr(NamedTuple):
    """A state, and the version of the node that holds it."""

    leader_and_isr: LeaderIsrAndControllerEpoch
    version: int


Outcome = int | StoreError
"""The node's new version, or why there is none."""


async def read_partition_states(
    store: Store, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, VersionedLeaderAndIsr]:
    """The states there are; a partition that has none yet is left out."""
    asked = list(partitions)
    nodes = await store.get_many(map(znode_paths.partition_state, asked))
    return {
        partition: VersionedLeaderAndIsr(
            decode_partition_state(znode_paths.partition_state(partition), node[0]), node[1].version
        )
        for partition, node in zip(asked, nodes, strict=True)
        if node is not None
    }


async def write_partition_states(
    store: Store, states: Mapping[TopicPartition, VersionedLeaderAndIsr], fence: Fence | None = None
) -> dict[TopicPartition, Outcome]:
    """Replace states that still have the versions given (``BadVersion`` if not)."""
    writes: list[list[Op]] = [
        [SetData(znode_paths.partition_state(p), encode_partition_state(wanted.leader_and_isr), wanted.version)]
        for p, wanted in states.items()
    ]
    return dict(zip(states, await _write_each(store, writes, fence), strict=True))


async def create_partition_states(
    store: Store, states: Mapping[TopicPartition, LeaderIsrAndControllerEpoch], fence: Fence | None = None
) -> dict[TopicPartition, Outcome]:
    """Write the first states of new partitions (``NodeExists`` if one has a state already).

    Nodes above a state that an earlier attempt left behind are used as they are.
    """
    topics = {partition.topic for partition in states}
    roots = [znode_paths.partitions(topic) for topic in topics]
    for root, node in zip(roots, await store.get_many(roots), strict=True):
        if node is None:
            await store.ensure_path(root)
    parents = await store.get_many(map(znode_paths.partition, states))
    writes: list[list[Op]] = []
    for (partition, state), parent in zip(states.items(), parents, strict=True):
        made = Create(znode_paths.partition_state(partition), encode_partition_state(state))
        writes.append([made] if parent is not None else [Create(znode_paths.partition(partition)), made])
    return dict(zip(states, await _write_each(store, writes, fence), strict=True))


async def _write_each(store: Store, writes: list[list[Op]], fence: Fence | None) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for start in range(0, len(writes), _UNDER_WAY_MAX):
        some = writes[start : start + _UNDER_WAY_MAX]
        outcomes += await asyncio.gather(*(_write(store, ops, fence) for ops in some))
    return outcomes


async def _write(store: Store, ops: list[Op], fence: Fence | None) -> Outcome:
    try:
        last = (await fenced(store, fence, ops))[-1]
    except StoreError as refused:
        return refused
    return last.version if isinstance(last, Stat) else 0
