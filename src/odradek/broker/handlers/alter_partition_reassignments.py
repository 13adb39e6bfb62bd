"""AlterPartitionReassignments, version 0: assign the replicas of partitions to brokers.

There is one broker: only the current replicas are accepted. Tools that move replicas between log directories
send this before AlterReplicaLogDirs.
"""

from __future__ import annotations

from odradek.broker.requests.dispatcher import RequestContext
from odradek.broker.topics.topic_planning import check_reassignment
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    context.broker.membership.require_controller()
    return AlterPartitionReassignmentsResponse(
        responses=[
            ReassignableTopicResponse(
                topic.name, [_reassign(topic.name, part, context) for part in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _reassign(
    topic: str, part: ReassignablePartition, context: RequestContext
) -> ReassignablePartitionResponse:
    metadata_cache = context.broker.metadata_cache
    partition = metadata_cache.partition(topic, part.partition_index)
    current = None if partition is None else partition.replicas
    try:
        check_reassignment(part.replicas, current, metadata_cache.alive_brokers)
    except BrokerError as error:
        return ReassignablePartitionResponse(part.partition_index, error.code, error.message)
    return ReassignablePartitionResponse(part.partition_index)


def error_response(
    request: AlterPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(error_code=code, error_message=message)
