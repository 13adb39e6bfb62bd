"""Decisions on requests about delegation tokens, with the checks of Kafka's token manager.

Nothing here writes. ``create``, ``renew`` and ``expire`` return what to store; the caller stores it,
announces the change, and tells the cache. Refusals are BrokerErrors.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.secret import Secret
from odradek.security.principal import KafkaPrincipal
from odradek.security.tokens.token_cache import TokenCache
from odradek.security.tokens.token_information import DelegationToken, TokenInformation, token_hmac

TOKEN_ID_SIZE: Final = 16


class TokenSettings(NamedTuple):
    """``delegation.token.max.lifetime.ms`` and ``delegation.token.expiry.time.ms``."""

    max_lifetime_ms: int = 7 * 24 * 3600 * 1000
    expiry_time_ms: int = 24 * 3600 * 1000


class Expiration(NamedTuple):
    """The outcome of an expire request: the token to store, or None if it is to be removed."""

    token_id: str
    information: TokenInformation | None
    expiry_timestamp: int


class DelegationTokenManager:
    """Tokens of a cluster. ``secret_key`` is None if ``delegation.token.secret.key`` is not set."""

    def __init__(
        self, secret_key: Secret | None, settings: TokenSettings, random_bytes: Callable[[int], bytes]
    ) -> None:
        has_key = secret_key is not None and bool(secret_key.reveal())
        self._secret_key = secret_key if has_key else None
        self._settings = settings
        self._random_bytes = random_bytes
        self._cache = TokenCache(self._secret_key, random_bytes) if self._secret_key is not None else None

    @property
    def cache(self) -> TokenCache:
        """Tokens by id. Raises BrokerError if tokens are disabled."""
        if self._cache is None:
            raise BrokerError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
        return self._cache

    @property
    def is_enabled(self) -> bool:
        return self._cache is not None

    def create(
        self,
        owner: KafkaPrincipal,
        requester: KafkaPrincipal,
        renewers: Sequence[KafkaPrincipal],
        max_lifetime_ms: int,
        now_ms: int,
    ) -> DelegationToken:
        """Return a new token. A lifetime of 0 or less is the configured one, which also is the longest."""
        if self._secret_key is None:
            raise BrokerError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
        longest = self._settings.max_lifetime_ms
        lifetime_ms = longest if max_lifetime_ms <= 0 else min(max_lifetime_ms, longest)
        max_timestamp = now_ms + lifetime_ms
        expiry_timestamp = min(max_timestamp, now_ms + self._settings.expiry_time_ms)
        token_id = base64.urlsafe_b64encode(self._random_bytes(TOKEN_ID_SIZE)).rstrip(b"=").decode("ascii")
        information = TokenInformation(
            token_id, owner, requester, tuple(renewers), now_ms, max_timestamp, expiry_timestamp
        )
        return DelegationToken(information, token_hmac(token_id, self._secret_key))

    def renew(self, principal: KafkaPrincipal, hmac: bytes, period_ms: int, now_ms: int) -> TokenInformation:
        """Return the token with a later expiry; a negative period is the configured one."""
        information = self._changeable(principal, hmac)
        if information.is_expired(now_ms):
            raise BrokerError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        period_ms = self._settings.expiry_time_ms if period_ms < 0 else period_ms
        return information._replace(expiry_timestamp=min(information.max_timestamp, now_ms + period_ms))

    def expire(self, principal: KafkaPrincipal, hmac: bytes, period_ms: int, now_ms: int) -> Expiration:
        """Return the token with another expiry; a negative period removes it at once."""
        information = self._changeable(principal, hmac)
        if period_ms < 0:
            return Expiration(information.token_id, None, now_ms)
        if information.is_expired(now_ms):
            raise BrokerError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        expiry_timestamp = min(information.max_timestamp, now_ms + period_ms)
        changed = information._replace(expiry_timestamp=expiry_timestamp)
        return Expiration(information.token_id, changed, expiry_timestamp)

    def _changeable(self, principal: KafkaPrincipal, hmac: bytes) -> TokenInformation:
        token = self.cache.token_of_hmac(hmac)
        if token is None:
            raise BrokerError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        if not token.information.may_be_renewed_by(principal):
            raise BrokerError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
        return token.information

    def describe(
        self,
        requester: KafkaPrincipal,
        owners: Collection[KafkaPrincipal] | None,
        may_describe_token: Callable[[str], bool],
        may_describe_owner: Callable[[KafkaPrincipal], bool],
    ) -> list[DelegationToken]:
        """Return the tokens that concern one of ``owners`` (None: all) and that the requester may see.

        ``may_describe_token`` is the authorization of Describe on a token's id, ``may_describe_owner`` that
        of DescribeTokens on a user.
        """
        return [
            token
            for token in self.cache.tokens()
            if (owners is None or any(token.information.concerns(owner) for owner in owners))
            and (
                token.information.concerns(requester)
                or may_describe_token(token.information.token_id)
                or may_describe_owner(token.information.owner)
            )
        ]

    def expired(self, now_ms: int) -> list[str]:
        """Return the ids of tokens to remove, each ``delegation.token.expiry.check.interval.ms``."""
        return [
            token.information.token_id
            for token in self.cache.tokens()
            if token.information.is_expired(now_ms)
        ]
