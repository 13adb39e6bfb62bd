"""AlterPartition, versions 0 to 3: a leader proposes a new ISR to the controller.

v1 adds the recovery state, v2 names topics by id, v3 gives each ISR member with its broker epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.broker.requests.dispatcher import RequestContext
from odradek.controller.events import AlterPartitionRequested, IsrChange
from odradek.controller.replies import AlterPartitionReply
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicId, TopicPartition
from odradek.store.partition_states import VersionedLeaderAndIsr
from odradek.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)

INELIGIBLE_SINCE: Final = 2
IDS_SINCE: Final = 2
BROKER_EPOCHS_SINCE: Final = 3


async def alter_partition(request: AlterPartitionRequest, context: RequestContext) -> AlterPartitionResponse:
    context.require_on_cluster(AclOperation.CLUSTER_ACTION)
    controller = context.broker.membership.require_controller()
    names = {topic.topic_id: name for name, topic in controller.context.topics.items() if topic.topic_id}
    changes: dict[TopicPartition, IsrChange] = {}
    for topic in request.topics:
        name = _topic_name(topic, names, context.version)
        if name is not None:
            for part in topic.partitions:
                changes[TopicPartition(name, part.partition_index)] = _isr_change(part, context.version)
    reply: AlterPartitionReply = await controller.submit(
        AlterPartitionRequested(request.broker_id, request.broker_epoch, changes)
    )
    if reply.error:
        return AlterPartitionResponse(error_code=reply.error)
    topics = [_topic_response(topic, names, reply, context.version) for topic in request.topics]
    return AlterPartitionResponse(topics=topics)


def _topic_name(
    topic: AlterPartitionRequestTopicData, names: Mapping[TopicId, str], version: int
) -> str | None:
    return names.get(topic.topic_id) if version >= IDS_SINCE else topic.topic_name


def _isr_change(part: AlterPartitionRequestPartitionData, version: int) -> IsrChange:
    with_epochs = version >= BROKER_EPOCHS_SINCE
    isr = [member.broker_id for member in part.new_isr_with_epochs] if with_epochs else part.new_isr
    return IsrChange(part.leader_epoch, part.partition_epoch, tuple(isr), part.leader_recovery_state == 1)


def _topic_response(
    topic: AlterPartitionRequestTopicData,
    names: Mapping[TopicId, str],
    reply: AlterPartitionReply,
    version: int,
) -> AlterPartitionResponseTopicData:
    name = _topic_name(topic, names, version)
    results = [
        ErrorCode.UNKNOWN_TOPIC_ID
        if name is None
        else reply.partitions[TopicPartition(name, part.partition_index)]
        for part in topic.partitions
    ]
    return AlterPartitionResponseTopicData(
        topic_name=name or "",
        topic_id=topic.topic_id,
        partitions=[
            _partition_response(part.partition_index, result, version)
            for part, result in zip(topic.partitions, results, strict=True)
        ],
    )


def _partition_response(
    number: int, result: VersionedLeaderAndIsr | ErrorCode, version: int
) -> AlterPartitionResponsePartitionData:
    if isinstance(result, ErrorCode):
        if result is ErrorCode.INELIGIBLE_REPLICA and version < INELIGIBLE_SINCE:
            result = ErrorCode.OPERATION_NOT_ATTEMPTED
        return AlterPartitionResponsePartitionData(number, result)
    state = result.leader_and_isr
    return AlterPartitionResponsePartitionData(
        number,
        ErrorCode.NONE,
        state.leader,
        state.leader_epoch,
        list(state.isr),
        int(state.is_recovering),
        result.version,
    )


def error_response(
    request: AlterPartitionRequest, code: ErrorCode, message: str | None
) -> AlterPartitionResponse:
    return AlterPartitionResponse(error_code=code)
