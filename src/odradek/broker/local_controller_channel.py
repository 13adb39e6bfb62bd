"""What the controller tells this broker, carried out: replicas, cluster image, and who waits for either."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from odradek.broker.topics.admin import Topics
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
    """The controller's way to the broker it runs on: no wire in between."""

    def __init__(
        self,
        broker_id: int,
        image: MetadataCache,
        replicas: ReplicaManager,
        topics: Topics,
        on_deleted: Callable[[Sequence[TopicPartition]], None] = lambda _: None,
        on_resized: Callable[[int], None] = lambda _: None,
    ) -> None:
        """``on_deleted`` hears of the partitions of deleted topics, ``on_resized`` how many are here."""
        self._on_resized = on_resized
        self._on_deleted = on_deleted
        self._broker_id = broker_id
        self._image = image
        self._replicas = replicas
        self._topics = topics

    async def leader_and_isr(self, order: SendLeaderAndIsr) -> list[TopicPartition]:
        offline = await self._replicas.become_leader_or_follower(
            {
                partition: (one.topic_id, _leadership(one))
                for partition, one in order.partition_states.items()
            },
            {partition for partition, one in order.partition_states.items() if one.is_new},
        )
        if order.partition_states:
            leading = sum(one.leader == self._broker_id for one in order.partition_states.values())
            following = len(order.partition_states) - leading
            log.info("leadership_changed", leading=leading, following=following, offline=len(offline))
        return offline

    async def update_metadata(self, news: SendUpdateMetadata) -> None:
        gone: dict[int, BrokerMetadata | None] = dict.fromkeys(
            self._image.brokers.keys() - news.brokers.keys()
        )
        brokers = {broker_id: _broker(broker_id, live) for broker_id, live in news.brokers.items()}
        topics: dict[str, TopicMetadata | None] = dict.fromkeys(news.deleted_topics)
        partitions: dict[str, list[PartitionMetadata]] = {}
        for topic, images in _by_topic(news.partition_states, news.brokers.keys()).items():
            topic_id = news.partition_states[TopicPartition(topic, images[0].partition)].topic_id
            known = self._image.topic(topic)
            if known is None or known.topic_id != topic_id:
                topics[topic] = TopicMetadata(topic, topic_id, {one.partition: one for one in images})
            else:
                partitions[topic] = images
        deleted = [
            partition for topic in news.deleted_topics for partition in _partitions_of(topic, self._image)
        ]
        delta = MetadataUpdate({**gone, **brokers}, topics, partitions, self._broker_id)
        for topic in self._image.apply(delta):
            self._topics.changed(topic)
        for topic in news.deleted_topics:
            self._topics.know_overrides(topic, {})
        self._on_deleted(deleted)
        if topics or partitions:
            self._on_resized(len(self._replicas))

    async def stop_replica(self, order: SendStopReplica) -> list[TopicPartition]:
        return self._replicas.remove(order.partitions)


def _partitions_of(topic: str, image: MetadataCache) -> list[TopicPartition]:
    known = image.topic(topic)
    return [] if known is None else [TopicPartition(topic, number) for number in known.partitions]


def _leadership(order: PartitionStateUpdate) -> LeaderAndIsr:
    return LeaderAndIsr(order.leader, order.leader_epoch, order.isr, order.replicas, order.partition_epoch)


def _broker(broker_id: int, live: LiveBroker) -> BrokerMetadata:
    endpoints = {
        one.listener: BrokerEndpoint(one.host, one.port, one.security_protocol)
        for one in live.registration.endpoints
    }
    return BrokerMetadata(broker_id, endpoints, live.registration.rack, live.broker_epoch)


def _by_topic(orders: PartitionStateUpdates, live: Collection[int]) -> dict[str, list[PartitionMetadata]]:
    by_topic: dict[str, list[PartitionMetadata]] = {}
    for (topic, number), order in orders.items():
        offline = tuple(one for one in order.replicas if one not in live or one in order.offline_replicas)
        by_topic.setdefault(topic, []).append(
            PartitionMetadata(
                number,
                order.leader,
                order.leader_epoch,
                order.isr,
                order.replicas,
                offline,
                order.partition_epoch,
            )
        )
    return by_topic
