"""InitProducerId, versions 0 to 5: a producer id and an epoch, for an idempotent or a transactional producer.

v3 lets a producer that met an error ask for its epoch to be raised (KIP-360); without a transactional id a
fresh id serves as well, which is what Kafka answers. v4 clients know PRODUCER_FENCED.

With a transactional id this asks its coordinator, which ends what an earlier producer of the id left undone
and fences it off. Producer ids come from the store, which a coordinator cannot ask: it says that it needs one
and is asked again.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from odradek.broker.handlers.transaction_requests import ask_coordinator, fenced_as_known
from odradek.broker.requests.dispatcher import Call
from odradek.broker.requests.pending_response import Pending
from odradek.coordinators.transactions.commands import NEEDS_PRODUCER_ID, InitProducerId
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from odradek.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

FENCED_SINCE: Final = 4

Later = Coroutine[Any, Any, Any]
Result = InitProducerIdResponse | Pending[Any] | Later


def init_producer_id(request: InitProducerIdRequest, call: Call) -> Result:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise BrokerError(ErrorCode.INVALID_REQUEST, "a producer id and its epoch are given together")
    if request.transactional_id is not None:
        return _ask(
            InitProducerId(
                request.transactional_id,
                request.transaction_timeout_ms,
                request.producer_id,
                request.producer_epoch,
            ),
            call,
        )
    producer_id = call.broker.producer_ids.try_generate_producer_id()
    if producer_id is None:
        return _from_next_block(call)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def _from_next_block(call: Call) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        producer_id=await call.broker.producer_ids.generate_producer_id(), producer_epoch=0
    )


def _ask(command: InitProducerId, call: Call) -> Pending[Any]:
    def told(answer: Any) -> InitProducerIdResponse | Later:
        if answer is NEEDS_PRODUCER_ID:
            return _ask_again(command, call)
        code = fenced_as_known(answer.error, call.version, FENCED_SINCE)
        return InitProducerIdResponse(
            error_code=code, producer_id=answer.producer_id, producer_epoch=answer.producer_epoch
        )

    return ask_coordinator(call, command.transactional_id, command, told)


async def _ask_again(command: InitProducerId, call: Call) -> Pending[Any]:
    new_producer_id = await call.broker.producer_ids.generate_producer_id()
    return _ask(command._replace(new_producer_id=new_producer_id), call)


def refuse(request: InitProducerIdRequest, code: ErrorCode, message: str | None) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=-1)
