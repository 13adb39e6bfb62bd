"""DeleteRecords, versions 0 to 2: advance the log start offset of partitions.

Offset -1 means the high watermark; records beyond the high watermark cannot be deleted. Internal topics are
rejected. The response waits until every live replica has advanced, and the future log of one that moves to
another directory (otherwise, with one replica: at once), or for the timeout.
"""

from __future__ import annotations

from odradek.broker.requests.dispatcher import RequestContext
from odradek.broker.requests.pending_response import PendingResponse
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import INTERNAL_TOPICS
from odradek.replication.delayed.delayed_delete_records import (
    DelayedDeleteRecords,
    DeleteRecordsPartitionStatus,
)
from odradek.replication.delete_records import delete_records_on_leader
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

Result = DeleteRecordsResponse | PendingResponse[DeleteRecordsResponse]


def delete_records(request: DeleteRecordsRequest, context: RequestContext) -> Result:
    denied = context.denied(AclOperation.DELETE, AclResourceType.TOPIC, (t.name for t in request.topics))
    waiting: list[DeleteRecordsPartitionStatus] = []
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                topic.name,
                [
                    _denied_entry(part)
                    if topic.name in denied
                    else _delete(topic.name, part, context, waiting)
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
    if not waiting:
        return response
    pending: PendingResponse[DeleteRecordsResponse] = PendingResponse()
    context.broker.replica_manager.delay_delete_records(
        DelayedDeleteRecords(waiting, lambda: pending.complete(response)),
        [status.partition for status in waiting],
        request.timeout_ms,
    )
    return pending


def _denied_entry(part: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(part.partition_index, -1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _delete(
    topic: str,
    part: DeleteRecordsPartition,
    context: RequestContext,
    waiting: list[DeleteRecordsPartitionStatus],
) -> DeleteRecordsPartitionResult:
    metadata_cache = context.broker.metadata_cache
    if topic in INTERNAL_TOPICS and metadata_cache.partition(topic, part.partition_index) is not None:
        return DeleteRecordsPartitionResult(part.partition_index, -1, ErrorCode.INVALID_TOPIC_EXCEPTION)
    try:
        partition = context.broker.replica_manager.get_leader_partition(topic, part.partition_index)
        requested_offset, low_watermark = delete_records_on_leader(partition, part.offset)
        context.broker.replica_manager.complete_delayed_fetches(partition)
    except BrokerError as error:
        return DeleteRecordsPartitionResult(part.partition_index, -1, error.code)
    entry = DeleteRecordsPartitionResult(part.partition_index, low_watermark)
    if low_watermark < requested_offset:
        waiting.append(DeleteRecordsPartitionStatus(partition, requested_offset, entry))
    return entry


def error_response(
    request: DeleteRecordsRequest, code: ErrorCode, message: str | None
) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                topic.name,
                [DeleteRecordsPartitionResult(part.partition_index, -1, code) for part in topic.partitions],
            )
            for topic in request.topics
        ]
    )
