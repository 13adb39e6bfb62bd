"""Delegation tokens (KIP-48, KIP-373): who may act as whom, and until when."""

from __future__ import annotations

import base64
import hmac
from typing import Final, NamedTuple

from odradek.model.secret import Secret
from odradek.security.principal import KafkaPrincipal

HMAC_ALGORITHM: Final = "sha512"


class TokenInformation(NamedTuple):
    """Everything about a token but its HMAC. Timestamps are milliseconds since the epoch."""

    token_id: str
    owner: KafkaPrincipal
    requester: KafkaPrincipal
    renewers: tuple[KafkaPrincipal, ...]
    issue_timestamp: int
    max_timestamp: int
    expiry_timestamp: int

    def is_expired(self, now_ms: int) -> bool:
        return self.max_timestamp < now_ms or self.expiry_timestamp < now_ms

    def may_be_renewed_by(self, principal: KafkaPrincipal) -> bool:
        return principal == self.owner or principal in self.renewers

    def concerns(self, principal: KafkaPrincipal) -> bool:
        """Return whether a principal is the token's owner, requester or a renewer."""
        return principal == self.requester or self.may_be_renewed_by(principal)


class DelegationToken(NamedTuple):
    """A token with its HMAC, which is its password in base64. ``repr`` does not reveal it."""

    information: TokenInformation
    hmac: bytes

    @property
    def password(self) -> Secret:
        return Secret(base64.b64encode(self.hmac).decode("ascii"))

    def __repr__(self) -> str:
        return f"DelegationToken({self.information!r}, hmac=[hidden])"


def token_hmac(token_id: str, secret_key: Secret) -> bytes:
    """Return the HMAC of a token id under ``delegation.token.secret.key``, which all brokers share."""
    return hmac.digest(secret_key.reveal().encode("utf-8"), token_id.encode("utf-8"), HMAC_ALGORITHM)
