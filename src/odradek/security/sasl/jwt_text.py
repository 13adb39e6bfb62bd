"""The serialized form of a JSON web token: sections, and the JSON in them."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, Final, NamedTuple, NoReturn

TOKEN_LENGTH_MAX: Final = 64 * 1024
"""Longest token in characters. Tokens with many groups have some thousands."""

UNSECURED_REFUSED: Final = "unsecured tokens (alg none) are not supported: the token must be signed"


class Sections(NamedTuple):
    header: dict[str, Any]
    payload: dict[str, Any]
    signing_input: bytes
    signature: bytes

    def __repr__(self) -> str:
        return "Sections([hidden])"


def split_token(token: str) -> Sections:
    """Take a token apart without verifying anything. Raises ValueError, with nothing of the token in it."""
    if len(token) > TOKEN_LENGTH_MAX:
        raise ValueError(f"token must be at most {TOKEN_LENGTH_MAX} characters, got {len(token)}")
    parts = token.split(".")
    if len(parts) != 3:
        raise ValueError(f"token must have 3 sections (header, payload, signature), got {len(parts)}")
    header = json_object("header", decode_base64url("header", parts[0]))
    algorithm = header.get("alg")
    if isinstance(algorithm, str) and algorithm.lower() == "none":
        raise ValueError(UNSECURED_REFUSED)
    if not parts[2]:
        raise ValueError("token must have a signature, got an empty one")
    payload = json_object("payload", decode_base64url("payload", parts[1]))
    signature = decode_base64url("signature", parts[2])
    return Sections(header, payload, f"{parts[0]}.{parts[1]}".encode("ascii"), signature)


def decode_base64url(name: str, text: str) -> bytes:
    """Decode base64url without padding; one text per value, so unused bits must be zero."""
    try:
        value = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error):
        value = b""
    if not value or base64.urlsafe_b64encode(value).rstrip(b"=") != text.encode("ascii"):
        raise ValueError(f"{name} must be base64url, got something else")
    return value


def json_object(name: str, data: bytes | str) -> dict[str, Any]:
    """Decode a JSON object in which no member occurs twice."""
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        value = json.loads(text, parse_constant=_not_json, object_pairs_hook=_members)
    except (ValueError, RecursionError):
        raise ValueError(f"{name} must be JSON without repeated members, got something else") from None
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be a JSON object, got something else")  # noqa: TRY004 - one kind of error
    return value


def _not_json(constant: str) -> NoReturn:
    raise ValueError(constant)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("members must occur once, got one that is repeated")
    return members
