"""Reassignments and elections on a cluster of one broker: Kafka's error codes."""

import pytest

from odradek.broker.handlers.elect_leaders import PREFERRED, UNCLEAN
from odradek.model.errors import ErrorCode
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
def test_election_is_not_needed_for_a_preferred_leader(run_scenario, version, kind):
    async def scenario(harness):
        await harness.create("orders", 2)
        requested = [TopicPartitions("orders", [0, 1, 7]), TopicPartitions("nowhere", [0])]
        request = ElectLeadersRequest(kind if version else PREFERRED, requested, 1000)
        response = await harness.request(ELECT, version, request)
        assert response.error_code == 0
        result = {
            result.topic: [(part.partition_id, part.error_code) for part in result.partition_result]
            for result in response.replica_election_results
        }
        assert result == {
            "orders": [(0, NOT_NEEDED), (1, NOT_NEEDED), (7, MISSING)],
            "nowhere": [(0, MISSING)],
        }

    run_scenario(scenario)


@pytest.mark.parametrize("version", range(3))
def test_election_for_all_partitions_omits_those_that_need_none(run_scenario, version):
    async def scenario(harness):
        own = harness.broker.broker_id
        await harness.create("orders", 2)
        await harness.create("spread", assignments={0: [77, own]})
        response = await harness.request(ELECT, version, ElectLeadersRequest(PREFERRED, None, 1000))
        result = [
            (result.topic, part.partition_id, part.error_code)
            for result in response.replica_election_results
            for part in result.partition_result
        ]
        assert result == [("spread", 0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)]

    run_scenario(scenario)


def test_unknown_election_type_is_rejected(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        requested = [TopicPartitions("orders", [0])]
        response = await harness.request(ELECT, 2, ElectLeadersRequest(5, requested, 1000))
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert (
            response.replica_election_results[0].partition_result[0].error_code == ErrorCode.INVALID_REQUEST
        )

    run_scenario(scenario)


def test_no_reassignment_is_listed(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        for topics in (None, [], [ListPartitionReassignmentsTopics("orders", [0, 5])]):
            response = await harness.request(LIST, 0, ListPartitionReassignmentsRequest(1000, topics))
            assert (response.error_code, response.topics) == (0, [])

    run_scenario(scenario)


def test_each_reassignment_gets_its_own_error(run_scenario):
    async def scenario(harness):
        own = harness.broker.broker_id
        await harness.create("orders", 8)
        new_topics = [[own], None, [own + 1], [], [own, own], [-1], [own, 77]]
        parts = [ReassignablePartition(number, request) for number, request in enumerate(new_topics)]
        other = ReassignableTopic(
            "nowhere", [ReassignablePartition(0, [own]), ReassignablePartition(1, None)]
        )
        request = AlterPartitionReassignmentsRequest(1000, [ReassignableTopic("orders", parts), other])
        response = await harness.request(REASSIGN, 0, request)
        assert response.error_code == 0
        bad, idle = ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        codes = [[part.error_code for part in topic.partitions] for topic in response.responses]
        assert codes == [[0, idle, bad, bad, bad, bad, bad], [MISSING, idle]]

    run_scenario(scenario)
