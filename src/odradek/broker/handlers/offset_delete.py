"""OffsetDelete, version 0: forget a group's offsets in partitions that it does not read any more.

Partitions that are not there are refused one by one; an error of the group is the only answer then.
"""

from __future__ import annotations

from odradek.broker.handlers.group_requests import ask_group, exists, require_name
from odradek.broker.requests.dispatcher import Call
from odradek.broker.requests.pending_response import Pending
from odradek.coordinators.groups.commands import DeleteOffsets, DeleteOffsetsResult
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def offset_delete(request: OffsetDeleteRequest, call: Call) -> Pending[OffsetDeleteResponse]:
    require_name(request.group_id)
    asked = dict.fromkeys(
        TopicPartition(topic.name, part.partition_index)
        for topic in request.topics
        for part in topic.partitions
    )
    command = DeleteOffsets(request.group_id, tuple(one for one in asked if exists(call, one)))
    return ask_group(call, request.group_id, command, lambda deleted: _response(request, deleted))


def _response(request: OffsetDeleteRequest, deleted: DeleteOffsetsResult) -> OffsetDeleteResponse:
    if deleted.error is not ErrorCode.NONE:
        return OffsetDeleteResponse(error_code=deleted.error)
    codes = deleted.errors
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                topic.name,
                [
                    OffsetDeleteResponsePartition(
                        index, codes.get(TopicPartition(topic.name, index), missing)
                    )
                    for index in (part.partition_index for part in topic.partitions)
                ],
            )
            for topic in request.topics
        ]
    )


def refuse(request: OffsetDeleteRequest, code: ErrorCode, message: str | None) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=code)
