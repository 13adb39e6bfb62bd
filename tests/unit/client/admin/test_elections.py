"""Leader elections of the admin client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.client.admin.api_handler import ApiError
from odradek.client.admin.elections import read_elections
from odradek.client.admin.topics import NewTopic
from odradek.model.client_errors import PartialFailure
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.model.protocol_enums import ElectionType
from odradek.wire.messages.elect_leaders import ElectLeadersResponse, PartitionResult, ReplicaElectionResult

RunWithAdmin = Callable[..., None]
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def test_partitions_with_their_preferred_leader_need_no_election(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await fixture.admin.create_topics([NewTopic("a", 2)])
        assert await fixture.admin.elect_leaders([A0]) == {A0: False}
        assert await fixture.admin.elect_leaders(election_type="unclean") == {A0: False, A1: False}
        with pytest.raises(PartialFailure, match="UNKNOWN_TOPIC_OR_PARTITION") as raised:
            await fixture.admin.elect_leaders([A0, TopicPartition("a", 7)])
        assert raised.value.results == {A0: False}

    run_with_admin(scenario)


def test_unknown_election_type_is_an_error(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        with pytest.raises(ValueError, match="must be 'preferred' or 'unclean', got 'popular'"):
            await fixture.admin.elect_leaders([A0], election_type="popular")
        assert await fixture.admin.elect_leaders([], election_type=ElectionType.UNCLEAN) == {}

    run_with_admin(scenario)


def test_response_has_a_result_for_each_partition() -> None:
    results = [
        PartitionResult(0, ErrorCode.NONE, None),
        PartitionResult(1, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "it is down"),
    ]
    response = ElectLeadersResponse(replica_election_results=[ReplicaElectionResult("a", results)])
    assert dict(read_elections([A0, A1], response)) == {
        A0: True,
        A1: ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "it is down"),
    }


def test_error_of_the_whole_request_is_the_error_of_each_partition() -> None:
    response = ElectLeadersResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    error = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert dict(read_elections([A0, A1], response)) == {A0: error, A1: error}
