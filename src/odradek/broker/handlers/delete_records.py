"""DeleteRecords, versions 0 to 2: advance the log start offset of partitions.

Offset -1 means the high watermark; records beyond the high watermark cannot be deleted. Internal topics are
rejected. The response waits until every replica has advanced (with one replica: at once), or for the timeout.
"""

from __future__ import annotations

from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import INTERNAL_TOPICS
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


def delete_records(request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                topic.name, [_delete(topic.name, part, context) for part in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _delete(
    topic: str, part: DeleteRecordsPartition, context: RequestContext
) -> DeleteRecordsPartitionResult:
    metadata_cache = context.broker.metadata_cache
    if topic in INTERNAL_TOPICS and metadata_cache.partition(topic, part.partition_index) is not None:
        return DeleteRecordsPartitionResult(part.partition_index, -1, ErrorCode.INVALID_TOPIC_EXCEPTION)
    try:
        low_watermark = context.broker.replica_manager.get_leader_partition(
            topic, part.partition_index
        ).delete_records_on_leader(part.offset)
    except BrokerError as error:
        return DeleteRecordsPartitionResult(part.partition_index, -1, error.code)
    return DeleteRecordsPartitionResult(part.partition_index, low_watermark)


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
