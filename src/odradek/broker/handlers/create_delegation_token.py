"""CreateDelegationToken, versions 0 to 3: create a token that authenticates as its owner.

v1 is as v0, v2 is flexible, v3 adds the owner, who may be another user, and the requester.
"""

from __future__ import annotations

from odradek.broker.handlers.delegation_token_requests import (
    NO_TIMESTAMP,
    NOBODY,
    enabled_tokens,
    requester_in,
    require_identity,
)
from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.security.principal import USER_TYPE, KafkaPrincipal
from odradek.security.tokens.token_checks import check_creation
from odradek.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)


async def create_delegation_token(
    request: CreateDelegationTokenRequest, context: RequestContext
) -> CreateDelegationTokenResponse:
    requester = context.session.principal
    owner = _owner(request, requester)
    try:
        return await _create(request, context, owner)
    except BrokerError as error:
        return _failure(error.code, owner, requester_in(context.version, requester))


async def _create(
    request: CreateDelegationTokenRequest, context: RequestContext, owner: KafkaPrincipal
) -> CreateDelegationTokenResponse:
    requester = context.session.principal
    renewers = [
        KafkaPrincipal(renewer.principal_type, renewer.principal_name) for renewer in request.renewers
    ]
    require_identity(context)
    check_creation(
        owner,
        requester,
        renewers,
        lambda user: context.is_allowed(AclOperation.CREATE_TOKENS, AclResourceType.USER, str(user)),
    )
    # Whom a token authenticates is a user. Kafka would let a token of Group:alice act as User:alice.
    if owner.principal_type != USER_TYPE:
        raise BrokerError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    tokens = enabled_tokens(context)
    token = await tokens.create(owner, requester, renewers, request.max_lifetime_ms)
    information = token.information
    return CreateDelegationTokenResponse(
        ErrorCode.NONE,
        *owner,
        *requester_in(context.version, requester),
        information.issue_timestamp,
        information.expiry_timestamp,
        information.max_timestamp,
        information.token_id,
        token.hmac,
    )


def _owner(request: CreateDelegationTokenRequest, requester: KafkaPrincipal) -> KafkaPrincipal:
    if not request.owner_principal_name:
        return requester
    return KafkaPrincipal(request.owner_principal_type or "", request.owner_principal_name)


def _failure(
    code: ErrorCode, owner: KafkaPrincipal, requester: KafkaPrincipal
) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        code, *owner, *requester, NO_TIMESTAMP, NO_TIMESTAMP, NO_TIMESTAMP, "", b""
    )


def error_response(
    request: CreateDelegationTokenRequest, code: ErrorCode, message: str | None
) -> CreateDelegationTokenResponse:
    return _failure(code, _owner(request, NOBODY), NOBODY)
