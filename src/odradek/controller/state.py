"""What the controller believes about the cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.model.ids import TopicPartition
from odradek.store.payloads import BrokerRegistration, PartitionState, TopicAssignment


class LiveBroker(NamedTuple):
    """A broker that is registered; its epoch is the creation id of its registration."""

    registration: BrokerRegistration
    broker_epoch: int


class StoredState(NamedTuple):
    """A partition's state as the store has it, with the version of its node."""

    state: PartitionState
    version: int


@dataclass(slots=True)
class ControllerState:
    controller_epoch: int
    brokers: dict[int, LiveBroker] = field(default_factory=dict)
    topics: dict[str, TopicAssignment] = field(default_factory=dict)
    partitions: dict[TopicPartition, StoredState] = field(default_factory=dict)
    deletions: dict[str, set[int]] = field(default_factory=dict)
    """Topics on their way out, with the brokers that have not yet removed their replicas."""

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for number in sorted(self.topics[topic].partitions)]
