"""The controller's actions as requests to a broker: LeaderAndIsr, UpdateMetadata and StopReplica.

Partition states are grouped by topic: that is LeaderAndIsr since version 2, UpdateMetadata since 5 and
StopReplica since 3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from odradek.cluster.metadata_update import LEADER_DURING_DELETE, SECURITY_PROTOCOLS
from odradek.controller.actions import (
    PartitionStateUpdate,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
)
from odradek.controller.broker_epochs import UNKNOWN_EPOCH
from odradek.controller.live_broker import LiveBroker
from odradek.model.ids import EPOCH_DURING_DELETE, ZERO_TOPIC_ID, TopicPartition
from odradek.store.znodes import TopicAssignment
from odradek.wire.messages.leader_and_isr import (
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


def leader_and_isr_request(
    action: SendLeaderAndIsr, controller_id: int, broker_epoch: int = UNKNOWN_EPOCH
) -> LeaderAndIsrRequest:
    states = action.partition_states
    return LeaderAndIsrRequest(
        controller_id=controller_id,
        controller_epoch=action.controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=[
            LeaderAndIsrTopicState(
                topic,
                states[partitions[0]].topic_id,
                [
                    _leader_and_isr_state(partition, states[partition], action.controller_epoch)
                    for partition in partitions
                ],
            )
            for topic, partitions in _group_by_topic(states).items()
        ],
    )


def _leader_and_isr_state(
    topic_partition: TopicPartition, state: PartitionStateUpdate, controller_epoch: int
) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        *topic_partition,
        controller_epoch,
        state.leader,
        state.leader_epoch,
        list(state.isr),
        state.partition_epoch,
        list(state.replicas),
        is_new=state.is_new,
    )


def update_metadata_request(
    action: SendUpdateMetadata, controller_id: int, broker_epoch: int = UNKNOWN_EPOCH
) -> UpdateMetadataRequest:
    states, live = action.partition_states, action.brokers.keys()
    changed = [
        UpdateMetadataTopicState(
            topic,
            states[partitions[0]].topic_id,
            [
                _metadata_state(partition, states[partition], live, action.controller_epoch)
                for partition in partitions
            ],
        )
        for topic, partitions in _group_by_topic(states).items()
    ]
    # A topic can be deleted and recreated between two updates: its deletion comes first.
    deleted = [
        _deleted_topic(topic, assignment)
        for topic, assignment in action.deleted_topics.items()
        if assignment.partitions
    ]
    return UpdateMetadataRequest(
        controller_id=controller_id,
        controller_epoch=action.controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=deleted + changed,
        live_brokers=_live_brokers(action.brokers),
    )


def _metadata_state(
    topic_partition: TopicPartition,
    state: PartitionStateUpdate,
    live: Collection[int],
    controller_epoch: int,
) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        *topic_partition,
        controller_epoch,
        state.leader,
        state.leader_epoch,
        list(state.isr),
        state.partition_epoch,
        list(state.replicas),
        [replica for replica in state.replicas if replica not in live or replica in state.offline_replicas],
    )


def _deleted_topic(topic: str, assignment: TopicAssignment) -> UpdateMetadataTopicState:
    return UpdateMetadataTopicState(
        topic,
        assignment.topic_id or ZERO_TOPIC_ID,
        [
            UpdateMetadataPartitionState(
                topic,
                number,
                leader=LEADER_DURING_DELETE,
                leader_epoch=EPOCH_DURING_DELETE,
                replicas=list(partition.replicas),
            )
            for number, partition in sorted(assignment.partitions.items())
        ],
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
