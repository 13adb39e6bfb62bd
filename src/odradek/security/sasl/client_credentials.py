"""The request for an access token (client credentials of RFC 6749) and its response, as in KIP-768."""

from __future__ import annotations

import base64
import json
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus

from odradek.model.secret import Secret
from odradek.security.sasl.jwt_text import json_object, split_token
from odradek.security.sasl.jwt_validator import date_ms, required_date_ms, scopes, text_claim
from odradek.security.sasl.oauthbearer_messages import check_token, printable_error

RESPONSE_SIZE_MAX: Final = 1 << 20
SUCCESS: Final = frozenset((200, 201))
FINAL_STATUSES: Final = frozenset(
    (400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505)
)
"""HTTP statuses after which Kafka does not try again."""

ERROR_FIELDS: Final = (("error", "error_description"), ("errorCode", "errorSummary"))


class TokenEndpointError(Exception):
    """Raised when there is no token in a response; ``is_retriable`` tells whether to ask again."""

    def __init__(self, message: str, is_retriable: bool) -> None:
        super().__init__(message)
        self.is_retriable = is_retriable


class ClientCredentialsRequest(NamedTuple):
    """A POST to the token endpoint. ``is_urlencoded`` is ``sasl.oauthbearer.header.urlencode``."""

    client_id: str
    client_secret: Secret
    scope: str | None = None
    is_urlencoded: bool = False

    def headers(self) -> dict[str, str]:
        """Return the headers but for Host and Content-Length. ``Authorization`` holds the secret."""
        client_id = _required("client ID", self.client_id)
        client_secret = _required("client secret", self.client_secret.reveal())
        if self.is_urlencoded:
            client_id, client_secret = _form_encoded(client_id), _form_encoded(client_secret)
        credentials = base64.b64encode(f"{client_id}:{client_secret}".encode()).decode("ascii")
        return {
            "Accept": "application/json",
            "Authorization": f"Basic {credentials}",
            "Cache-Control": "no-cache",
            "Content-Type": "application/x-www-form-urlencoded",
        }

    def body(self) -> bytes:
        scope = (self.scope or "").strip()
        suffix = f"&scope={_form_encoded(scope)}" if scope else ""
        return f"grant_type=client_credentials{suffix}".encode("ascii")


def _required(name: str, value: str) -> str:
    stripped = value.strip()
    if not stripped:
        raise ValueError(f"{name} of the token endpoint request must be a non-empty str, got an empty one")
    return stripped


def _form_encoded(value: str) -> str:
    """Encode as Java's URLEncoder does, which leaves asterisks and encodes tildes."""
    return quote_plus(value, safe="*").replace("~", "%7E")


class AccessToken(NamedTuple):
    """An access token with the claims that a client needs. Its signature is the broker's to verify."""

    token: Secret
    principal_name: str
    expires_at_ms: int
    issued_at_ms: int | None
    scopes: frozenset[str]


def parse_token_response(
    status: int, body: bytes, scope_claim: str = "scope", sub_claim: str = "sub"
) -> AccessToken:
    """Return the access token of a response. Raises TokenEndpointError, without any token in it."""
    if status not in SUCCESS:
        raise TokenEndpointError(
            f"token endpoint answered with status {status}: {_error_text(body)}", status not in FINAL_STATUSES
        )
    if not body:
        raise TokenEndpointError(f"token endpoint answered with status {status} and no body", True)
    if len(body) > RESPONSE_SIZE_MAX:
        raise TokenEndpointError(f"response must be <= {RESPONSE_SIZE_MAX} bytes, got {len(body)}", False)
    try:
        token = json_object("response of the token endpoint", body).get("access_token")
        if not isinstance(token, str) or not token.strip():
            raise ValueError("response of the token endpoint has no access_token")
        return read_access_token(Secret(token.strip()), scope_claim, sub_claim)
    except ValueError as invalid:
        raise TokenEndpointError(str(invalid), False) from None


def read_access_token(token: Secret, scope_claim: str = "scope", sub_claim: str = "sub") -> AccessToken:
    """Read the claims of a token, such as that of a file. Raises ValueError, with nothing of the token."""
    check_token(token.reveal())
    claims = split_token(token.reveal()).payload
    return AccessToken(
        token,
        text_claim(claims, sub_claim),
        required_date_ms(claims, "exp"),
        date_ms(claims, "iat"),
        scopes(claims, scope_claim),
    )


def _error_text(body: bytes) -> str:
    """Return the error that a token endpoint describes, or else the beginning of its answer."""
    if len(body) <= RESPONSE_SIZE_MAX:
        try:
            fields = json_object("error", body)
        except ValueError:
            fields = {}
        for code, description in ERROR_FIELDS:
            if code in fields:
                return printable_error(f"{_shown(fields[code])} - {_shown(fields.get(description))}".encode())
    return printable_error(body) or "no body"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
