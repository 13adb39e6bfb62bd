"""Reassignments and elections on a cluster of one broker: Kafka's answers, though nothing can move."""

import pytest

from odradek.broker.handlers.elect_leaders import PREFERRED, UNCLEAN, judge_election
from odradek.broker.topics.topic_planning import judge_reassignment
from odradek.cluster.metadata_cache import PartitionMetadata
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

ELECT, REASSIGN, LIST = 43, 45, 46
MISSING = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NOT_NEEDED = ErrorCode.ELECTION_NOT_NEEDED


@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
@pytest.mark.parametrize("version", range(3))
def test_leaders_that_are_right_are_not_elected(play, version, kind):
    async def scenario(town):
        await town.create("orders", 2)
        asked = [TopicPartitions("orders", [0, 1, 7]), TopicPartitions("nowhere", [0])]
        request = ElectLeadersRequest(kind if version else PREFERRED, asked, 1000)
        answer = await town.ask(ELECT, version, request)
        assert answer.error_code == 0
        found = {
            one.topic: [(part.partition_id, part.error_code) for part in one.partition_result]
            for one in answer.replica_election_results
        }
        assert found == {
            "orders": [(0, NOT_NEEDED), (1, NOT_NEEDED), (7, MISSING)],
            "nowhere": [(0, MISSING)],
        }

    play(scenario)


@pytest.mark.parametrize("version", range(3))
def test_asked_for_all_partitions_those_that_need_no_election_are_left_out(play, version):
    async def scenario(town):
        own = town.broker.broker_id
        await town.create("orders", 2)
        await town.create("spread", assignments={0: [77, own]})
        answer = await town.ask(ELECT, version, ElectLeadersRequest(PREFERRED, None, 1000))
        found = [
            (one.topic, part.partition_id, part.error_code)
            for one in answer.replica_election_results
            for part in one.partition_result
        ]
        assert found == [("spread", 0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)]

    play(scenario)


def test_an_unknown_kind_of_election_is_refused(play):
    async def scenario(town):
        await town.create("orders")
        asked = [TopicPartitions("orders", [0])]
        answer = await town.ask(ELECT, 2, ElectLeadersRequest(5, asked, 1000))
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert answer.replica_election_results[0].partition_result[0].error_code == ErrorCode.INVALID_REQUEST

    play(scenario)


@pytest.mark.parametrize(
    ("kind", "leader", "replicas", "code"),
    [
        (PREFERRED, 1, (1, 2), NOT_NEEDED),
        (PREFERRED, 2, (1, 2), ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (PREFERRED, -1, (1,), ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (UNCLEAN, 2, (1, 2), NOT_NEEDED),
        (UNCLEAN, -1, (2,), ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
        (UNCLEAN, 1, (1, 2), ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ],
)
def test_an_election_is_judged_by_leader_and_live_brokers(kind, leader, replicas, code):
    partition = PartitionMetadata(0, leader, 3, replicas, replicas)
    assert judge_election(kind, partition, {2}).code is code


def test_no_reassignment_is_under_way(play):
    async def scenario(town):
        await town.create("orders")
        for topics in (None, [], [ListPartitionReassignmentsTopics("orders", [0, 5])]):
            answer = await town.ask(LIST, 0, ListPartitionReassignmentsRequest(1000, topics))
            assert (answer.error_code, answer.topics) == (0, [])

    play(scenario)


def test_reassignments_are_judged_partition_by_partition(play):
    async def scenario(town):
        own = town.broker.broker_id
        await town.create("orders", 8)
        wishes = [[own], None, [own + 1], [], [own, own], [-1], [own, 77]]
        parts = [ReassignablePartition(number, wish) for number, wish in enumerate(wishes)]
        other = ReassignableTopic(
            "nowhere", [ReassignablePartition(0, [own]), ReassignablePartition(1, None)]
        )
        request = AlterPartitionReassignmentsRequest(1000, [ReassignableTopic("orders", parts), other])
        answer = await town.ask(REASSIGN, 0, request)
        assert answer.error_code == 0
        bad, idle = ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        codes = [[part.error_code for part in topic.partitions] for topic in answer.responses]
        assert codes == [[0, idle, bad, bad, bad, bad, bad], [MISSING, idle]]

    play(scenario)


@pytest.mark.parametrize(
    ("wanted", "current", "words"),
    [
        ((3,), (1,), "brokers that are not alive"),
        ((), (1,), "Empty replica list"),
        ((1, 1), (1,), "Duplicate replica ids"),
        ((-2,), (1,), "Invalid broker id"),
        ((1,), (3, 1), "replicas cannot be moved between brokers yet"),
        ((1, 3), (3, 1), "replicas cannot be moved between brokers yet"),
        ((1,), None, "The partition does not exist."),
        (None, (1,), None),
    ],
)
def test_why_a_reassignment_is_refused(wanted, current, words):
    with pytest.raises(BrokerError) as refused:
        judge_reassignment(wanted, current, {1, 2})
    assert (words or "") in (refused.value.message or "")
