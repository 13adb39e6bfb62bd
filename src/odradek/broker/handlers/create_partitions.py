"""CreatePartitions, versions 0 to 3: more partitions for topics that exist."""

from __future__ import annotations

from collections import Counter

from odradek.broker.requests.dispatcher import Call
from odradek.broker.topics.topic_planning import PartitionIncrease
from odradek.model.errors import ErrorCode
from odradek.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


async def create_partitions(request: CreatePartitionsRequest, call: Call) -> CreatePartitionsResponse:
    names = Counter(topic.name for topic in request.topics)
    wanted = [_wanted(topic) for topic in request.topics if names[topic.name] == 1]
    outcomes = await call.broker.topics.add_partitions(
        wanted, request.timeout_ms, validate_only=request.validate_only
    )
    results = [CreatePartitionsTopicResult(o.name, o.code, o.message) for o in outcomes]
    results += [
        CreatePartitionsTopicResult(name, ErrorCode.INVALID_REQUEST, "named more than once")
        for name, count in names.items()
        if count > 1
    ]
    return CreatePartitionsResponse(results=results)


def _wanted(topic: CreatePartitionsTopic) -> PartitionIncrease:
    assignments = None
    if topic.assignments is not None:
        assignments = [tuple(one.broker_ids) for one in topic.assignments]
    return PartitionIncrease(topic.name, topic.count, assignments)


def refuse(
    request: CreatePartitionsRequest, code: ErrorCode, message: str | None
) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[CreatePartitionsTopicResult(topic.name, code, message) for topic in request.topics]
    )
