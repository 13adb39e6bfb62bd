"""Reads and writes of the controller in the store: outcomes, conflicts, fencing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.controller.actions import (
    NO_VERSION,
    AssignTopicIds,
    PartitionStateWrite,
    ReadAssignment,
    ReadPartitionStates,
    ReadReassignmentNode,
    ReadUncleanElection,
    RemoveDeletionMarks,
    RemoveIsrNotifications,
    RemoveLogDirNotifications,
    RemovePreferredElectionNode,
    RemoveReassignmentNode,
    RemoveTopic,
    WriteAssignment,
    WritePartitionStates,
    WriteReassignmentNode,
)
from odradek.controller.store_actions import StoreActions
from odradek.model.ids import TopicPartition
from odradek.store.broker_registration import create_top_level_paths
from odradek.store.configs import change_config
from odradek.store.controller_election import ControllerMoved, elect
from odradek.store.embedded.database import MEMORY
from odradek.store.embedded.ensemble import EmbeddedEnsemble
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import (
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicAssignment,
    encode_partitions,
)
from odradek.store.partition_states import read_partition_states_and_zxids
from odradek.store.port import BadVersion, NoNode
from odradek.store.topics import create_topic, mark_for_deletion, read_topics
from odradek.testing.clock import VirtualClock, run_virtually
from odradek.testing.entropy import SeededEntropy

ORDERS = [TopicPartition("orders", number) for number in range(3)]
ASSIGNMENT = TopicAssignment(b"o" * 16, {number: ReplicaAssignment((1, 2)) for number in range(3)})
STATE = LeaderIsrAndControllerEpoch(1, 0, (1, 2), 1)
NEXT = LeaderIsrAndControllerEpoch(2, 1, (2,), 1)


class StoreFixture:
    def __init__(self, ensemble: EmbeddedEnsemble) -> None:
        self.ensemble = ensemble
        self.store = ensemble.connect()
        self.is_unclean = False
        self.actions: Any = None

    async def open(self) -> None:
        await create_top_level_paths(self.store)
        fence = await elect(self.store, 1, 0)
        assert fence is not None
        self.actions = StoreActions(self.store, fence, SeededEntropy(0), lambda: self.is_unclean)
        await create_topic(self.store, "orders", ASSIGNMENT, {})

    async def execute(self, action: Any) -> Any:
        return await self.actions.execute(action)

    async def replace_controller(self) -> None:
        await self.store.delete(znode_paths.CONTROLLER)
        assert await elect(self.ensemble.connect(), 2, 0) is not None


Scenario = Callable[[StoreFixture], Awaitable[None]]


@pytest.fixture
def run_scenario() -> Callable[[Scenario], None]:
    def run(scenario: Scenario) -> None:
        async def main() -> None:
            ensemble = EmbeddedEnsemble(MEMORY, VirtualClock(asyncio.get_running_loop()))
            fixture = StoreFixture(ensemble)
            try:
                await fixture.open()
                await scenario(fixture)
            finally:
                await ensemble.close()

        run_virtually(main)

    return run


def create(*partitions: TopicPartition) -> WritePartitionStates:
    return WritePartitionStates({p: PartitionStateWrite(STATE, NO_VERSION) for p in partitions})


def test_states_are_created_replaced_and_read(run_scenario):
    async def scenario(fixture):
        outcome = await fixture.execute(create(*ORDERS))
        assert outcome.written == dict.fromkeys(ORDERS, (STATE, 0))
        outcome = await fixture.execute(WritePartitionStates({ORDERS[1]: PartitionStateWrite(NEXT, 0)}))
        assert outcome.written == {ORDERS[1]: (NEXT, 1)}
        states = await fixture.execute(ReadPartitionStates([*ORDERS, TopicPartition("nowhere", 0)]))
        assert states == {ORDERS[0]: (STATE, 0), ORDERS[1]: (NEXT, 1), ORDERS[2]: (STATE, 0)}

    run_scenario(scenario)


def test_conflicts_and_failures_are_told_apart(run_scenario):
    async def scenario(fixture):
        await fixture.execute(create(ORDERS[0]))
        gone = TopicPartition("nowhere", 0)
        outcome = await fixture.execute(
            WritePartitionStates(
                {
                    ORDERS[0]: PartitionStateWrite(NEXT, 7),
                    ORDERS[1]: PartitionStateWrite(STATE, NO_VERSION),
                    gone: PartitionStateWrite(NEXT, 0),
                }
            )
        )
        assert outcome.written == {ORDERS[1]: (STATE, 0)}
        assert list(outcome.conflicts) == [ORDERS[0]]
        assert {p: type(error) for p, error in outcome.failed.items()} == {gone: NoNode}
        outcome = await fixture.execute(create(ORDERS[0]))
        assert list(outcome.conflicts) == [ORDERS[0]]

    run_scenario(scenario)


def test_state_of_a_deleted_topic_is_not_created(run_scenario):
    async def scenario(fixture):
        gone = TopicPartition("nowhere", 0)
        outcome = await fixture.execute(create(gone))
        assert {p: type(error) for p, error in outcome.failed.items()} == {gone: NoNode}
        assert await fixture.store.exists(znode_paths.topic("nowhere")) is None

    run_scenario(scenario)


def test_undecodable_state_is_omitted(run_scenario):
    async def scenario(fixture):
        await fixture.execute(create(*ORDERS))
        await fixture.store.set(znode_paths.partition_state(ORDERS[1]), b"no json")
        assert list(await fixture.execute(ReadPartitionStates(ORDERS))) == [ORDERS[0], ORDERS[2]]

    run_scenario(scenario)


@pytest.mark.parametrize(
    "action",
    [
        create(ORDERS[0]),
        WriteAssignment("orders", ASSIGNMENT),
        AssignTopicIds({"orders": TopicAssignment(None, ASSIGNMENT.partitions)}),
        RemoveTopic("orders"),
        RemoveDeletionMarks(["marked"]),
        WriteReassignmentNode({ORDERS[0]: (1,)}),
        RemoveReassignmentNode(),
        RemovePreferredElectionNode(),
        RemoveIsrNotifications(["isr_change_0000000000"]),
        RemoveLogDirNotifications(["log_dir_event_0000000000"]),
    ],
    ids=lambda action: type(action).__name__,
)
def test_former_controller_writes_nothing(run_scenario, action):
    async def scenario(fixture):
        await mark_for_deletion(fixture.store, "marked")
        await fixture.execute(WriteReassignmentNode({ORDERS[2]: (9,)}))
        await fixture.store.create(znode_paths.PREFERRED_REPLICA_ELECTION, encode_partitions(ORDERS))
        await fixture.store.create("/isr_change_notification/isr_change_", b"", sequence=True)
        await fixture.store.create("/log_dir_event_notification/log_dir_event_", b"", sequence=True)
        await fixture.replace_controller()
        nodes = {path: node[0] for path, node in fixture.ensemble.tree.nodes.items()}
        with pytest.raises(ControllerMoved):
            await fixture.execute(action)
        assert {path: node[0] for path, node in fixture.ensemble.tree.nodes.items()} == nodes

    run_scenario(scenario)


def test_assignment_is_written_over_the_version_that_was_read(run_scenario):
    async def scenario(fixture):
        first = await fixture.execute(ReadAssignment("orders"))
        grown = TopicAssignment(ASSIGNMENT.topic_id, {**ASSIGNMENT.partitions, 3: ReplicaAssignment((1, 2))})
        await fixture.execute(WriteAssignment("orders", grown, first.version))
        with pytest.raises(BadVersion):
            await fixture.execute(WriteAssignment("orders", ASSIGNMENT, first.version))
        assert (await fixture.execute(ReadAssignment("orders"))).assignment == grown
        assert await fixture.execute(ReadAssignment("nowhere")) is None

    run_scenario(scenario)


def test_zxid_of_a_state_is_that_of_its_last_write(run_scenario):
    async def scenario(fixture):
        await fixture.execute(create(*ORDERS))
        _, created = await read_partition_states_and_zxids(fixture.store, ORDERS)
        registered = await fixture.store.create("/brokers/ids/7", b"{}")
        await fixture.execute(WritePartitionStates({ORDERS[1]: PartitionStateWrite(NEXT, 0)}))
        states, zxids = await read_partition_states_and_zxids(fixture.store, ORDERS)
        broker_epoch = (await fixture.store.get(registered))[1].czxid
        assert states[ORDERS[1]].leader_and_isr == NEXT
        assert created[ORDERS[0]] == zxids[ORDERS[0]] < broker_epoch < zxids[ORDERS[1]]

    run_scenario(scenario)


def test_topic_ids_are_written_and_returned(run_scenario):
    async def scenario(fixture):
        bare = TopicAssignment(None, ASSIGNMENT.partitions)
        await create_topic(fixture.store, "old", bare, {})
        assigned = await fixture.execute(AssignTopicIds({"old": bare}))
        assert assigned["old"].topic_id is not None
        assert assigned["old"].partitions == bare.partitions
        assert (await read_topics(fixture.store))["old"].assignment == assigned["old"]

    run_scenario(scenario)


def test_unclean_election_is_the_override_or_the_default(run_scenario):
    async def scenario(fixture):
        await change_config(fixture.store, "topics", "lossy", {"unclean.leader.election.enable": "true"})
        await change_config(fixture.store, "topics", "safe", {"unclean.leader.election.enable": "FALSE"})
        await fixture.store.create(znode_paths.config("topics", "damaged"), b"no json")
        topics = ["lossy", "safe", "orders", "damaged"]
        read = ReadUncleanElection(topics)
        assert await fixture.execute(read) == {"lossy": True, "safe": False, "orders": False}
        fixture.is_unclean = True
        assert await fixture.execute(read) == {"lossy": True, "safe": False, "orders": True}

    run_scenario(scenario)


def test_topics_marks_and_requests_are_removed(run_scenario):
    async def scenario(fixture):
        assert await fixture.execute(ReadReassignmentNode()) == {}
        await fixture.execute(WriteReassignmentNode({ORDERS[0]: (2, 3)}))
        assert await fixture.execute(ReadReassignmentNode()) == {ORDERS[0]: (2, 3)}
        await fixture.execute(RemoveReassignmentNode())
        await mark_for_deletion(fixture.store, "unknown")
        await fixture.execute(RemoveDeletionMarks(["unknown", "never marked"]))
        await mark_for_deletion(fixture.store, "orders")
        await fixture.execute(create(*ORDERS))
        await fixture.execute(RemoveTopic("orders"))
        await fixture.execute(RemoveTopic("orders"))
        assert await read_topics(fixture.store) == {}
        assert await fixture.store.children(znode_paths.DELETE_TOPICS) == []
        assert await fixture.store.exists(znode_paths.REASSIGN_PARTITIONS) is None

    run_scenario(scenario)
