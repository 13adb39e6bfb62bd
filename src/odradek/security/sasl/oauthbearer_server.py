"""The broker's side of SASL OAUTHBEARER (RFC 7628), as in Kafka's OAuthBearerSaslServer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from odradek.security.sasl.mechanism import OAUTHBEARER, InvalidCredentials, SaslRefused
from odradek.security.sasl.oauthbearer_messages import (
    ACKNOWLEDGE_ERROR,
    InitialResponse,
    format_error,
    parse_initial_response,
)

INVALID_TOKEN: Final = "invalid_token"
OTHER_AUTHORIZATION_ID: Final = (
    "Authentication failed: Client requested an authorization id ({}) that is different from the token's "
    "principal name ({})"
)


class ValidatedToken(NamedTuple):
    """Claims of an access token, once verified."""

    principal_name: str
    expires_at_ms: int
    scopes: frozenset[str] = frozenset()
    issued_at_ms: int | None = None


class OAuthBearerServer:
    """Checks an access token.

    ``validate`` returns the claims of a token, or raises SaslRefused. The client then gets an error as
    JSON; once it has acknowledged that, the exchange is refused with the same JSON.
    """

    def __init__(self, validate: Callable[[str], ValidatedToken]) -> None:
        self._validate = validate
        self._is_used = False
        self._refusal: SaslRefused | None = None
        self._token: ValidatedToken | None = None
        self._extensions: Mapping[str, str] = {}

    def evaluate(self, response: bytes) -> bytes:
        refusal, self._refusal = self._refusal, None
        if refusal is not None and response == ACKNOWLEDGE_ERROR:
            raise refusal
        if self._is_used:
            self._token = None
            raise SaslRefused("no further SASL message was expected")
        self._is_used = True
        try:
            initial = parse_initial_response(response)
        except ValueError as invalid:
            raise InvalidCredentials(OAUTHBEARER, str(invalid)) from None
        return self._take_token(initial)

    def _take_token(self, initial: InitialResponse) -> bytes:
        try:
            token = self._validate(initial.token.reveal())
        except SaslRefused as refused:
            error = format_error(INVALID_TOKEN)
            self._refusal = SaslRefused(error.decode("ascii"), refused.detail or str(refused))
            return error
        if initial.authorization_id not in ("", token.principal_name):
            raise SaslRefused(OTHER_AUTHORIZATION_ID.format(initial.authorization_id, token.principal_name))
        self._token = token
        self._extensions = initial.extensions
        return b""

    @property
    def is_complete(self) -> bool:
        return self._token is not None

    @property
    def authorization_id(self) -> str:
        return self._token.principal_name if self._token is not None else ""

    @property
    def expires_at_ms(self) -> int | None:
        return self._token.expires_at_ms if self._token is not None else None

    @property
    def is_token(self) -> bool:
        return False

    @property
    def token(self) -> ValidatedToken | None:
        return self._token

    @property
    def extensions(self) -> Mapping[str, str]:
        """SASL extensions of the client. Kafka's validator accepts all that are well-formed."""
        return self._extensions if self._token is not None else {}
