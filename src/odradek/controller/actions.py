"""What a controller wants done. The runtime carries actions out in order and feeds results back as events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from odradek.controller.controller_context import LiveBroker
from odradek.model.ids import TopicId, TopicPartition
from odradek.store.znodes import LeaderIsrAndControllerEpoch

NO_VERSION = -1


class PartitionStateWrite(NamedTuple):
    state: LeaderIsrAndControllerEpoch
    expected_version: int
    """Of the node to be replaced; NO_VERSION creates it."""


class PartitionStateUpdate(NamedTuple):
    """What a broker must know to lead or follow a partition, or to tell clients about it."""

    topic_id: TopicId
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    partition_epoch: int
    is_new: bool = False
    offline_replicas: tuple[int, ...] = ()
    """Replicas that live brokers cannot use."""


PartitionStateUpdates = Mapping[TopicPartition, PartitionStateUpdate]


@dataclass(frozen=True, slots=True)
class WritePartitionStates:
    writes: Mapping[TopicPartition, PartitionStateWrite]


@dataclass(frozen=True, slots=True)
class SendLeaderAndIsr:
    broker_id: int
    controller_epoch: int
    partition_states: PartitionStateUpdates


@dataclass(frozen=True, slots=True)
class SendUpdateMetadata:
    broker_ids: Iterable[int]
    controller_epoch: int
    brokers: Mapping[int, LiveBroker]
    partition_states: PartitionStateUpdates
    deleted_topics: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SendStopReplica:
    broker_id: int
    controller_epoch: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class RemoveTopic:
    """Remove the topic's nodes from the store."""

    topic: str


Action = WritePartitionStates | SendLeaderAndIsr | SendUpdateMetadata | SendStopReplica | RemoveTopic
