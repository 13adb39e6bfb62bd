"""Actions of the controller. The runtime executes them in order and returns results as events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.controller.controller_context import LiveBroker
from odradek.model.ids import TopicId, TopicPartition
from odradek.store.znodes import LeaderIsrAndControllerEpoch, TopicAssignment

NO_VERSION = -1


class PartitionStateWrite(NamedTuple):
    leader_and_isr: LeaderIsrAndControllerEpoch
    expected_version: int
    """Version of the znode to replace; NO_VERSION creates it."""


class PartitionStateUpdate(NamedTuple):
    """A partition's state in LeaderAndIsr and UpdateMetadata requests."""

    topic_id: TopicId
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    partition_epoch: int
    is_new: bool = False
    offline_replicas: tuple[int, ...] = ()
    """Replicas in offline log directories of live brokers."""


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
    deleted_topics: Mapping[str, TopicAssignment] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SendStopReplica:
    broker_id: int
    controller_epoch: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class RemoveTopic:
    """Remove the topic's znodes."""

    topic: str


Action = WritePartitionStates | SendLeaderAndIsr | SendUpdateMetadata | SendStopReplica | RemoveTopic
