"""DescribeClientQuotas, versions 0 and 1: always empty, because quotas cannot be set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.broker.requests.dispatcher import RequestContext
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"


def describe_client_quotas(
    request: DescribeClientQuotasRequest, context: RequestContext
) -> DescribeClientQuotasResponse:
    context.require_on_cluster(AclOperation.DESCRIBE_CONFIGS)
    check_filter([component.entity_type for component in request.components])
    return DescribeClientQuotasResponse(entries=[])


def check_filter(types: Sequence[str]) -> None:
    """Reject invalid combinations of entity types."""
    for entity_type in types:
        if not entity_type:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "entity type must be non-empty, got ''")
        if entity_type not in (USER, CLIENT_ID, IP):
            raise BrokerError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"entity type must be user, client-id or ip, got '{entity_type[:249]}'",
            )
        if types.count(entity_type) > 1:
            raise BrokerError(
                ErrorCode.INVALID_REQUEST, f"each entity type must appear once, got {entity_type} twice"
            )
    if IP in types and len(types) > 1:
        raise BrokerError(
            ErrorCode.INVALID_REQUEST,
            f"entity type ip must not be combined with others, got {', '.join(types)}",
        )


def error_response(
    request: DescribeClientQuotasRequest, code: ErrorCode, message: str | None
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=code, error_message=message, entries=None)
