"""InitProducerId, versions 0 to 5: a producer id and an epoch, for an idempotent or a transactional producer.

v3 lets a producer bump its epoch after an error (KIP-360); without a transactional id it gets a new producer
id, as in Kafka. v4 clients know PRODUCER_FENCED.

With a transactional id the request goes to its coordinator, which aborts an open transaction of an earlier
producer and fences it. Producer ids come from the store, which the coordinator's shard cannot use: it
returns NEEDS_PRODUCER_ID, and the command is submitted again with a new id.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from odradek.broker.handlers.transaction_requests import producer_fenced_for_version, submit_to_coordinator
from odradek.broker.requests.authorization import denial, log_denial
from odradek.broker.requests.dispatcher import RequestContext
from odradek.broker.requests.pending_response import PendingResponse
from odradek.coordinators.transactions.commands import NEEDS_PRODUCER_ID, InitProducerId
from odradek.model.acl_enums import CLUSTER_NAME, AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from odradek.security.acls.authorizer import AclAuthorizer
from odradek.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

PRODUCER_FENCED_SINCE: Final = 4

DeferredResult = Coroutine[Any, Any, Any]
Result = InitProducerIdResponse | PendingResponse[Any] | DeferredResult


def init_producer_id(request: InitProducerIdRequest, context: RequestContext) -> Result:
    if context.authorizer is not None:
        _authorize(request, context, context.authorizer)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise BrokerError(
            ErrorCode.INVALID_REQUEST, "producer id and producer epoch must both be set, or both be -1"
        )
    if request.transactional_id is not None:
        return _submit(
            InitProducerId(
                request.transactional_id,
                request.transaction_timeout_ms,
                request.producer_id,
                request.producer_epoch,
            ),
            context,
        )
    producer_id = context.broker.producer_id_manager.try_generate_producer_id()
    if producer_id is None:
        return _from_next_block(context)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _authorize(request: InitProducerIdRequest, context: RequestContext, authorizer: AclAuthorizer) -> None:
    """Require the transactional id, or for an idempotent producer that it may write anything at all."""
    if request.transactional_id is not None:
        context.require(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id)
    elif not context.is_allowed_on_cluster(AclOperation.IDEMPOTENT_WRITE, log_if_denied=False):
        session = context.session
        if not authorizer.is_allowed_on_any(
            session.principal, session.peer_host, AclOperation.WRITE, AclResourceType.TOPIC
        ):
            log_denial(context, AclOperation.IDEMPOTENT_WRITE, AclResourceType.CLUSTER, CLUSTER_NAME)
            raise denial(AclOperation.IDEMPOTENT_WRITE, AclResourceType.CLUSTER)


async def _from_next_block(context: RequestContext) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        producer_id=await context.broker.producer_id_manager.generate_producer_id(), producer_epoch=0
    )


def _submit(command: InitProducerId, context: RequestContext) -> PendingResponse[Any]:
    def on_result(result: Any) -> InitProducerIdResponse | DeferredResult:
        if result is NEEDS_PRODUCER_ID:
            return _submit_again(command, context)
        code = producer_fenced_for_version(result.error, context.version, PRODUCER_FENCED_SINCE)
        return InitProducerIdResponse(
            error_code=code, producer_id=result.producer_id, producer_epoch=result.producer_epoch
        )

    return submit_to_coordinator(context, command.transactional_id, command, on_result)


async def _submit_again(command: InitProducerId, context: RequestContext) -> PendingResponse[Any]:
    new_producer_id = await context.broker.producer_id_manager.generate_producer_id()
    return _submit(command._replace(new_producer_id=new_producer_id), context)


def error_response(
    request: InitProducerIdRequest, code: ErrorCode, message: str | None
) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=-1)
