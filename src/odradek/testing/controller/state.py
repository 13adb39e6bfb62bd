"""State of a scripted controller, and its decisions as synchronous methods.

Written once more, apart from ``odradek.controller``, so that a simulation does not share the mistakes of what
it tests.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_LEADER, TopicId, TopicPartition
from odradek.store.broker_registration import RegisteredBroker
from odradek.wire.messages.alter_partition import AlterPartitionRequestPartitionData


@dataclass(frozen=True)
class PartitionState:
    """Committed state of a partition; ``partition_epoch`` is the version of its znode."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    controller_epoch: int


@dataclass
class ControllerState:
    """The controller's view of the cluster."""

    controller_epoch: int = 1
    brokers: dict[int, RegisteredBroker] = field(default_factory=dict)
    topic_ids: dict[str, TopicId] = field(default_factory=dict)
    replicas: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    shutting_down: set[int] = field(default_factory=set)
    offline: set[tuple[TopicPartition, int]] = field(default_factory=set)
    """Replicas in failed log directories."""

    def can_lead(self, partition: TopicPartition, broker_id: int) -> bool:
        return (
            broker_id in self.brokers
            and broker_id not in self.shutting_down
            and (partition, broker_id) not in self.offline
        )

    def elect(self, partition: TopicPartition) -> PartitionState | None:
        """Return the state with the first eligible ISR member as leader; None if there is none."""
        state = self.states[partition]
        eligible = [member for member in state.isr if self.can_lead(partition, member)]
        leader = next((replica for replica in self.replicas[partition] if replica in eligible), None)
        if leader is None:
            return None
        return self.next_state(state, leader, tuple(eligible))

    def without_replica(self, partition: TopicPartition, broker_id: int) -> PartitionState | None:
        """Return the state without a failed replica; the last member stays in the ISR."""
        state = self.states[partition]
        if broker_id not in state.isr and broker_id != state.leader:
            return None
        isr = tuple(member for member in state.isr if member != broker_id) or state.isr
        leader = NO_LEADER if state.leader == broker_id else state.leader
        if (leader, isr) == (state.leader, state.isr):
            return None
        return self.next_state(state, leader, isr)

    def next_state(self, state: PartitionState, leader: int, isr: tuple[int, ...]) -> PartitionState:
        return PartitionState(
            leader, state.leader_epoch + 1, isr, state.partition_epoch, self.controller_epoch
        )

    def check_alter_partition(
        self, partition: TopicPartition, change: AlterPartitionRequestPartitionData, broker_id: int
    ) -> tuple[ErrorCode, tuple[int, ...]]:
        """Return the error of a proposed ISR change, and the proposed ISR."""
        state = self.states.get(partition)
        isr = tuple(member.broker_id for member in change.new_isr_with_epochs) or tuple(change.new_isr)
        if state is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, isr
        if change.leader_epoch > state.leader_epoch or change.partition_epoch > state.partition_epoch:
            return ErrorCode.NOT_CONTROLLER, isr
        if change.leader_epoch < state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH, isr
        if isr == state.isr:
            return ErrorCode.NONE, isr
        if change.partition_epoch < state.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION, isr
        if broker_id != state.leader or broker_id not in isr:
            return ErrorCode.INVALID_REQUEST, isr
        if any(member not in self.brokers or member in self.shutting_down for member in isr):
            return ErrorCode.INELIGIBLE_REPLICA, isr
        return ErrorCode.NONE, isr
