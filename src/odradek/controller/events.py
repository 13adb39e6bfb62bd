"""Events of the controller. Each carries plain values, read before its handler runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.controller.live_broker import LiveBroker
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.store.layout.znodes import TopicAssignment


@dataclass(frozen=True, slots=True)
class ContextLoaded:
    """This broker was elected, and the controller context has been read from the store."""

    zxids: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Zxid of the last write of each partition state, comparable with broker epochs."""


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """All registered brokers."""

    brokers: Mapping[int, LiveBroker]
    noticed_ms: int | None = field(default=None, compare=False)
    """Monotonic time at which the store reported the change."""


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """Assignments of topics in the store that are new or may have more partitions.

    ``is_complete`` says that these are all topics: others were deleted.
    """

    topics: Mapping[str, TopicAssignment]
    is_complete: bool = False


@dataclass(frozen=True, slots=True)
class TopicDeletionsRequested:
    topics: frozenset[str]


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
class LeaderAndIsrAnswered:
    """Response to LeaderAndIsr without a top-level error."""

    broker_id: int
    errors: Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class StopReplicaAnswered:
    """Response to StopReplica: errors of the replicas that the request deletes."""

    broker_id: int
    errors: Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class LogDirFailuresNotified:
    """Brokers wrote ``/log_dir_event_notification/log_dir_event_N``."""

    broker_ids: frozenset[int]
    sequence_numbers: Collection[str]


@dataclass(frozen=True, slots=True)
class IsrChangesNotified:
    """Brokers wrote ``/isr_change_notification/isr_change_N``."""

    partitions: frozenset[TopicPartition]
    sequence_numbers: Collection[str]


@dataclass(frozen=True, slots=True)
class ReassignmentNodeChanged:
    """Targets in ``/admin/reassign_partitions``."""

    targets: Mapping[TopicPartition, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class PreferredElectionNodeChanged:
    """Partitions in ``/admin/preferred_replica_election``."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class LeaderBalanceDue:
    """It is time to move leaders back to the preferred replicas."""


@dataclass(frozen=True, slots=True)
class UncleanElectionEnabled:
    """``unclean.leader.election.enable`` was enabled for these topics; None: for the broker's default."""

    topics: frozenset[str] | None


class IsrChange(NamedTuple):
    """A proposed ISR. ``partition_epoch`` is the znode version that the leader knows."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    is_recovering: bool


# Events from requests, with a reply.


@dataclass(frozen=True, slots=True)
class AlterPartitionRequested:
    """Reply: ``AlterPartitionReply``."""

    broker_id: int
    broker_epoch: int
    changes: Mapping[TopicPartition, IsrChange]


@dataclass(frozen=True, slots=True)
class ControlledShutdownRequested:
    """Reply: ``ControlledShutdownReply``."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class ElectLeadersRequested:
    """Elect preferred leaders, or any live replica where none in sync is left. None: all partitions.

    Reply: ``dict[TopicPartition, ApiError]``.
    """

    partitions: frozenset[TopicPartition] | None
    is_unclean: bool = False


@dataclass(frozen=True, slots=True)
class ReassignmentsRequested:
    """Move partitions to target replicas; None cancels. Reply: ``dict[TopicPartition, ApiError]``."""

    targets: Mapping[TopicPartition, tuple[int, ...] | None]


@dataclass(frozen=True, slots=True)
class ReassignmentsListed:
    """Reply: ``dict[TopicPartition, ReplicaAssignment]`` of running reassignments. None: all partitions."""

    partitions: frozenset[TopicPartition] | None


ControllerEvent = (
    ContextLoaded
    | BrokersChanged
    | TopicsChanged
    | TopicDeletionsRequested
    | ReplicasOffline
    | ReplicasOnline
    | LeaderAndIsrAnswered
    | StopReplicaAnswered
    | LogDirFailuresNotified
    | IsrChangesNotified
    | ReassignmentNodeChanged
    | PreferredElectionNodeChanged
    | LeaderBalanceDue
    | UncleanElectionEnabled
    | AlterPartitionRequested
    | ControlledShutdownRequested
    | ElectLeadersRequested
    | ReassignmentsRequested
    | ReassignmentsListed
)
