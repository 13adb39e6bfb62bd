"""The controller context: the controller's view of the cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.cluster.metadata_version import LATEST, MetadataVersion
from odradek.controller.live_broker import LiveBroker
from odradek.controller.machine.states import PartitionState, ReplicaState
from odradek.model.ids import TopicPartition
from odradek.store.layout.znodes import ReplicaAssignment, TopicAssignment
from odradek.store.partition_states import VersionedLeaderAndIsr


class Replica(NamedTuple):
    """A replica of a partition on a broker (Kafka's PartitionAndReplica)."""

    partition: TopicPartition
    broker_id: int


class ControllerSettings(NamedTuple):
    """Settings of the controller, as plain values."""

    metadata_version: MetadataVersion = LATEST
    is_delete_enabled: bool = True
    """``delete.topic.enable``."""
    leader_imbalance_percentage_max: int = 10
    """``leader.imbalance.per.broker.percentage``."""


@dataclass(slots=True)
class TopicDeletions:
    """Topics that are being deleted."""

    queued: set[str] = field(default_factory=set)
    started: set[str] = field(default_factory=set)
    """Queued topics whose partitions have been taken offline."""
    ineligible: set[str] = field(default_factory=set)
    """Queued topics that cannot be deleted for now: a replica is down, or a reassignment is running."""


@dataclass(slots=True)
class ControllerContext:
    controller_epoch: int
    settings: ControllerSettings = field(default_factory=ControllerSettings)
    brokers: dict[int, LiveBroker] = field(default_factory=dict)
    """Registered brokers, with those that are shutting down."""
    shutting_down: set[int] = field(default_factory=set)
    topics: dict[str, TopicAssignment] = field(default_factory=dict)
    partitions: dict[TopicPartition, VersionedLeaderAndIsr] = field(default_factory=dict)
    """Last known stored state of each partition that has one."""
    offline_replicas: dict[int, set[TopicPartition]] = field(default_factory=dict)
    """Replicas in failed log directories of live brokers, by broker."""
    deletions: TopicDeletions = field(default_factory=TopicDeletions)
    reassigning: set[TopicPartition] = field(default_factory=set)
    """Partitions with adding or removing replicas."""
    partition_states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    replica_states: dict[Replica, ReplicaState] = field(default_factory=dict)
    without_leader: dict[TopicPartition, None] = field(default_factory=dict)
    """New and offline partitions, in order: those that an election may bring online."""

    # Assignments.

    def set_topic(self, topic: str, assignment: TopicAssignment) -> None:
        """Replace a topic's assignment."""
        self.topics[topic] = assignment
        for number, partition in assignment.partitions.items():
            self._index_reassignment(TopicPartition(topic, number), partition)

    def set_assignment(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Replace a partition's assignment."""
        topic = self.topics[partition.topic]
        partitions = {**topic.partitions, partition.partition: assignment}
        self.topics[partition.topic] = TopicAssignment(topic.topic_id, partitions)
        self._index_reassignment(partition, assignment)

    def _index_reassignment(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        if assignment.adding or assignment.removing:
            self.reassigning.add(partition)
        else:
            self.reassigning.discard(partition)

    def assignment_of(self, partition: TopicPartition) -> ReplicaAssignment:
        return self.topics[partition.topic].partitions[partition.partition]

    def replicas_of(self, partition: TopicPartition) -> tuple[int, ...]:
        return self.topics[partition.topic].partitions[partition.partition].replicas

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        assignment = self.topics.get(topic)
        return [] if assignment is None else [TopicPartition(topic, n) for n in sorted(assignment.partitions)]

    def all_partitions(self) -> Iterator[TopicPartition]:
        for topic in self.topics:
            yield from self.partitions_of(topic)

    def replicas_of_topic(self, topic: str) -> list[Replica]:
        return self.replicas_of_partitions(self.partitions_of(topic))

    def replicas_of_partitions(self, partitions: Iterable[TopicPartition]) -> list[Replica]:
        return [
            Replica(partition, broker_id)
            for partition in partitions
            for broker_id in self.replicas_of(partition)
        ]

    def replicas_on(self, broker_ids: Collection[int]) -> list[Replica]:
        """Return the replicas on these brokers. Looks at every partition: for changes of brokers only."""
        return [
            Replica(TopicPartition(topic, number), broker_id)
            for topic, assignment in self.topics.items()
            for number, partition in sorted(assignment.partitions.items())
            for broker_id in partition.replicas
            if broker_id in broker_ids
        ]

    # Liveness.

    @property
    def live_brokers(self) -> set[int]:
        """Registered brokers that are not shutting down: only these may lead."""
        return self.brokers.keys() - self.shutting_down

    @property
    def live_or_shutting_down(self) -> list[int]:
        """Brokers that requests are sent to."""
        return sorted(self.brokers)

    def is_replica_online(
        self, broker_id: int, partition: TopicPartition, *, include_shutting_down: bool = False
    ) -> bool:
        return (
            broker_id in self.brokers
            and (include_shutting_down or broker_id not in self.shutting_down)
            and partition not in self.offline_replicas.get(broker_id, ())
        )

    def online_replicas_of(self, partition: TopicPartition) -> tuple[int, ...]:
        replicas = self.replicas_of(partition)
        return tuple(replica for replica in replicas if self.is_replica_online(replica, partition))

    # States.

    def set_partition_state(self, partition: TopicPartition, state: PartitionState) -> None:
        self.partition_states[partition] = state
        if state in (PartitionState.NEW, PartitionState.OFFLINE):
            self.without_leader[partition] = None
        else:
            self.without_leader.pop(partition, None)

    def partition_state(self, partition: TopicPartition) -> PartitionState:
        return self.partition_states.get(partition, PartitionState.NON_EXISTENT)

    def replica_state(self, replica: Replica) -> ReplicaState:
        return self.replica_states.get(replica, ReplicaState.NON_EXISTENT)

    def replicas_in_state(self, topic: str, state: ReplicaState) -> list[Replica]:
        return [replica for replica in self.replicas_of_topic(topic) if self.replica_state(replica) is state]

    # Topics.

    def is_queued_for_deletion(self, topic: str) -> bool:
        return topic in self.deletions.queued

    def is_being_deleted(self, topic: str) -> bool:
        """Return whether a topic is queued for deletion and not held up by a reassignment.

        Until the reassignment ends, the topic is announced and elects leaders like any other: brokers that
        dropped it from their metadata could not replicate it to the target, and both changes would be stuck.
        """
        return topic in self.deletions.queued and not self.is_reassigning(topic)

    def is_reassigning(self, topic: str) -> bool:
        return bool(self.reassigning) and any(p in self.reassigning for p in self.partitions_of(topic))

    def leaders_of(self, broker_id: int) -> list[TopicPartition]:
        """Return the partitions that a broker leads."""
        return [p for p, stored in self.partitions.items() if stored.leader_and_isr.leader == broker_id]

    def remove_topic(self, topic: str) -> None:
        """Forget a topic that was deleted."""
        self.deletions.queued.discard(topic)
        self.deletions.started.discard(topic)
        self.deletions.ineligible.discard(topic)
        for replica in self.replicas_of_topic(topic):
            self.replica_states.pop(replica, None)
        for partition in self.partitions_of(topic):
            self.partitions.pop(partition, None)
            self.partition_states.pop(partition, None)
            self.without_leader.pop(partition, None)
            self.reassigning.discard(partition)
            for offline in self.offline_replicas.values():
                offline.discard(partition)
        self.topics.pop(topic, None)
