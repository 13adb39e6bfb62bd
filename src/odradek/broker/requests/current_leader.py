"""Current leader of a partition, for errors that tell clients where to go (KIP-951).

A client that gets NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH need not refresh its metadata first: the
response names leader, leader epoch and the leader's endpoint.
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.broker.requests.context import BrokerContext
from odradek.model.ids import NO_LEADER, NO_LEADER_EPOCH


class LeaderNode(NamedTuple):
    """A live leader, by its endpoint on one listener."""

    node_id: int
    host: str
    port: int
    rack: str | None


class CurrentLeader(NamedTuple):
    """Leader and leader epoch, -1 if unknown. ``node`` is None unless the leader is alive."""

    leader_id: int
    leader_epoch: int
    node: LeaderNode | None


def find_current_leader(broker: BrokerContext, topic: str, number: int, listener: str) -> CurrentLeader:
    """Return the leader as this broker's replica knows it, else as the metadata cache does.

    LeaderAndIsr may arrive before UpdateMetadata, so the replica may know the newer leader.
    """
    leader_id, leader_epoch = NO_LEADER, NO_LEADER_EPOCH
    partition = broker.replica_manager.get_partition(topic, number)
    if partition is not None:
        leader_id, leader_epoch = partition.leader, partition.leader_epoch
    elif (metadata := broker.metadata_cache.partition(topic, number)) is not None:
        leader_id, leader_epoch = metadata.leader, metadata.leader_epoch
    return CurrentLeader(leader_id, leader_epoch, _live_node(broker, leader_id, listener))


def _live_node(broker: BrokerContext, broker_id: int, listener: str) -> LeaderNode | None:
    metadata = broker.metadata_cache.brokers.get(broker_id)
    endpoint = None if metadata is None else metadata.endpoints.get(listener)
    if metadata is None or endpoint is None:
        return None
    return LeaderNode(broker_id, endpoint.host, endpoint.port, metadata.rack)
