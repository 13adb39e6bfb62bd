"""DeleteRecords, versions 0 to 2: move a partition's start forward.

Offset -1 means the high watermark; nothing past the high watermark can go. Topics of the brokers' own are
refused by name. The answer waits until every
replica has moved its start (with one replica: at once), or the time is up.
"""

from __future__ import annotations

from odradek.broker.requests.dispatcher import Call
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import INTERNAL_TOPICS
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


def delete_records(request: DeleteRecordsRequest, call: Call) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(topic.name, [_one(topic.name, part, call) for part in topic.partitions])
            for topic in request.topics
        ]
    )


def _one(topic: str, part: DeleteRecordsPartition, call: Call) -> DeleteRecordsPartitionResult:
    image = call.broker.image
    if topic in INTERNAL_TOPICS and image.partition(topic, part.partition_index) is not None:
        return DeleteRecordsPartitionResult(part.partition_index, -1, ErrorCode.INVALID_TOPIC_EXCEPTION)
    try:
        low_watermark = call.broker.replicas.get_leader_partition(
            topic, part.partition_index
        ).delete_records_on_leader(part.offset)
    except BrokerError as refused:
        return DeleteRecordsPartitionResult(part.partition_index, -1, refused.code)
    return DeleteRecordsPartitionResult(part.partition_index, low_watermark)


def refuse(request: DeleteRecordsRequest, code: ErrorCode, message: str | None) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                topic.name,
                [DeleteRecordsPartitionResult(part.partition_index, -1, code) for part in topic.partitions],
            )
            for topic in request.topics
        ]
    )
