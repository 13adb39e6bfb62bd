"""InitProducerId, versions 0 to 5: a producer id for an idempotent producer.

v3 lets a producer that met an error ask for its epoch to be raised (KIP-360); without a transactional id a
fresh id serves as well, which is what Kafka answers. Transactional ids have no coordinator yet and are told
so.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from odradek.broker.dispatch import Call
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

Result = InitProducerIdResponse | Coroutine[Any, Any, InitProducerIdResponse]


def init_producer_id(request: InitProducerIdRequest, call: Call) -> Result:
    if request.transactional_id is not None:
        if not request.transactional_id:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "a transactional id must not be empty")
        raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no transaction coordinator runs here")
    producer_id = call.broker.producer_ids.try_next()
    if producer_id is None:
        return _from_next_block(call)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def _from_next_block(call: Call) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=await call.broker.producer_ids.next_id(), producer_epoch=0)


def refuse(request: InitProducerIdRequest, code: ErrorCode, message: str | None) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=-1)
