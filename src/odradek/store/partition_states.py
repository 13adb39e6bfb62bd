"""Leader and in-sync replicas of each partition: ``/brokers/topics/T/partitions/N/state``.

Each partition is written for itself: its outcome is its new version, or the error that kept it. All are under
way at once. A controller passes its fence; a fallen fence shows as ``ControllerMoved`` for each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from typing import NamedTuple

from odradek.model.ids import TopicPartition
from odradek.store import paths
from odradek.store.election import Fence, fenced
from odradek.store.payloads import PartitionState, decode_partition_state, encode_partition_state
from odradek.store.port import Create, Op, OpResult, SetData, Stat, Store, StoreError


class VersionedState(NamedTuple):
    """A state, and the version of the node that holds it."""

    state: PartitionState
    version: int


Outcome = int | StoreError
"""The node's new version, or why there is none."""


async def read_partition_states(
    store: Store, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, VersionedState]:
    """The states there are; a partition that has none yet is left out."""
    asked = list(partitions)
    nodes = await store.get_many(map(paths.partition_state, asked))
    return {
        partition: VersionedState(
            decode_partition_state(paths.partition_state(partition), node[0]), node[1].version
        )
        for partition, node in zip(asked, nodes, strict=True)
        if node is not None
    }


async def write_partition_states(
    store: Store, states: Mapping[TopicPartition, VersionedState], fence: Fence | None = None
) -> dict[TopicPartition, Outcome]:
    """Replace states that still have the versions given (``BadVersion`` if not)."""
    writes = (
        fenced(
            store,
            fence,
            [SetData(paths.partition_state(p), encode_partition_state(wanted.state), wanted.version)],
        )
        for p, wanted in states.items()
    )
    outcomes = await asyncio.gather(*map(_outcome, writes))
    return dict(zip(states, outcomes, strict=True))


async def create_partition_states(
    store: Store, states: Mapping[TopicPartition, PartitionState], fence: Fence | None = None
) -> dict[TopicPartition, Outcome]:
    """Write the first states of new partitions (``NodeExists`` if one has a state already).

    Nodes above a state that an earlier attempt left behind are used as they are.
    """
    topics = {partition.topic for partition in states}
    roots = [paths.partitions(topic) for topic in topics]
    for root, node in zip(roots, await store.get_many(roots), strict=True):
        if node is None:
            await store.ensure_path(root)
    parents = await store.get_many(map(paths.partition, states))
    writes = []
    for (partition, state), parent in zip(states.items(), parents, strict=True):
        ops: list[Op] = [] if parent is not None else [Create(paths.partition(partition))]
        ops.append(Create(paths.partition_state(partition), encode_partition_state(state)))
        writes.append(fenced(store, fence, ops))
    outcomes = await asyncio.gather(*map(_outcome, writes))
    return dict(zip(states, outcomes, strict=True))


async def _outcome(write: Awaitable[list[OpResult]]) -> Outcome:
    try:
        last = (await write)[-1]
    except StoreError as refused:
        return refused
    return last.version if isinstance(last, Stat) else 0
