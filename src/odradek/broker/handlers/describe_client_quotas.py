"""DescribeClientQuotas, versions 0 and 1: always empty, because quotas cannot be set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.broker.requests.dispatcher import RequestContext
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
    check_filter([component.entity_type for component in request.components])
    return DescribeClientQuotasResponse(entries=[])


def check_filter(types: Sequence[str]) -> None:
    """Reject invalid combinations of entity types."""
    for entity_type in types:
        if not entity_type:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "Unexpected empty filter component entity type")
        if entity_type not in (USER, CLIENT_ID, IP):
            raise BrokerError(
                ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{entity_type[:249]}' not supported"
            )
        if types.count(entity_type) > 1:
            raise BrokerError(
                ErrorCode.INVALID_REQUEST, f"Duplicate {entity_type} filter component entity type"
            )
    if IP in types and len(types) > 1:
        raise BrokerError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination, IP filter component should not be used with "
            "user or clientId filter component.",
        )


def error_response(
    request: DescribeClientQuotasRequest, code: ErrorCode, message: str | None
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=code, error_message=message, entries=None)
