"""AddOffsetsToTxn, versions 0 to 4: the offsets of a group join a transaction.

That is, the partition of the offsets topic does which the group belongs to. v2 clients know PRODUCER_FENCED,
v3 is flexible, v4 only adds an error.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.handlers.transaction_requests import ask_coordinator, fenced_as_known
from odradek.broker.requests.dispatcher import Call
from odradek.broker.requests.pending_response import Pending
from odradek.coordinators.transactions.commands import AddPartitions, AddPartitionsResult
from odradek.model.errors import ErrorCode
from odradek.model.ids import OFFSETS_TOPIC, TopicPartition
from odradek.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FENCED_SINCE: Final = 2


def add_offsets_to_txn(request: AddOffsetsToTxnRequest, call: Call) -> Pending[AddOffsetsToTxnResponse]:
    partition = TopicPartition(OFFSETS_TOPIC, call.broker.groups.partition_of(request.group_id))
    command = AddPartitions(
        request.transactional_id, request.producer_id, request.producer_epoch, (partition,)
    )

    def told(answer: AddPartitionsResult) -> AddOffsetsToTxnResponse:
        code = fenced_as_known(answer.errors[partition], call.version, FENCED_SINCE)
        return AddOffsetsToTxnResponse(error_code=code)

    return ask_coordinator(call, request.transactional_id, command, told)


def refuse(request: AddOffsetsToTxnRequest, code: ErrorCode, message: str | None) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=code)
