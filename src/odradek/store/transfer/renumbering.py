"""A broker's nodes under another broker id. Pure.

Every node that names a broker is rewritten: assignments, leaders and ISRs, the configs of the broker, the
throttled replicas of topics, the block of producer ids and a requested reassignment.
"""

from __future__ import annotations

from typing import Final

from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import (
    LeaderIsrAndControllerEpoch,
    ProducerIdBlock,
    ReplicaAssignment,
    TopicAssignment,
    decode_config,
    decode_partition_state,
    decode_producer_id_block,
    decode_reassignment,
    decode_topic,
    encode_config,
    encode_partition_state,
    encode_producer_id_block,
    encode_reassignment,
    encode_topic,
)

_THROTTLED: Final = frozenset(
    {"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
)
_TOPIC_DEPTH: Final = 3
_STATE_DEPTH: Final = 6


def renumber(path: str, data: bytes, old: int, new: int) -> tuple[str, bytes]:
    """Return path and data of a node with broker ``new`` in place of ``old``."""
    if old == new:
        return path, data
    if path == znode_paths.broker_config(old):
        return znode_paths.broker_config(new), data
    if not data:
        return path, data
    depth = path.count("/")
    if path.startswith(f"{znode_paths.TOPICS}/") and depth == _TOPIC_DEPTH:
        return path, encode_topic(_renumber_topic(decode_topic(path, data), old, new))
    if path.startswith(f"{znode_paths.TOPICS}/") and depth == _STATE_DEPTH:
        return path, encode_partition_state(_renumber_state(decode_partition_state(path, data), old, new))
    if path.startswith(f"{znode_paths.CONFIG_TOPICS}/"):
        return path, _renumber_throttled(path, data, old, new)
    if path == znode_paths.LATEST_PRODUCER_ID_BLOCK:
        block = decode_producer_id_block(path, data)
        broker_id = new if block.broker_id == old else block.broker_id
        return path, encode_producer_id_block(ProducerIdBlock(broker_id, block.first, block.last))
    if path == znode_paths.REASSIGN_PARTITIONS:
        targets = decode_reassignment(path, data)
        return path, encode_reassignment({p: _replace(ids, old, new) for p, ids in targets.items()})
    return path, data


def _replace(broker_ids: tuple[int, ...], old: int, new: int) -> tuple[int, ...]:
    return tuple(new if broker_id == old else broker_id for broker_id in broker_ids)


def _renumber_topic(topic: TopicAssignment, old: int, new: int) -> TopicAssignment:
    return TopicAssignment(
        topic.topic_id,
        {
            number: ReplicaAssignment(
                _replace(partition.replicas, old, new),
                _replace(partition.adding, old, new),
                _replace(partition.removing, old, new),
            )
            for number, partition in topic.partitions.items()
        },
    )


def _renumber_state(state: LeaderIsrAndControllerEpoch, old: int, new: int) -> LeaderIsrAndControllerEpoch:
    return LeaderIsrAndControllerEpoch(
        new if state.leader == old else state.leader,
        state.leader_epoch,
        _replace(state.isr, old, new),
        state.controller_epoch,
        state.is_recovering,
    )


def _renumber_throttled(path: str, data: bytes, old: int, new: int) -> bytes:
    config = decode_config(path, data)
    for name in _THROTTLED:
        if ":" in config.get(name, ""):  # partition:broker, with commas between; else * or nothing
            pairs = [pair.strip().split(":") for pair in config[name].split(",")]
            config[name] = ",".join(
                ":".join([*pair[:-1], str(new) if pair[-1] == str(old) else pair[-1]]) for pair in pairs
            )
    return encode_config(config) if not _THROTTLED.isdisjoint(config) else data
