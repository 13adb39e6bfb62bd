"""AddOffsetsToTxn, versions 0 to 4: add the offsets partition of a group to a transaction.

v2 clients know PRODUCER_FENCED, v3 is flexible, v4 only adds an error.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.handlers.transaction_requests import producer_fenced_for_version, submit_to_coordinator
from odradek.broker.requests.dispatcher import RequestContext
from odradek.broker.requests.pending_response import PendingResponse
from odradek.coordinators.transactions.commands import AddPartitions, AddPartitionsResult
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import ErrorCode
from odradek.model.ids import OFFSETS_TOPIC, TopicPartition
from odradek.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

PRODUCER_FENCED_SINCE: Final = 2


def add_offsets_to_txn(
    request: AddOffsetsToTxnRequest, context: RequestContext
) -> PendingResponse[AddOffsetsToTxnResponse]:
    context.require(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id)
    context.require(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    partition = TopicPartition(OFFSETS_TOPIC, context.broker.group_coordinator.partition_of(request.group_id))
    command = AddPartitions(
        request.transactional_id, request.producer_id, request.producer_epoch, (partition,)
    )

    def on_result(result: AddPartitionsResult) -> AddOffsetsToTxnResponse:
        code = producer_fenced_for_version(result.errors[partition], context.version, PRODUCER_FENCED_SINCE)
        return AddOffsetsToTxnResponse(error_code=code)

    return submit_to_coordinator(context, request.transactional_id, command, on_result)


def error_response(
    request: AddOffsetsToTxnRequest, code: ErrorCode, message: str | None
) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=code)
