"""What a controller wants done. The runtime carries actions out in order and feeds results back as events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from odradek.controller.state import LiveBroker
from odradek.model.ids import TopicId, TopicPartition
from odradek.store.payloads import PartitionState

NOT_YET_WRITTEN = -1


class StateWrite(NamedTuple):
    state: PartitionState
    expected_version: int
    """Of the node to be replaced; NOT_YET_WRITTEN creates it."""


class ReplicaOrder(NamedTuple):
    """What a broker must know to lead or follow a partition, or to tell clients about it."""

    topic_id: TopicId
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    partition_epoch: int
    is_new: bool = False
    offline: tuple[int, ...] = ()
    """Replicas that live brokers cannot use."""


Orders = Mapping[TopicPartition, ReplicaOrder]


@dataclass(frozen=True, slots=True)
class WriteStates:
    writes: Mapping[TopicPartition, StateWrite]


@dataclass(frozen=True, slots=True)
class SendLeaderAndIsr:
    broker_id: int
    controller_epoch: int
    orders: Orders


@dataclass(frozen=True, slots=True)
class SendUpdateMetadata:
    broker_ids: Iterable[int]
    controller_epoch: int
    brokers: Mapping[int, LiveBroker]
    orders: Orders
    gone: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SendStopReplica:
    broker_id: int
    controller_epoch: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ForgetTopic:
    """Remove the topic's nodes from the store."""

    topic: str


Action = WriteStates | SendLeaderAndIsr | SendUpdateMetadata | SendStopReplica | ForgetTopic
