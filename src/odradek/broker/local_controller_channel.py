"""Controller requests (LeaderAndIsr, UpdateMetadata, StopReplica) to the broker the controller runs on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from odradek.broker.topics.admin import AdminManager
from odradek.cluster.metadata_cache import (
    BrokerEndpoint,
    BrokerMetadata,
    MetadataCache,
    MetadataUpdate,
    PartitionMetadata,
    TopicMetadata,
)
from odradek.controller.actions import (
    PartitionStateUpdate,
    PartitionStateUpdates,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
)
from odradek.controller.controller_context import LiveBroker
from odradek.model.ids import TopicPartition
from odradek.replication.partition import LeaderAndIsr
from odradek.replication.replica_manager import ReplicaManager
from odradek.telemetry import events

log = events.logger("controller_channel")


class LocalControllerChannel:
    """Controller channel to the local broker: calls in place of requests."""

    def __init__(
        self,
        broker_id: int,
        metadata_cache: MetadataCache,
        replica_manager: ReplicaManager,
        admin_manager: AdminManager,
        on_deleted: Callable[[Sequence[TopicPartition]], None] = lambda _: None,
        on_resized: Callable[[int], None] = lambda _: None,
    ) -> None:
        """``on_deleted`` gets the partitions of deleted topics, ``on_resized`` the local partition count."""
        self._on_resized = on_resized
        self._on_deleted = on_deleted
        self._broker_id = broker_id
        self._metadata_cache = metadata_cache
        self._replica_manager = replica_manager
        self._admin_manager = admin_manager

    async def leader_and_isr(self, request: SendLeaderAndIsr) -> list[TopicPartition]:
        offline = await self._replica_manager.become_leader_or_follower(
            {
                partition: (state.topic_id, _leader_and_isr(state))
                for partition, state in request.partition_states.items()
            },
            {partition for partition, state in request.partition_states.items() if state.is_new},
        )
        if request.partition_states:
            leader_count = sum(state.leader == self._broker_id for state in request.partition_states.values())
            follower_count = len(request.partition_states) - leader_count
            log.info(
                "leadership_changed",
                leading=leader_count,
                following=follower_count,
                offline=len(offline),
            )
        return offline

    async def update_metadata(self, update: SendUpdateMetadata) -> None:
        removed: dict[int, BrokerMetadata | None] = dict.fromkeys(
            self._metadata_cache.brokers.keys() - update.brokers.keys()
        )
        brokers = {broker_id: _broker(broker_id, broker) for broker_id, broker in update.brokers.items()}
        topics: dict[str, TopicMetadata | None] = dict.fromkeys(update.deleted_topics)
        partitions: dict[str, list[PartitionMetadata]] = {}
        updated = _partitions_by_topic(update.partition_states, update.brokers.keys())
        for topic, changed in updated.items():
            topic_id = update.partition_states[TopicPartition(topic, changed[0].partition)].topic_id
            current = self._metadata_cache.topic(topic)
            if current is None or current.topic_id != topic_id:
                by_number = {partition.partition: partition for partition in changed}
                topics[topic] = TopicMetadata(topic, topic_id, by_number)
            else:
                partitions[topic] = changed
        deleted = [
            partition
            for topic in update.deleted_topics
            for partition in _partitions_of(topic, self._metadata_cache)
        ]
        metadata_update = MetadataUpdate({**removed, **brokers}, topics, partitions, self._broker_id)
        for topic in self._metadata_cache.apply(metadata_update):
            self._admin_manager.on_topic_changed(topic)
        for topic in update.deleted_topics:
            self._admin_manager.put_topic_overrides(topic, {})
        self._on_deleted(deleted)
        if topics or partitions:
            self._on_resized(len(self._replica_manager))

    async def stop_replica(self, request: SendStopReplica) -> list[TopicPartition]:
        return self._replica_manager.stop_replicas(request.partitions)


def _partitions_of(topic: str, metadata_cache: MetadataCache) -> list[TopicPartition]:
    metadata = metadata_cache.topic(topic)
    return [] if metadata is None else [TopicPartition(topic, number) for number in metadata.partitions]


def _leader_and_isr(state: PartitionStateUpdate) -> LeaderAndIsr:
    return LeaderAndIsr(state.leader, state.leader_epoch, state.isr, state.replicas, state.partition_epoch)


def _broker(broker_id: int, broker: LiveBroker) -> BrokerMetadata:
    endpoints = {
        endpoint.listener: BrokerEndpoint(endpoint.host, endpoint.port, endpoint.security_protocol)
        for endpoint in broker.registration.endpoints
    }
    return BrokerMetadata(broker_id, endpoints, broker.registration.rack, broker.broker_epoch)


def _partitions_by_topic(
    states: PartitionStateUpdates, live: Collection[int]
) -> dict[str, list[PartitionMetadata]]:
    by_topic: dict[str, list[PartitionMetadata]] = {}
    for (topic, number), state in states.items():
        offline = tuple(
            replica for replica in state.replicas if replica not in live or replica in state.offline_replicas
        )
        by_topic.setdefault(topic, []).append(
            PartitionMetadata(
                number,
                state.leader,
                state.leader_epoch,
                state.isr,
                state.replicas,
                offline,
                state.partition_epoch,
            )
        )
    return by_topic
