"""What can happen to a controller. Each event carries plain values, read before the machine is stepped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from odradek.controller.controller_context import LiveBroker, StoredLeaderAndIsr
from odradek.model.ids import TopicPartition
from odradek.store.znodes import TopicAssignment


@dataclass(frozen=True, slots=True)
class ContextLoaded:
    """This broker was elected, and its state has been read from the store."""


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    brokers: Mapping[int, LiveBroker]


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """Topics in the store with their assignments: new ones, or known ones that may have grown."""

    topics: Mapping[str, TopicAssignment]


@dataclass(frozen=True, slots=True)
class TopicDeletionsRequested:
    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class PartitionStatesWritten:
    partitions: Mapping[TopicPartition, StoredLeaderAndIsr]


@dataclass(frozen=True, slots=True)
class ReplicasDeleted:
    """A broker no longer holds these replicas."""

    broker_id: int
    partitions: Iterable[TopicPartition]


@dataclass(frozen=True, slots=True)
class ReplicasOffline:
    """A broker cannot use the logs of these replicas before it is restarted."""

    broker_id: int
    partitions: Iterable[TopicPartition]


@dataclass(frozen=True, slots=True)
class ReplicasOnline:
    """A broker can use the logs of these replicas after all."""

    broker_id: int
    partitions: Iterable[TopicPartition]


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """The store no longer knows the topic."""

    topic: str


ControllerEvent = (
    ContextLoaded
    | BrokersChanged
    | TopicsChanged
    | TopicDeletionsRequested
    | PartitionStatesWritten
    | ReplicasDeleted
    | ReplicasOffline
    | ReplicasOnline
    | TopicDeleted
)
