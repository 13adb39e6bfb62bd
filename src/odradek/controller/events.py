"""Events of the controller. Each carries plain values, read before the machine steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from odradek.controller.controller_context import LiveBroker
from odradek.model.ids import TopicPartition
from odradek.store.partition_states import VersionedLeaderAndIsr
from odradek.store.znodes import TopicAssignment


@dataclass(frozen=True, slots=True)
class ContextLoaded:
    """This broker was elected, and the controller context has been read from the store."""


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    brokers: Mapping[int, LiveBroker]


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """Assignments of topics in the store that are new or may have more partitions."""

    topics: Mapping[str, TopicAssignment]


@dataclass(frozen=True, slots=True)
class TopicDeletionsRequested:
    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class PartitionStatesWritten:
    partitions: Mapping[TopicPartition, VersionedLeaderAndIsr]


@dataclass(frozen=True, slots=True)
class ReplicasDeleted:
    """A broker has deleted these replicas."""

    broker_id: int
    partitions: Iterable[TopicPartition]


@dataclass(frozen=True, slots=True)
class ReplicasOffline:
    """The logs of these replicas are offline on a broker, usually until it restarts."""

    broker_id: int
    partitions: Iterable[TopicPartition]


@dataclass(frozen=True, slots=True)
class ReplicasOnline:
    """The logs of these replicas are online again on a broker."""

    broker_id: int
    partitions: Iterable[TopicPartition]


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """The topic's znodes are removed."""

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
