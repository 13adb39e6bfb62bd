"""Delegation tokens that a broker knows, with the SCRAM credentials derived from them."""

from __future__ import annotations

from collections.abc import Callable, Collection

from odradek.model.secret import Secret
from odradek.security.sasl.scram_credential import ScramCredential, create_credential
from odradek.security.sasl.scram_server import TokenCredential
from odradek.security.tokens.token_information import DelegationToken, TokenInformation, token_hmac


class TokenCache:
    """Tokens by id and by HMAC.

    A SCRAM credential is derived when it is first asked for, which takes milliseconds, and kept: brokers may
    start with thousands of tokens. It follows from the HMAC, so a change of lifetime leaves it.
    """

    def __init__(self, secret_key: Secret, random_bytes: Callable[[int], bytes]) -> None:
        self._secret_key = secret_key
        self._random_bytes = random_bytes
        self._tokens: dict[str, DelegationToken] = {}
        self._ids: dict[bytes, str] = {}
        self._credentials: dict[tuple[str, str], ScramCredential] = {}

    def put(self, information: TokenInformation) -> DelegationToken:
        """Add a token, or replace what is known of it."""
        token = DelegationToken(information, token_hmac(information.token_id, self._secret_key))
        self._tokens[information.token_id] = token
        self._ids[token.hmac] = information.token_id
        return token

    def remove(self, token_id: str) -> None:
        """Forget a token, if it is known."""
        token = self._tokens.pop(token_id, None)
        if token is not None:
            del self._ids[token.hmac]
        for key in [key for key in self._credentials if key[1] == token_id]:
            del self._credentials[key]

    def token(self, token_id: str) -> DelegationToken | None:
        return self._tokens.get(token_id)

    def token_of_hmac(self, hmac: bytes) -> DelegationToken | None:
        token_id = self._ids.get(hmac)
        return None if token_id is None else self._tokens[token_id]

    def tokens(self) -> Collection[DelegationToken]:
        return self._tokens.values()

    def credential(self, mechanism: str, token_id: str, now_ms: int) -> TokenCredential | None:
        """Return the credential of a token, or None if it is unknown or expired.

        Kafka lets a token authenticate until its next scan for expired ones; here it ends on time.
        """
        token = self._tokens.get(token_id)
        if token is None or token.information.is_expired(now_ms):
            return None
        credential = self._credentials.get((mechanism, token_id))
        if credential is None:
            credential = create_credential(mechanism, token.password, self._random_bytes)
            self._credentials[mechanism, token_id] = credential
        information = token.information
        return TokenCredential(
            information.owner.name, min(information.expiry_timestamp, information.max_timestamp), credential
        )
