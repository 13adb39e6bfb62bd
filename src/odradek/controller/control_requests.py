"""The controller's actions as requests to a broker: LeaderAndIsr, UpdateMetadata and StopReplica.

Partition states are grouped by topic: that is LeaderAndIsr since version 2, UpdateMetadata since 5 and
StopReplica since 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from odradek.cluster.metadata_update import SECURITY_PROTOCOLS
from odradek.controller.actions import (
    PartitionStateUpdate,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
)
from odradek.controller.live_broker import LiveBroker
from odradek.model.ids import TopicPartition
from odradek.wire.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from odradek.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from odradek.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

UNKNOWN_EPOCH: Final = -1
"""Broker epoch of a request that any registration of the broker accepts."""
LEADER_RECOVERY_SINCE: Final = 6
"""Version of LeaderAndIsr that carries the leader recovery state."""


def leader_and_isr_request(
    action: SendLeaderAndIsr,
    controller_id: int,
    broker_epoch: int = UNKNOWN_EPOCH,
    *,
    version: int = LEADER_RECOVERY_SINCE,
    listener_name: str = "",
) -> LeaderAndIsrRequest:
    """Return the request; leaders are named with their endpoint of ``listener_name``."""
    states = action.partition_states
    return LeaderAndIsrRequest(
        controller_id=controller_id,
        controller_epoch=action.controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=[
            LeaderAndIsrTopicState(
                topic,
                states[partitions[0]].topic_id,
                [_leader_and_isr_state(partition, states[partition], version) for partition in partitions],
            )
            for topic, partitions in _group_by_topic(states).items()
        ],
        live_leaders=_live_leaders(action.live_leaders, listener_name),
    )


def _leader_and_isr_state(
    topic_partition: TopicPartition, state: PartitionStateUpdate, version: int
) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        *topic_partition,
        state.controller_epoch,
        state.leader,
        state.leader_epoch,
        list(state.isr),
        state.partition_epoch,
        list(state.replicas),
        list(state.adding),
        list(state.removing),
        state.is_new,
        int(state.is_recovering and version >= LEADER_RECOVERY_SINCE),
    )


def _live_leaders(leaders: Mapping[int, LiveBroker], listener_name: str) -> list[LeaderAndIsrLiveLeader]:
    return [
        LeaderAndIsrLiveLeader(broker_id, endpoint.host, endpoint.port)
        for broker_id, broker in leaders.items()
        for endpoint in broker.registration.endpoints
        if endpoint.listener == listener_name
    ]


def update_metadata_request(
    action: SendUpdateMetadata, controller_id: int, broker_epoch: int = UNKNOWN_EPOCH
) -> UpdateMetadataRequest:
    states = action.partition_states
    topic_states = [
        UpdateMetadataTopicState(
            topic,
            states[partitions[0]].topic_id,
            [_metadata_state(partition, states[partition]) for partition in partitions],
        )
        for topic, partitions in _group_by_topic(states).items()
    ]
    return UpdateMetadataRequest(
        controller_id=controller_id,
        controller_epoch=action.controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=topic_states,
        live_brokers=_live_brokers(action.brokers),
    )


def _metadata_state(
    topic_partition: TopicPartition, state: PartitionStateUpdate
) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        *topic_partition,
        state.controller_epoch,
        state.leader,
        state.leader_epoch,
        list(state.isr),
        state.partition_epoch,
        list(state.replicas),
        list(state.offline_replicas),
    )


def _live_brokers(brokers: Mapping[int, LiveBroker]) -> list[UpdateMetadataBroker]:
    return [
        UpdateMetadataBroker(
            broker_id,
            endpoints=[
                UpdateMetadataEndpoint(
                    endpoint.port,
                    endpoint.host,
                    endpoint.listener,
                    SECURITY_PROTOCOLS.index(endpoint.security_protocol),
                )
                for endpoint in broker.registration.endpoints
            ],
            rack=broker.registration.rack,
        )
        for broker_id, broker in brokers.items()
    ]


def stop_replica_request(
    action: SendStopReplica, controller_id: int, broker_epoch: int = UNKNOWN_EPOCH
) -> StopReplicaRequest:
    """Return the request that stops replicas, and deletes those whose state says so."""
    return StopReplicaRequest(
        controller_id=controller_id,
        controller_epoch=action.controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=[
            StopReplicaTopicState(
                topic,
                [
                    StopReplicaPartitionState(partition.partition, *action.partitions[partition])
                    for partition in partitions
                ],
            )
            for topic, partitions in _group_by_topic(action.partitions).items()
        ],
    )


def _group_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    by_topic: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(partition)
    return by_topic
