"""State changes of partitions and replicas: the table of transitions, failed writes, conflicts."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.controller_machine import ControllerMachine, StoreModel, brokers

from odradek.controller.actions import (
    Action,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    Steps,
    WriteOutcome,
    WritePartitionStates,
)
from odradek.controller.machine.context import Replica
from odradek.controller.machine.leader_election import Election
from odradek.controller.machine.partition_state_machine import (
    ElectionFailed,
    handle_partition_state_changes,
)
from odradek.controller.machine.partition_state_updates import ATTEMPTS_MAX
from odradek.controller.machine.replica_state_machine import handle_replica_state_changes
from odradek.controller.machine.states import PartitionState, ReplicaState
from odradek.model.ids import TopicPartition
from odradek.store.layout.znodes import LeaderIsrAndControllerEpoch, ReplicaAssignment, TopicAssignment
from odradek.store.partition_states import VersionedLeaderAndIsr
from odradek.store.port import NoNode

ORDERS = TopicPartition("orders", 0)
EPOCH = 5

PARTITION_TRANSITIONS = {
    (PartitionState.NON_EXISTENT, PartitionState.NEW),
    (PartitionState.NEW, PartitionState.ONLINE),
    (PartitionState.NEW, PartitionState.OFFLINE),
    (PartitionState.ONLINE, PartitionState.ONLINE),
    (PartitionState.ONLINE, PartitionState.OFFLINE),
    (PartitionState.OFFLINE, PartitionState.ONLINE),
    (PartitionState.OFFLINE, PartitionState.OFFLINE),
    (PartitionState.OFFLINE, PartitionState.NON_EXISTENT),
}
ALIVE = (ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.OFFLINE, ReplicaState.DELETION_INELIGIBLE)
REPLICA_TRANSITIONS = {
    (ReplicaState.NON_EXISTENT, ReplicaState.NEW),
    *((state, ReplicaState.ONLINE) for state in ALIVE),
    *((state, ReplicaState.OFFLINE) for state in ALIVE),
    (ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED),
    (ReplicaState.OFFLINE, ReplicaState.DELETION_INELIGIBLE),
    (ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL),
    (ReplicaState.DELETION_STARTED, ReplicaState.DELETION_INELIGIBLE),
    (ReplicaState.DELETION_SUCCESSFUL, ReplicaState.NON_EXISTENT),
}
"""As in Kafka's PartitionStateMachine and ReplicaStateMachine."""


class FailingStore(StoreModel):
    """Refuses writes of states: with an error, or with a conflict each time."""

    is_conflict = False

    def write(self, action: WritePartitionStates) -> WriteOutcome:
        if self.is_conflict:
            for partition in action.writes:
                leader_and_isr, version = self.states[partition]
                self.states[partition] = VersionedLeaderAndIsr(leader_and_isr, version + 1)
            return WriteOutcome({}, list(action.writes))
        return WriteOutcome({}, (), {partition: NoNode("/brokers") for partition in action.writes})


def machine(replicas: tuple[int, ...] = (1, 2), leader: int | None = 1) -> ControllerMachine:
    """Return a machine that knows a topic of one partition; without a leader it has no state yet."""
    harness = ControllerMachine(EPOCH)
    context = harness.context
    context.brokers = brokers((1, 2, 3))
    context.set_topic("orders", TopicAssignment(b"o" * 16, {0: ReplicaAssignment(replicas)}))
    if leader is not None:
        state = VersionedLeaderAndIsr(LeaderIsrAndControllerEpoch(leader, 4, replicas, 3), 7)
        context.partitions[ORDERS] = harness.store.states[ORDERS] = state
    return harness


def execute(harness: ControllerMachine, steps: Steps[Any]) -> tuple[list[Action], Any]:
    executed, result = [], None
    try:
        while True:
            executed.append(steps.send(result))
            result = harness.store.answer(executed[-1], EPOCH)
    except StopIteration as end:
        return executed, end.value


@pytest.mark.parametrize("target", PartitionState)
@pytest.mark.parametrize("state", PartitionState)
def test_partition_moves_only_as_the_table_allows(state: PartitionState, target: PartitionState) -> None:
    harness = machine(leader=None if state is PartitionState.NEW else 1)
    harness.context.set_partition_state(ORDERS, state)
    executed, _ = execute(harness, handle_partition_state_changes(harness.context, [ORDERS], target))
    is_allowed = (state, target) in PARTITION_TRANSITIONS
    assert harness.context.partition_state(ORDERS) is (target if is_allowed else state)
    assert bool(executed) == (is_allowed and target is PartitionState.ONLINE)


@pytest.mark.parametrize("target", ReplicaState)
@pytest.mark.parametrize("state", ReplicaState)
def test_replica_moves_only_as_the_table_allows(state: ReplicaState, target: ReplicaState) -> None:
    harness, replica = machine(), Replica(ORDERS, 2)
    if state is not ReplicaState.NON_EXISTENT:
        harness.context.replica_states[replica] = state
    executed, _ = execute(harness, handle_replica_state_changes(harness.context, [replica], target))
    is_allowed = (state, target) in REPLICA_TRANSITIONS
    assert harness.context.replica_state(replica) is (target if is_allowed else state)
    assert is_allowed or not executed


def test_new_replica_of_a_led_partition_gets_its_state() -> None:
    harness = machine()
    replica = Replica(ORDERS, 2)
    executed, _ = execute(harness, handle_replica_state_changes(harness.context, [replica], ReplicaState.NEW))
    led, published = executed
    assert isinstance(led, SendLeaderAndIsr)
    assert isinstance(published, SendUpdateMetadata)
    assert (led.broker_id, led.partition_states[ORDERS].is_new) == (2, True)


def test_new_replica_does_not_lead() -> None:
    harness = machine()
    replica = Replica(ORDERS, 1)
    executed, _ = execute(harness, handle_replica_state_changes(harness.context, [replica], ReplicaState.NEW))
    assert executed == []
    assert harness.context.replica_state(replica) is ReplicaState.NON_EXISTENT


def test_deleted_replica_leaves_the_assignment() -> None:
    harness = machine()
    assignment = ReplicaAssignment((1, 2, 3), adding=(3,), removing=(2,))
    harness.context.set_assignment(ORDERS, assignment)
    harness.context.replica_states[Replica(ORDERS, 2)] = ReplicaState.DELETION_SUCCESSFUL
    execute(
        harness,
        handle_replica_state_changes(harness.context, [Replica(ORDERS, 2)], ReplicaState.NON_EXISTENT),
    )
    assert harness.context.assignment_of(ORDERS) == ReplicaAssignment((1, 3), adding=(3,))
    assert harness.context.reassigning == {ORDERS}


def test_stop_replica_has_the_epoch_before_the_removal() -> None:
    harness = machine()
    harness.context.replica_states[Replica(ORDERS, 2)] = ReplicaState.ONLINE
    executed, _ = execute(
        harness, handle_replica_state_changes(harness.context, [Replica(ORDERS, 2)], ReplicaState.OFFLINE)
    )
    (stop,) = (action for action in executed if isinstance(action, SendStopReplica))
    assert stop.partitions == {ORDERS: (4, False)}
    assert harness.context.partitions[ORDERS].leader_and_isr.leader_epoch == 5


def test_partition_stays_new_if_its_state_cannot_be_written() -> None:
    harness = machine(leader=None)
    harness.store = FailingStore()
    harness.context.set_partition_state(ORDERS, PartitionState.NEW)
    executed, results = execute(
        harness, handle_partition_state_changes(harness.context, [ORDERS], PartitionState.ONLINE)
    )
    assert [type(action) for action in executed] == [WritePartitionStates]
    assert results == {}
    assert harness.context.partition_state(ORDERS) is PartitionState.NEW


@pytest.mark.parametrize("election", Election)
def test_election_fails_if_its_state_cannot_be_written(election: Election) -> None:
    harness = machine((2, 1))
    harness.store = FailingStore()
    harness.context.set_partition_state(ORDERS, PartitionState.OFFLINE)
    _, results = execute(
        harness, handle_partition_state_changes(harness.context, [ORDERS], PartitionState.ONLINE, election)
    )
    assert isinstance(results[ORDERS], ElectionFailed)
    assert harness.context.partition_state(ORDERS) is PartitionState.OFFLINE


def test_conflicts_are_read_again_a_bounded_number_of_times() -> None:
    harness = machine()
    store = FailingStore()
    store.states, store.is_conflict = dict(harness.store.states), True
    harness.store = store
    harness.context.set_partition_state(ORDERS, PartitionState.OFFLINE)
    executed, results = execute(
        harness, handle_partition_state_changes(harness.context, [ORDERS], PartitionState.ONLINE)
    )
    assert len(executed) == 2 * ATTEMPTS_MAX
    assert isinstance(results[ORDERS], ElectionFailed)
    harness.context.replica_states[Replica(ORDERS, 2)] = ReplicaState.ONLINE
    executed, _ = execute(
        harness, handle_replica_state_changes(harness.context, [Replica(ORDERS, 2)], ReplicaState.OFFLINE)
    )
    assert len([action for action in executed if isinstance(action, WritePartitionStates)]) == ATTEMPTS_MAX


@pytest.mark.parametrize(
    ("election", "leader", "recipients"),
    [
        (Election.PREFERRED, 2, [1, 2, 3]),
        (Election.REASSIGNMENT, 3, [2, 3]),
        (Election.CONTROLLED_SHUTDOWN, 2, [1, 2, 3]),
        (Election.OFFLINE, 2, [1, 2, 3]),
    ],
)
def test_election_tells_its_replicas(election: Election, leader: int, recipients: list[int]) -> None:
    harness = machine((2, 1, 3), leader=1)
    harness.context.set_partition_state(ORDERS, PartitionState.ONLINE)
    if election is Election.REASSIGNMENT:
        harness.context.set_assignment(ORDERS, ReplicaAssignment((3, 2, 1), adding=(3,), removing=(1,)))
    if election is Election.CONTROLLED_SHUTDOWN:
        harness.context.shutting_down.add(1)
    executed, results = execute(
        harness, handle_partition_state_changes(harness.context, [ORDERS], PartitionState.ONLINE, election)
    )
    assert results[ORDERS].leader_and_isr.leader == leader
    assert [a.broker_id for a in executed if isinstance(a, SendLeaderAndIsr)] == recipients


def test_unclean_election_on_request_needs_no_setting() -> None:
    harness = machine((1, 2))
    del harness.context.brokers[1]
    state = VersionedLeaderAndIsr(LeaderIsrAndControllerEpoch(1, 4, (1,), 3), 7)
    harness.context.partitions[ORDERS] = harness.store.states[ORDERS] = state
    harness.context.set_partition_state(ORDERS, PartitionState.OFFLINE)
    executed, results = execute(
        harness,
        handle_partition_state_changes(harness.context, [ORDERS], PartitionState.ONLINE, Election.UNCLEAN),
    )
    assert results[ORDERS].leader_and_isr == LeaderIsrAndControllerEpoch(2, 5, (2,), EPOCH, True)
    assert isinstance(executed[0], WritePartitionStates)
