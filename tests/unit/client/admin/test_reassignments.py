"""Partition reassignments of the admin client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.client.admin.api_handler import ApiError
from odradek.client.admin.reassignments import PartitionReassignment, read_altered, read_listed
from odradek.client.admin.topics import NewTopic
from odradek.model.client_errors import PartialFailure
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from odradek.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

RunWithAdmin = Callable[..., None]
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def test_reassignments_on_one_broker(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        admin = fixture.admin
        await admin.create_topics([NewTopic("a", 2)])
        (broker,) = [node.id for node in (await admin.describe_cluster()).nodes]
        await admin.alter_partition_reassignments({A0: [broker], A1: (broker,)})
        assert await admin.list_partition_reassignments() == {}
        assert await admin.list_partition_reassignments([A0]) == {}
        with pytest.raises(PartialFailure) as raised:
            await admin.alter_partition_reassignments({A0: [broker], A1: [broker + 1]})
        assert raised.value.errors[A1].code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert list(raised.value.results) == [A0]
        with pytest.raises(PartialFailure, match="NO_REASSIGNMENT_IN_PROGRESS"):
            await admin.alter_partition_reassignments({A0: None})
        with pytest.raises(PartialFailure, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await admin.alter_partition_reassignments({TopicPartition("b", 0): [broker]})

    run_with_admin(scenario)


def test_origin_and_target_of_a_reassignment() -> None:
    reassignment = PartitionReassignment((3, 1, 2), adding=(3,), removing=(1, 2))
    assert (reassignment.origin, reassignment.target) == ((1, 2), (3,))


def test_response_has_a_result_for_each_partition() -> None:
    results = [
        ReassignablePartitionResponse(0, ErrorCode.NONE, None),
        ReassignablePartitionResponse(1, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 9 is down"),
    ]
    response = AlterPartitionReassignmentsResponse(responses=[ReassignableTopicResponse("a", results)])
    assert dict(read_altered([A0, A1], response)) == {
        A0: None,
        A1: ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 9 is down"),
    }


def test_error_of_the_whole_request_is_the_error_of_each_partition() -> None:
    response = AlterPartitionReassignmentsResponse(error_code=ErrorCode.NOT_CONTROLLER, error_message="moved")
    error = ApiError(ErrorCode.NOT_CONTROLLER, "moved")
    assert dict(read_altered([A0, A1], response)) == {A0: error, A1: error}


def test_listed_reassignments_by_partition() -> None:
    ongoing = OngoingTopicReassignment("a", [OngoingPartitionReassignment(1, [3, 1], [3], [1])])
    response = ListPartitionReassignmentsResponse(topics=[ongoing])
    assert dict(read_listed([None], response)) == {None: {A1: PartitionReassignment((3, 1), (3,), (1,))}}
    failed = ListPartitionReassignmentsResponse(error_code=ErrorCode.NOT_CONTROLLER, error_message="moved")
    assert dict(read_listed([None], failed)) == {None: ApiError(ErrorCode.NOT_CONTROLLER, "moved")}
