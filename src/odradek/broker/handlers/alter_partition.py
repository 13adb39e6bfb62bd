"""AlterPartition, versions 0 to 3: a leader proposes a new ISR to the controller.

v1 adds the recovery state, v2 names topics by id, v3 gives each ISR member with its broker epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.broker.requests.dispatcher import RequestContext
from odradek.controller import broker_epochs
from odradek.controller.alter_partition import IsrChange, decide
from odradek.controller.controller_context import ControllerContext
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicId, TopicPartition
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


def alter_partition(request: AlterPartitionRequest, context: RequestContext) -> AlterPartitionResponse:
    controller_context = context.broker.membership.require_controller().context
    error = broker_epochs.check_equal(controller_context, request.broker_id, request.broker_epoch)
    if error:
        return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    names = {topic.topic_id: name for name, topic in controller_context.topics.items() if topic.topic_id}
    return AlterPartitionResponse(
        topics=[_alter_topic(topic, names, context.version, controller_context) for topic in request.topics]
    )


def _alter_topic(
    topic: AlterPartitionRequestTopicData,
    names: Mapping[TopicId, str],
    version: int,
    controller_context: ControllerContext,
) -> AlterPartitionResponseTopicData:
    name = names.get(topic.topic_id) if version >= IDS_SINCE else topic.topic_name
    return AlterPartitionResponseTopicData(
        topic_name=name or "",
        topic_id=topic.topic_id,
        partitions=[_alter(name, part, version, controller_context) for part in topic.partitions],
    )


def _alter(
    name: str | None,
    part: AlterPartitionRequestPartitionData,
    version: int,
    controller_context: ControllerContext,
) -> AlterPartitionResponsePartitionData:
    if name is None:
        return AlterPartitionResponsePartitionData(part.partition_index, ErrorCode.UNKNOWN_TOPIC_ID)
    with_epochs = version >= BROKER_EPOCHS_SINCE
    isr = [member.broker_id for member in part.new_isr_with_epochs] if with_epochs else part.new_isr
    change = IsrChange(part.leader_epoch, part.partition_epoch, isr, part.leader_recovery_state == 1)
    decision = decide(controller_context, TopicPartition(name, part.partition_index), change)
    error = decision.error
    if error == ErrorCode.INELIGIBLE_REPLICA and version < INELIGIBLE_SINCE:
        error = ErrorCode.OPERATION_NOT_ATTEMPTED
    if decision.is_change:
        # No ISR can change in a cluster of one broker, which is all that this controller runs yet.
        error = ErrorCode.OPERATION_NOT_ATTEMPTED
    if error or decision.stored is None:
        return AlterPartitionResponsePartitionData(part.partition_index, error)
    state = decision.stored.leader_and_isr
    return AlterPartitionResponsePartitionData(
        part.partition_index,
        ErrorCode.NONE,
        state.leader,
        state.leader_epoch,
        list(state.isr),
        int(state.is_recovering),
        decision.stored.version,
    )


def error_response(
    request: AlterPartitionRequest, code: ErrorCode, message: str | None
) -> AlterPartitionResponse:
    return AlterPartitionResponse(error_code=code)
