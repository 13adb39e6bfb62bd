"""ListPartitionReassignments, version 0: the reassignments in progress, of some or all partitions."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.requests.dispatcher import RequestContext
from odradek.controller.events import ReassignmentsListed
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.store.layout.znodes import ReplicaAssignment
from odradek.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


async def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    context.require_on_cluster(AclOperation.DESCRIBE)
    partitions = None
    if request.topics is not None:
        partitions = frozenset(
            TopicPartition(topic.name, number)
            for topic in request.topics
            for number in topic.partition_indexes
        )
    ongoing: Mapping[
        TopicPartition, ReplicaAssignment
    ] = await context.broker.membership.require_controller().submit(ReassignmentsListed(partitions))
    topics: dict[str, OngoingTopicReassignment] = {}
    for (name, number), assignment in sorted(ongoing.items()):
        topic = topics.setdefault(name, OngoingTopicReassignment(name, []))
        topic.partitions.append(
            OngoingPartitionReassignment(
                number, list(assignment.replicas), list(assignment.adding), list(assignment.removing)
            )
        )
    return ListPartitionReassignmentsResponse(topics=list(topics.values()))


def error_response(
    request: ListPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=code, error_message=message)
