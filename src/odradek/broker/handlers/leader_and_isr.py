"""LeaderAndIsr, versions 0 to 7: become leader or follower of partitions, on behalf of the controller.

v1 adds is_new, v2 the broker epoch and the grouping by topic, v5 topic ids, by which the response is grouped
from then on, v6 the leader recovery state, v7 is_kraft_controller.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping

from odradek.broker.requests.broker_epoch import is_broker_epoch_stale
from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicId, TopicPartition
from odradek.replication.control_requests import requested_roles
from odradek.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)

Result = LeaderAndIsrResponse | Coroutine[None, None, LeaderAndIsrResponse]


def leader_and_isr(request: LeaderAndIsrRequest, context: RequestContext) -> Result:
    context.require_on_cluster(AclOperation.CLUSTER_ACTION)
    if is_broker_epoch_stale(request.broker_epoch, context.broker.broker_epoch()):
        return error_response(request, ErrorCode.STALE_BROKER_EPOCH, None)
    return _apply(request, context)


async def _apply(request: LeaderAndIsrRequest, context: RequestContext) -> LeaderAndIsrResponse:
    error, partition_errors = await context.broker.replica_manager.become_leader_or_follower(request)
    return error_response(request, error, None) if error else _response(request, partition_errors)


def _response(
    request: LeaderAndIsrRequest,
    partition_errors: Mapping[TopicPartition, ErrorCode],
    error: ErrorCode = ErrorCode.NONE,
) -> LeaderAndIsrResponse:
    """Return a response in the forms of all versions: errors by name, and by topic id."""
    response = LeaderAndIsrResponse(error)
    topics: dict[TopicId, LeaderAndIsrTopicError] = {}
    for topic_partition, topic_id, _ in requested_roles(request):
        topic, number = topic_partition
        entry = LeaderAndIsrPartitionError(topic, number, partition_errors[topic_partition])
        response.partition_errors.append(entry)
        if topic_id not in topics:
            topics[topic_id] = LeaderAndIsrTopicError(topic_id, [])
            response.topics.append(topics[topic_id])
        topics[topic_id].partition_errors.append(entry)
    return response


def error_response(
    request: LeaderAndIsrRequest, code: ErrorCode, message: str | None
) -> LeaderAndIsrResponse:
    partitions = (requested.topic_partition for requested in requested_roles(request))
    return _response(request, dict.fromkeys(partitions, code), code)
