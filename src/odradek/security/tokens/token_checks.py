"""Checks of requests about delegation tokens, as in Kafka's KafkaApis. Refusals are BrokerErrors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from odradek.model.errors import BrokerError, ErrorCode
from odradek.security.principal import ANONYMOUS, USER_TYPE, KafkaPrincipal

RENEWERS_MAX: Final = 1000
"""Most renewers of a token, so that it fits into a znode."""


def check_connection(principal: KafkaPrincipal, security_protocol: str, is_token_authenticated: bool) -> None:
    """Refuse requests about tokens on a connection that proves nobody's identity, or only by a token."""
    if (
        is_token_authenticated
        or security_protocol == "PLAINTEXT"
        or (security_protocol == "SSL" and principal == ANONYMOUS)
    ):
        raise BrokerError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def check_creation(
    owner: KafkaPrincipal,
    requester: KafkaPrincipal,
    renewers: Sequence[KafkaPrincipal],
    may_create_for: Callable[[KafkaPrincipal], bool],
) -> None:
    """Refuse a token for somebody else without CreateTokens on that user, and renewers that are no users."""
    if owner != requester and not may_create_for(owner):
        raise BrokerError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    if any(renewer.principal_type != USER_TYPE for renewer in renewers):
        raise BrokerError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    if len(renewers) > RENEWERS_MAX:
        raise BrokerError(
            ErrorCode.INVALID_REQUEST, f"renewers must be at most {RENEWERS_MAX}, got {len(renewers)}"
        )
