"""DescribeDelegationToken, versions 0 to 3: the tokens of owners that the sender may see, with their HMACs.

v1 is as v0, v2 is flexible, v3 adds the requester of each token.
"""

from __future__ import annotations

from odradek.broker.handlers.delegation_token_requests import (
    enabled_tokens,
    requester_in,
    require_identity,
)
from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import ErrorCode
from odradek.security.principal import KafkaPrincipal
from odradek.security.tokens.token_information import DelegationToken
from odradek.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


def describe_delegation_token(
    request: DescribeDelegationTokenRequest, context: RequestContext
) -> DescribeDelegationTokenResponse:
    require_identity(context)
    tokens = enabled_tokens(context)
    owners = request.owners
    selected = tokens.describe(
        context.session.principal,
        None
        if owners is None
        else {KafkaPrincipal(each.principal_type, each.principal_name) for each in owners},
        lambda token_id: context.is_allowed(
            AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, token_id, False
        ),
        lambda owner: context.is_allowed(
            AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, str(owner), False
        ),
    )
    return DescribeDelegationTokenResponse(
        ErrorCode.NONE, [_described(token, context.version) for token in selected]
    )


def _described(token: DelegationToken, version: int) -> DescribedDelegationToken:
    information = token.information
    return DescribedDelegationToken(
        *information.owner,
        *requester_in(version, information.requester),
        information.issue_timestamp,
        information.expiry_timestamp,
        information.max_timestamp,
        information.token_id,
        token.hmac,
        [DescribedDelegationTokenRenewer(*renewer) for renewer in information.renewers],
    )


def error_response(
    request: DescribeDelegationTokenRequest, code: ErrorCode, message: str | None
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(code, [])
