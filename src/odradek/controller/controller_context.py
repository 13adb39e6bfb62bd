"""What the controller believes about the cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.model.ids import TopicPartition
from odradek.store.znodes import BrokerRegistration, LeaderIsrAndControllerEpoch, TopicAssignment


class LiveBroker(NamedTuple):
    """A broker that is registered; its epoch is the creation id of its registration."""

    registration: BrokerRegistration
    broker_epoch: int


class StoredLeaderAndIsr(NamedTuple):
    """A partition's state as the store has it, with the version of its node."""

    state: LeaderIsrAndControllerEpoch
    version: int


@dataclass(slots=True)
class ControllerContext:
    controller_epoch: int
    brokers: dict[int, LiveBroker] = field(default_factory=dict)
    topics: dict[str, TopicAssignment] = field(default_factory=dict)
    partitions: dict[TopicPartition, StoredLeaderAndIsr] = field(default_factory=dict)
    deletions: dict[str, set[int]] = field(default_factory=dict)
    """Topics on their way out, with the brokers that have not yet removed their replicas."""
    offline: dict[int, set[TopicPartition]] = field(default_factory=dict)
    """Replicas whose logs live brokers cannot use, by broker."""

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for number in sorted(self.topics[topic].partitions)]

    def is_offline(self, partition: TopicPartition, broker_id: int) -> bool:
        """Whether this broker lives and cannot use its replica."""
        return partition in self.offline.get(broker_id, ())

    def can_lead(self, partition: TopicPartition) -> set[int]:
        """Live brokers that could use a replica of this partition."""
        return {broker_id for broker_id in self.brokers if not self.is_offline(partition, broker_id)}
