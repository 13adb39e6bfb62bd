"""AlterPartitionReassignments, version 0: choose the brokers that hold a partition's replicas.

There is one broker: the replicas a partition has are accepted, others are refused. Tools that move replicas
between directories send this before AlterReplicaLogDirs.
"""

from __future__ import annotations

from odradek.broker.requests.dispatcher import Call
from odradek.broker.topics.topic_planning import judge_reassignment
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, call: Call
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        responses=[
            ReassignableTopicResponse(topic.name, [_one(topic.name, part, call) for part in topic.partitions])
            for topic in request.topics
        ]
    )


def _one(topic: str, part: ReassignablePartition, call: Call) -> ReassignablePartitionResponse:
    image = call.broker.image
    partition = image.partition(topic, part.partition_index)
    current = None if partition is None else partition.replicas
    try:
        judge_reassignment(part.replicas, current, image.alive_brokers)
    except BrokerError as refused:
        return ReassignablePartitionResponse(part.partition_index, refused.code, refused.message)
    return ReassignablePartitionResponse(part.partition_index)


def refuse(
    request: AlterPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(error_code=code, error_message=message)
