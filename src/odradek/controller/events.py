"""What can happen to a controller. Each event carries plain values, read before the machine is stepped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from odradek.controller.state import LiveBroker, StoredState
from odradek.model.ids import TopicPartition
from odradek.store.payloads import TopicAssignment


@dataclass(frozen=True, slots=True)
class Loaded:
    """This broker was elected, and its state has been read from the store."""


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    brokers: Mapping[int, LiveBroker]


@dataclass(frozen=True, slots=True)
class TopicsFound:
    """Topics in the store with their assignments: new ones, or known ones that may have grown."""

    topics: Mapping[str, TopicAssignment]


@dataclass(frozen=True, slots=True)
class DeletionsRequested:
    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class StatesWritten:
    partitions: Mapping[TopicPartition, StoredState]


@dataclass(frozen=True, slots=True)
class ReplicasRemoved:
    """A broker no longer holds these replicas."""

    broker_id: int
    partitions: Iterable[TopicPartition]


@dataclass(frozen=True, slots=True)
class ReplicasFailed:
    """A broker cannot use the logs of these replicas before it is restarted."""

    broker_id: int
    partitions: Iterable[TopicPartition]


@dataclass(frozen=True, slots=True)
class ReplicasBack:
    """A broker can use the logs of these replicas after all."""

    broker_id: int
    partitions: Iterable[TopicPartition]


@dataclass(frozen=True, slots=True)
class TopicForgotten:
    """The store no longer knows the topic."""

    topic: str


Event = (
    Loaded
    | BrokersChanged
    | TopicsFound
    | DeletionsRequested
    | StatesWritten
    | ReplicasRemoved
    | ReplicasFailed
    | ReplicasBack
    | TopicForgotten
)
