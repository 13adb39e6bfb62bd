"""ElectLeaders, versions 0 to 2: preferred and unclean leader election.

The response waits until this broker's metadata shows the new leaders, or for the timeout. For a request of
all partitions, those that need no election are omitted. v0 knows only preferred elections.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.broker.requests.dispatcher import RequestContext
from odradek.controller.controller import Controller
from odradek.controller.events import ElectLeadersRequested
from odradek.controller.replies import ApiError
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import TopicPartition
from odradek.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

PREFERRED: Final = 0
UNCLEAN: Final = 1


async def elect_leaders(request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    context.require_on_cluster(AclOperation.ALTER)
    election_type = request.election_type
    if election_type not in (PREFERRED, UNCLEAN):
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"election type must be 0 or 1, got {election_type}")
    partitions = _requested_partitions(request)
    requested = None if partitions is None else frozenset(partitions)
    try:
        controller = context.broker.membership.require_controller()
        results: Mapping[TopicPartition, ApiError] = await controller.submit(
            ElectLeadersRequested(requested, election_type == UNCLEAN)
        )
    except BrokerError as error:
        if error.code is not ErrorCode.NOT_CONTROLLER:
            raise
        return _not_controller(request)
    results = await _await_leaders(results, controller, request.timeout_ms, context)
    if partitions is None:
        needed = [p for p in sorted(results) if results[p].code is not ErrorCode.ELECTION_NOT_NEEDED]
        return _response(needed, results)
    return _response(partitions, results)


def _requested_partitions(request: ElectLeadersRequest) -> list[TopicPartition] | None:
    if request.topic_partitions is None:
        return None
    return [TopicPartition(topic.topic, n) for topic in request.topic_partitions for n in topic.partitions]


async def _await_leaders(
    results: Mapping[TopicPartition, ApiError],
    controller: Controller,
    timeout_ms: int,
    context: RequestContext,
) -> Mapping[TopicPartition, ApiError]:
    """Wait for the elected leaders; those that this broker does not hear of in time are timed out."""
    states = controller.context.partitions
    leaders = {
        partition: states[partition].leader_and_isr.leader
        for partition, error in results.items()
        if error.code is ErrorCode.NONE and partition in states
    }
    late = await context.broker.admin_manager.await_leaders(leaders, timeout_ms)
    return {**results, **dict.fromkeys(late, ApiError(ErrorCode.REQUEST_TIMED_OUT))}


def _response(
    partitions: list[TopicPartition], results: Mapping[TopicPartition, ApiError]
) -> ElectLeadersResponse:
    topics: dict[str, ReplicaElectionResult] = {}
    for partition in partitions:
        topic = topics.setdefault(partition.topic, ReplicaElectionResult(partition.topic, []))
        code, message = results[partition]
        topic.partition_result.append(PartitionResult(partition.partition, code, message))
    return ElectLeadersResponse(replica_election_results=list(topics.values()))


def _not_controller(request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Return NOT_CONTROLLER per partition: for a request of all partitions, as in Kafka, for none."""
    response = error_response(request, ErrorCode.NOT_CONTROLLER, None)
    response.error_code = ErrorCode.NONE
    return response


def error_response(
    request: ElectLeadersRequest, code: ErrorCode, message: str | None
) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic.topic, [PartitionResult(number, code, message) for number in topic.partitions]
            )
            for topic in request.topic_partitions or ()
        ],
    )
