"""Actions of the controller: writes and reads of the store, and requests to brokers.

A handler of an event is a generator of actions (``Steps``). The runtime executes each action and sends its
result in; a ``StoreError`` is thrown in. No other event is handled meanwhile. Writes are fenced by the
controller epoch: a controller that was replaced gets ``ControllerMoved``. Requests to brokers are queued, and
their responses come back as events.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from odradek.controller.live_broker import LiveBroker
from odradek.model.ids import TopicId, TopicPartition
from odradek.store.layout.znodes import LeaderIsrAndControllerEpoch, TopicAssignment
from odradek.store.partition_states import VersionedLeaderAndIsr
from odradek.store.port import MATCH_ANY_VERSION, StoreError

NO_VERSION = -1

T = TypeVar("T")


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
    """Replicas that are not online: on a dead broker, or in an offline log directory (UpdateMetadata)."""
    controller_epoch: int = 0
    """The one stored with the state; older than the sender's after a failover."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    is_recovering: bool = False


PartitionStateUpdates = Mapping[TopicPartition, PartitionStateUpdate]


class StopReplicaState(NamedTuple):
    leader_epoch: int
    is_delete: bool


class WriteOutcome(NamedTuple):
    """Result of a write of partition states, by partition."""

    written: Mapping[TopicPartition, VersionedLeaderAndIsr]
    conflicts: Collection[TopicPartition] = ()
    """The znode has another version, or exists already: read it again."""
    failed: Mapping[TopicPartition, StoreError] = {}


# Reads and writes of the store.


@dataclass(frozen=True, slots=True)
class ReadPartitionStates:
    """Result: ``dict[TopicPartition, VersionedLeaderAndIsr]``, without partitions that have no state."""

    partitions: Collection[TopicPartition]


@dataclass(frozen=True, slots=True)
class WritePartitionStates:
    """Create or replace partition states. Result: ``WriteOutcome``."""

    writes: Mapping[TopicPartition, PartitionStateWrite]


@dataclass(frozen=True, slots=True)
class ReadUncleanElection:
    """Result: ``dict[str, bool]``: whether a topic may elect a leader outside the ISR.

    A topic whose config cannot be read is omitted.
    """

    topics: Collection[str]


@dataclass(frozen=True, slots=True)
class AssignTopicIds:
    """Write random topic ids into assignments without one. Result: ``dict[str, TopicAssignment]``."""

    topics: Mapping[str, TopicAssignment]


@dataclass(frozen=True, slots=True)
class ReadAssignment:
    """Result: ``VersionedTopic``, the topic's stored assignment; None if there is no such topic."""

    topic: str


@dataclass(frozen=True, slots=True)
class WriteAssignment:
    """Replace a topic's assignment. Another version of its znode than the expected one: ``BadVersion``."""

    topic: str
    assignment: TopicAssignment
    expected_version: int = MATCH_ANY_VERSION


@dataclass(frozen=True, slots=True)
class RemoveTopic:
    """Remove the topic's znodes, its config and its deletion mark."""

    topic: str


@dataclass(frozen=True, slots=True)
class RemoveDeletionMarks:
    topics: Collection[str]


@dataclass(frozen=True, slots=True)
class ReadReassignmentNode:
    """Result: ``dict[TopicPartition, tuple[int, ...]]``, the targets in ``/admin/reassign_partitions``."""


@dataclass(frozen=True, slots=True)
class WriteReassignmentNode:
    """Replace ``/admin/reassign_partitions`` by the targets that remain."""

    targets: Mapping[TopicPartition, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class RemoveReassignmentNode:
    """Remove ``/admin/reassign_partitions``; done if there is none."""


@dataclass(frozen=True, slots=True)
class RemovePreferredElectionNode:
    """Remove ``/admin/preferred_replica_election``; done if there is none."""


@dataclass(frozen=True, slots=True)
class RemoveIsrNotifications:
    sequence_numbers: Collection[str]


@dataclass(frozen=True, slots=True)
class RemoveLogDirNotifications:
    sequence_numbers: Collection[str]


@dataclass(frozen=True, slots=True)
class GiveTurn:
    """Let other work of the broker run."""


# Requests to brokers. Those to a broker that is gone are dropped.


@dataclass(frozen=True, slots=True)
class SendLeaderAndIsr:
    broker_id: int
    controller_epoch: int
    partition_states: PartitionStateUpdates
    live_leaders: Mapping[int, LiveBroker] = field(default_factory=dict)
    """Live brokers that lead a partition of the request."""


@dataclass(frozen=True, slots=True)
class SendUpdateMetadata:
    broker_ids: Iterable[int]
    controller_epoch: int
    brokers: Mapping[int, LiveBroker]
    partition_states: PartitionStateUpdates
    """A partition of a topic that is being deleted has the leader ``LEADER_DURING_DELETE``."""


@dataclass(frozen=True, slots=True)
class SendStopReplica:
    broker_id: int
    controller_epoch: int
    partitions: Mapping[TopicPartition, StopReplicaState]


StoreAction = (
    ReadPartitionStates
    | WritePartitionStates
    | ReadUncleanElection
    | AssignTopicIds
    | ReadAssignment
    | WriteAssignment
    | RemoveTopic
    | RemoveDeletionMarks
    | ReadReassignmentNode
    | WriteReassignmentNode
    | RemoveReassignmentNode
    | RemovePreferredElectionNode
    | RemoveIsrNotifications
    | RemoveLogDirNotifications
)

Action = StoreAction | GiveTurn | SendLeaderAndIsr | SendUpdateMetadata | SendStopReplica

Steps = Generator[Action, Any, T]
"""Actions of a handler; it gets the result of each, and returns the reply to its event."""
