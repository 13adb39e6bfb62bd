"""OffsetDelete, version 0: delete a group's offsets of partitions that it is not subscribed to.

Unknown partitions get their own error; with an error of the group the response has no partitions.
"""

from __future__ import annotations

from odradek.broker.handlers.group_requests import (
    absence_error,
    partition_exists,
    require_group_id,
    submit_to_group,
)
from odradek.broker.requests.dispatcher import RequestContext
from odradek.broker.requests.pending_response import PendingResponse
from odradek.coordinators.groups.commands import DeleteOffsets, DeleteOffsetsResult
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def offset_delete(
    request: OffsetDeleteRequest, context: RequestContext
) -> PendingResponse[OffsetDeleteResponse]:
    context.require(AclOperation.DELETE, AclResourceType.GROUP, request.group_id)
    denied = context.denied(AclOperation.READ, AclResourceType.TOPIC, (t.name for t in request.topics))
    require_group_id(request.group_id)
    requested = dict.fromkeys(
        TopicPartition(topic.name, part.partition_index)
        for topic in request.topics
        for part in topic.partitions
    )
    command = DeleteOffsets(
        request.group_id,
        tuple(
            partition
            for partition in requested
            if partition.topic not in denied and partition_exists(context, partition)
        ),
    )
    return submit_to_group(
        context, request.group_id, command, lambda deleted: _response(request, deleted, denied)
    )


def _response(
    request: OffsetDeleteRequest, deleted: DeleteOffsetsResult, denied: frozenset[str]
) -> OffsetDeleteResponse:
    if deleted.error is not ErrorCode.NONE:
        return OffsetDeleteResponse(error_code=deleted.error)
    codes = deleted.errors
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                topic.name,
                [
                    OffsetDeleteResponsePartition(
                        index, codes.get(TopicPartition(topic.name, index), absence_error(topic.name, denied))
                    )
                    for index in (part.partition_index for part in topic.partitions)
                ],
            )
            for topic in request.topics
        ]
    )


def error_response(
    request: OffsetDeleteRequest, code: ErrorCode, message: str | None
) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=code)
