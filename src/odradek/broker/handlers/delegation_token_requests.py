"""Shared parts of the delegation token handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from odradek.broker.requests.dispatcher import RequestContext
from odradek.config.listeners import protocol_of
from odradek.model.errors import BrokerError, ErrorCode
from odradek.security.principal import KafkaPrincipal
from odradek.security.tokens.token_checks import check_connection

if TYPE_CHECKING:
    from odradek.broker.security.delegation_tokens import DelegationTokens

NO_TIMESTAMP: Final = -1
"""Timestamp in responses with an error."""
NOBODY: Final = KafkaPrincipal("", "")
REQUESTER_SINCE: Final = 3
"""Version that added the requester of a token (KIP-373)."""


def require_identity(context: RequestContext) -> None:
    """Refuse a connection that proves nobody's identity, or only by a token."""
    session = context.session
    protocol = protocol_of(context.broker.config.broker, session.listener_name)
    check_connection(session.principal, protocol.value, session.authenticated_with_token)


def requester_in(version: int, requester: KafkaPrincipal) -> KafkaPrincipal:
    """Return the requester of a token for a response; nobody in versions without the field."""
    return requester if version >= REQUESTER_SINCE else NOBODY


def enabled_tokens(context: RequestContext) -> DelegationTokens:
    """Return the delegation tokens; raises BrokerError if they are disabled."""
    tokens = context.broker.delegation_tokens
    if tokens is None:
        raise BrokerError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return tokens
