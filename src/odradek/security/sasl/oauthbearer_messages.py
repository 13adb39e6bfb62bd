"""Messages of SASL OAUTHBEARER (RFC 7628), with the grammar of Kafka's OAuthBearerClientInitialResponse."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.model.secret import Secret
from odradek.security.sasl.scram_messages import from_saslname, to_saslname

MESSAGE_SIZE_MAX: Final = 128 * 1024
SEPARATOR: Final = "\x01"
ACKNOWLEDGE_ERROR: Final = b"\x01"
"""The client's answer to an error, after which the broker fails the exchange."""

AUTHORIZATION: Final = "auth"
ERROR_LENGTH_MAX: Final = 1000

_NAME: Final = re.compile(r"[A-Za-z]+")
_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
_BEARER: Final = re.compile(r"(\w+) +([-_~+/.a-zA-Z0-9]+=*)", re.ASCII)
_HIDDEN: Final = re.compile(r"[^\x20-\x7e]")


class InitialResponse(NamedTuple):
    """The client's first message."""

    token: Secret
    authorization_id: str
    extensions: Mapping[str, str]


def format_initial_response(response: InitialResponse) -> bytes:
    authzid = f"a={to_saslname(response.authorization_id)}" if response.authorization_id else ""
    pairs = [f"{AUTHORIZATION}=Bearer {response.token.reveal()}"]
    pairs += [f"{name}={value}" for name, value in response.extensions.items()]
    return SEPARATOR.join([f"n,{authzid},", *pairs, "", ""]).encode()


def parse_initial_response(message: bytes) -> InitialResponse:
    """Raises ValueError with a reason that has nothing of the message in it."""
    if len(message) > MESSAGE_SIZE_MAX:
        raise ValueError(f"message must be <= {MESSAGE_SIZE_MAX} bytes, got {len(message)}")
    try:
        header, *pairs, end, after_end = message.decode("utf-8").split(SEPARATOR)
    except ValueError:
        raise ValueError("message must be a header and pairs with separators, got something else") from None
    if end or after_end:
        raise ValueError("message must end with two separators, got something else")
    authorization_id = _authorization_id(header)
    properties: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value) or name in properties:
            raise ValueError("pairs must be name=value with names that occur once, got something else")
        properties[name] = value
    authorization = properties.pop(AUTHORIZATION, None)
    if authorization is None:
        raise ValueError("message must have 'auth', got none")
    bearer = _BEARER.fullmatch(authorization)
    if bearer is None or bearer[1].lower() != "bearer":
        raise ValueError("'auth' must be 'Bearer' and a token, got something else")
    return InitialResponse(Secret(bearer[2]), authorization_id, properties)


def _authorization_id(header: str) -> str:
    """Take the gs2 header apart, which must be without channel binding."""
    parts = header.split(",")
    if len(parts) != 3 or parts[0] != "n" or parts[2]:
        raise ValueError("gs2 header must be n,[a=authzid], got something else")
    if not parts[1]:
        return ""
    if not parts[1].startswith("a="):
        raise ValueError("gs2 header must be n,[a=authzid], got something else")
    return from_saslname(parts[1][2:])


def check_token(token: str) -> None:
    if not token or not _BEARER.fullmatch(f"Bearer {token}"):
        raise ValueError(f"token must be of the form of RFC 6750, got {len(token)} other characters")


def check_extensions(extensions: Mapping[str, str]) -> None:
    """Raise ValueError for SASL extensions that cannot be sent."""
    for name, value in extensions.items():
        if name == AUTHORIZATION or not _NAME.fullmatch(name):
            raise ValueError(f"name of an extension must be letters and not 'auth', got {name!r}")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"value of extension {name} must be printable ASCII, got other characters")


def format_error(status: str) -> bytes:
    """Return the broker's answer to a token that it refuses."""
    return json.dumps({"status": status}, separators=(",", ":")).encode()


def printable_error(challenge: bytes) -> str:
    """Return an error of the broker for messages: bounded, and without control characters."""
    return _HIDDEN.sub("?", challenge[:ERROR_LENGTH_MAX].decode("utf-8", "replace"))
