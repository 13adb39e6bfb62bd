"""What the controller tells this broker, carried out: replicas, cluster image, and who waits for either."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from odradek.broker.topics import Topics
from odradek.cluster.image import (
    BrokerImage,
    ClusterDelta,
    ClusterImage,
    Endpoint,
    PartitionImage,
    TopicImage,
)
from odradek.controller.actions import (
    Orders,
    ReplicaOrder,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
)
from odradek.controller.state import LiveBroker
from odradek.model.ids import TopicPartition
from odradek.replication.partition import Leadership
from odradek.replication.replicas import Replicas
from odradek.telemetry import events

log = events.logger("control")


class LocalChannel:
    """The controller's way to the broker it runs on: no wire in between."""

    def __init__(
        self,
        broker_id: int,
        image: ClusterImage,
        replicas: Replicas,
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
        offline = await self._replicas.obey(
            {partition: (one.topic_id, _leadership(one)) for partition, one in order.orders.items()},
            {partition for partition, one in order.orders.items() if one.is_new},
        )
        if order.orders:
            leading = sum(one.leader == self._broker_id for one in order.orders.values())
            following = len(order.orders) - leading
            log.info("leadership_changed", leading=leading, following=following, offline=len(offline))
        return offline

    async def update_metadata(self, news: SendUpdateMetadata) -> None:
        gone: dict[int, BrokerImage | None] = dict.fromkeys(self._image.brokers.keys() - news.brokers.keys())
        brokers = {broker_id: _broker(broker_id, live) for broker_id, live in news.brokers.items()}
        topics: dict[str, TopicImage | None] = dict.fromkeys(news.gone)
        partitions: dict[str, list[PartitionImage]] = {}
        for topic, images in _by_topic(news.orders, news.brokers.keys()).items():
            topic_id = news.orders[TopicPartition(topic, images[0].partition)].topic_id
            known = self._image.topic(topic)
            if known is None or known.topic_id != topic_id:
                topics[topic] = TopicImage(topic, topic_id, {one.partition: one for one in images})
            else:
                partitions[topic] = images
        deleted = [partition for topic in news.gone for partition in _partitions_of(topic, self._image)]
        delta = ClusterDelta({**gone, **brokers}, topics, partitions, self._broker_id)
        for topic in self._image.apply(delta):
            self._topics.changed(topic)
        for topic in news.gone:
            self._topics.know_overrides(topic, {})
        self._on_deleted(deleted)
        if topics or partitions:
            self._on_resized(len(self._replicas))

    async def stop_replica(self, order: SendStopReplica) -> list[TopicPartition]:
        return self._replicas.remove(order.partitions)


def _partitions_of(topic: str, image: ClusterImage) -> list[TopicPartition]:
    known = image.topic(topic)
    return [] if known is None else [TopicPartition(topic, number) for number in known.partitions]


def _leadership(order: ReplicaOrder) -> Leadership:
    return Leadership(order.leader, order.leader_epoch, order.isr, order.replicas, order.partition_epoch)


def _broker(broker_id: int, live: LiveBroker) -> BrokerImage:
    endpoints = {
        one.listener: Endpoint(one.host, one.port, one.security_protocol)
        for one in live.registration.endpoints
    }
    return BrokerImage(broker_id, endpoints, live.registration.rack, live.broker_epoch)


def _by_topic(orders: Orders, live: Collection[int]) -> dict[str, list[PartitionImage]]:
    by_topic: dict[str, list[PartitionImage]] = {}
    for (topic, number), order in orders.items():
        offline = tuple(one for one in order.replicas if one not in live or one in order.offline)
        by_topic.setdefault(topic, []).append(
            PartitionImage(
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
