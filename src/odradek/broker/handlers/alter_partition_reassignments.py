"""AlterPartitionReassignments, version 0: move partitions to other replicas, or cancel that."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.requests.dispatcher import RequestContext
from odradek.controller.events import ReassignmentsRequested
from odradek.controller.replies import ApiError
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


async def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    context.require_on_cluster(AclOperation.ALTER)
    targets = {
        TopicPartition(topic.name, part.partition_index): None
        if part.replicas is None
        else tuple(part.replicas)
        for topic in request.topics
        for part in topic.partitions
    }
    results: Mapping[TopicPartition, ApiError] = await context.broker.membership.require_controller().submit(
        ReassignmentsRequested(targets)
    )
    topics: dict[str, ReassignableTopicResponse] = {}
    for partition in targets:
        topic = topics.setdefault(partition.topic, ReassignableTopicResponse(partition.topic, []))
        code, message = results[partition]
        topic.partitions.append(ReassignablePartitionResponse(partition.partition, code, message))
    return AlterPartitionReassignmentsResponse(responses=list(topics.values()))


def error_response(
    request: AlterPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(error_code=code, error_message=message)
