"""The controller context: the controller's view of the cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from odradek.controller.live_broker import LiveBroker
from odradek.model.ids import TopicPartition
from odradek.store.partition_states import VersionedLeaderAndIsr
from odradek.store.znodes import TopicAssignment


@dataclass(slots=True)
class ControllerContext:
    controller_epoch: int
    brokers: dict[int, LiveBroker] = field(default_factory=dict)
    topics: dict[str, TopicAssignment] = field(default_factory=dict)
    partitions: dict[TopicPartition, VersionedLeaderAndIsr] = field(default_factory=dict)
    deletions: dict[str, set[int]] = field(default_factory=dict)
    """Topics being deleted, with the brokers that have not yet deleted their replicas."""
    offline_replicas: dict[int, set[TopicPartition]] = field(default_factory=dict)
    """Offline replicas of live brokers, by broker."""

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for number in sorted(self.topics[topic].partitions)]

    def is_offline(self, partition: TopicPartition, broker_id: int) -> bool:
        """Return whether the broker is alive and its replica offline."""
        return partition in self.offline_replicas.get(broker_id, ())

    def can_lead(self, partition: TopicPartition) -> set[int]:
        """Return the live brokers on which a replica of this partition would not be offline."""
        return {broker_id for broker_id in self.brokers if not self.is_offline(partition, broker_id)}
