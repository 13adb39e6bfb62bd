"""Requests of a scripted controller, built from its state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.model.ids import TopicPartition
from odradek.testing.controller.state import ControllerState
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

CONTROLLER_ID: Final = 100


def leader_and_isr_request(
    state: ControllerState, broker_id: int, partitions: Sequence[TopicPartition], *, is_new: bool
) -> LeaderAndIsrRequest:
    topics: dict[str, list[LeaderAndIsrPartitionState]] = {}
    for partition in partitions:
        stored = state.states[partition]
        topics.setdefault(partition.topic, []).append(
            LeaderAndIsrPartitionState(
                partition_index=partition.partition,
                controller_epoch=stored.controller_epoch,
                leader=stored.leader,
                leader_epoch=stored.leader_epoch,
                isr=list(stored.isr),
                partition_epoch=stored.partition_epoch,
                replicas=list(state.replicas[partition]),
                is_new=is_new,
            )
        )
    leaders = {state.states[p].leader for p in partitions} & state.brokers.keys()
    return LeaderAndIsrRequest(
        controller_id=CONTROLLER_ID,
        controller_epoch=state.controller_epoch,
        broker_epoch=state.brokers[broker_id].broker_epoch,
        topic_states=[
            LeaderAndIsrTopicState(name, state.topic_ids[name], states) for name, states in topics.items()
        ],
        live_leaders=[
            LeaderAndIsrLiveLeader(
                leader,
                state.brokers[leader].registration.endpoints[0].host,
                state.brokers[leader].registration.endpoints[0].port,
            )
            for leader in sorted(leaders)
        ],
    )


def update_metadata_request(
    state: ControllerState, broker_id: int, partitions: Sequence[TopicPartition]
) -> UpdateMetadataRequest:
    topics: dict[str, list[UpdateMetadataPartitionState]] = {}
    for partition in partitions:
        stored = state.states[partition]
        replicas = state.replicas[partition]
        topics.setdefault(partition.topic, []).append(
            UpdateMetadataPartitionState(
                partition_index=partition.partition,
                controller_epoch=stored.controller_epoch,
                leader=stored.leader,
                leader_epoch=stored.leader_epoch,
                isr=list(stored.isr),
                zk_version=stored.partition_epoch,
                replicas=list(replicas),
                offline_replicas=[
                    r for r in replicas if r not in state.brokers or (partition, r) in state.offline
                ],
            )
        )
    return UpdateMetadataRequest(
        controller_id=CONTROLLER_ID,
        controller_epoch=state.controller_epoch,
        broker_epoch=state.brokers[broker_id].broker_epoch,
        topic_states=[
            UpdateMetadataTopicState(name, state.topic_ids[name], states) for name, states in topics.items()
        ],
        live_brokers=[
            UpdateMetadataBroker(
                id=live,
                endpoints=[
                    UpdateMetadataEndpoint(endpoint.port, endpoint.host, endpoint.listener, 0)
                    for endpoint in registered.registration.endpoints
                ],
                rack=registered.registration.rack,
            )
            for live, registered in sorted(state.brokers.items())
        ],
    )


def stop_replica_request(
    state: ControllerState, broker_id: int, partitions: Sequence[TopicPartition], *, delete: bool
) -> StopReplicaRequest:
    topics: dict[str, list[StopReplicaPartitionState]] = {}
    for partition in partitions:
        epoch = state.states[partition].leader_epoch
        topics.setdefault(partition.topic, []).append(
            StopReplicaPartitionState(partition.partition, epoch, delete)
        )
    return StopReplicaRequest(
        controller_id=CONTROLLER_ID,
        controller_epoch=state.controller_epoch,
        broker_epoch=state.brokers[broker_id].broker_epoch,
        topic_states=[StopReplicaTopicState(name, states) for name, states in topics.items()],
    )
