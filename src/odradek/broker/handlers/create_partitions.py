"""CreatePartitions, versions 0 to 3: add partitions to existing topics."""

from __future__ import annotations

from collections import Counter

from odradek.broker.requests.dispatcher import RequestContext
from odradek.broker.requests.request_meter import mutation_quota
from odradek.broker.topics.topic_planning import PartitionIncrease
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import ErrorCode
from odradek.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

STRICT_QUOTA_SINCE = 3


async def create_partitions(
    request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse:
    context.broker.membership.require_controller()
    names = Counter(topic.name for topic in request.topics)
    distinct = [topic for topic in request.topics if names[topic.name] == 1]
    denied = context.denied(AclOperation.ALTER, AclResourceType.TOPIC, (topic.name for topic in distinct))
    increases = [_partition_increase(topic) for topic in distinct if topic.name not in denied]
    outcomes = await context.broker.admin_manager.create_partitions(
        increases,
        request.timeout_ms,
        mutation_quota(context.meter, is_strict=context.version >= STRICT_QUOTA_SINCE),
        validate_only=request.validate_only,
    )
    results = [
        CreatePartitionsTopicResult(outcome.name, outcome.code, outcome.message) for outcome in outcomes
    ]
    results += [
        CreatePartitionsTopicResult(name, ErrorCode.INVALID_REQUEST, "each topic must appear at most once")
        for name, count in names.items()
        if count > 1
    ]
    results += [
        CreatePartitionsTopicResult(topic.name, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        for topic in distinct
        if topic.name in denied
    ]
    return CreatePartitionsResponse(results=results)


def _partition_increase(topic: CreatePartitionsTopic) -> PartitionIncrease:
    assignments = None
    if topic.assignments is not None:
        assignments = [tuple(assignment.broker_ids) for assignment in topic.assignments]
    return PartitionIncrease(topic.name, topic.count, assignments)


def error_response(
    request: CreatePartitionsRequest, code: ErrorCode, message: str | None
) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[CreatePartitionsTopicResult(topic.name, code, message) for topic in request.topics]
    )
