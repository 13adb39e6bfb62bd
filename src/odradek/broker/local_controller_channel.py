"""Controller requests (LeaderAndIsr, UpdateMetadata, StopReplica) to the broker the controller runs on.

The requests are those that other brokers would receive over the network, and take the same path.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from odradek.cluster.metadata_cache import MetadataCache
from odradek.cluster.metadata_update import LEADER_DURING_DELETE, SECURITY_PROTOCOLS
from odradek.controller.actions import (
    PartitionStateUpdate,
    PartitionStateUpdates,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
)
from odradek.controller.controller_context import LiveBroker
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.replication.control_requests import EPOCH_DURING_DELETE
from odradek.replication.replica_manager import ReplicaManager
from odradek.telemetry import events
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

log = events.logger("controller_channel")


class LocalControllerChannel:
    """Controller channel to the local broker: calls in place of connections."""

    def __init__(
        self, broker_id: int, metadata_cache: MetadataCache, replica_manager: ReplicaManager
    ) -> None:
        self._broker_id = broker_id
        self._metadata_cache = metadata_cache
        self._replica_manager = replica_manager

    async def leader_and_isr(self, request: SendLeaderAndIsr) -> list[TopicPartition]:
        states = request.partition_states
        result = await self._replica_manager.become_leader_or_follower(
            LeaderAndIsrRequest(
                controller_id=self._broker_id,
                controller_epoch=request.controller_epoch,
                topic_states=_leader_and_isr_topics(states, request.controller_epoch),
            )
        )
        offline = [
            partition
            for partition, error in result.partition_errors.items()
            if error is ErrorCode.KAFKA_STORAGE_ERROR
        ]
        if states:
            leader_count = sum(state.leader == self._broker_id for state in states.values())
            log.info(
                "leadership_changed",
                leading=leader_count,
                following=len(states) - leader_count,
                offline=len(offline),
            )
        return offline

    async def update_metadata(self, update: SendUpdateMetadata) -> None:
        topic_states = _metadata_topics(
            update.partition_states, update.brokers.keys(), update.controller_epoch
        )
        # A topic can be deleted and recreated between two updates: its deletion comes first.
        deleted = [self._deleted_topic(topic) for topic in update.deleted_topics]
        await self._replica_manager.update_metadata(
            UpdateMetadataRequest(
                controller_id=self._broker_id,
                controller_epoch=update.controller_epoch,
                topic_states=[topic for topic in deleted if topic.partition_states] + topic_states,
                live_brokers=_live_brokers(update.brokers),
            )
        )

    def _deleted_topic(self, name: str) -> UpdateMetadataTopicState:
        topic = self._metadata_cache.topic(name)
        if topic is None:
            return UpdateMetadataTopicState(name)
        return UpdateMetadataTopicState(
            name,
            topic.topic_id,
            [
                UpdateMetadataPartitionState(
                    name,
                    partition.partition,
                    leader=LEADER_DURING_DELETE,
                    leader_epoch=EPOCH_DURING_DELETE,
                    replicas=list(partition.replicas),
                )
                for partition in topic.partitions.values()
            ],
        )

    async def stop_replica(self, request: SendStopReplica) -> list[TopicPartition]:
        result = await self._replica_manager.stop_replicas(
            StopReplicaRequest(
                controller_id=self._broker_id,
                controller_epoch=request.controller_epoch,
                topic_states=_stopped_topics(request.partitions),
            )
        )
        return [partition for partition, error in result.partition_errors.items() if not error]


def _leader_and_isr_topics(
    states: PartitionStateUpdates, controller_epoch: int
) -> list[LeaderAndIsrTopicState]:
    topics: dict[str, LeaderAndIsrTopicState] = {}
    for (topic, number), state in states.items():
        if topic not in topics:
            topics[topic] = LeaderAndIsrTopicState(topic, state.topic_id, [])
        topics[topic].partition_states.append(
            LeaderAndIsrPartitionState(
                topic,
                number,
                controller_epoch,
                state.leader,
                state.leader_epoch,
                list(state.isr),
                state.partition_epoch,
                list(state.replicas),
                is_new=state.is_new,
            )
        )
    return list(topics.values())


def _metadata_topics(
    states: PartitionStateUpdates, live: Collection[int], controller_epoch: int
) -> list[UpdateMetadataTopicState]:
    topics: dict[str, UpdateMetadataTopicState] = {}
    for (topic, number), state in states.items():
        if topic not in topics:
            topics[topic] = UpdateMetadataTopicState(topic, state.topic_id, [])
        topics[topic].partition_states.append(
            UpdateMetadataPartitionState(
                topic,
                number,
                controller_epoch,
                state.leader,
                state.leader_epoch,
                list(state.isr),
                state.partition_epoch,
                list(state.replicas),
                _offline_replicas(state, live),
            )
        )
    return list(topics.values())


def _offline_replicas(state: PartitionStateUpdate, live: Collection[int]) -> list[int]:
    return [replica for replica in state.replicas if replica not in live or replica in state.offline_replicas]


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


def _stopped_topics(partitions: Iterable[TopicPartition]) -> list[StopReplicaTopicState]:
    topics: dict[str, StopReplicaTopicState] = {}
    for topic, number in partitions:
        state = topics.setdefault(topic, StopReplicaTopicState(topic, []))
        state.partition_states.append(StopReplicaPartitionState(number, EPOCH_DURING_DELETE, True))
    return list(topics.values())
