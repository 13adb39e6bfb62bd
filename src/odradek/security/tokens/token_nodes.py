"""Delegation tokens in the store: znodes as Kafka 3.9 writes them.

A token is JSON without its HMAC. A change is announced to the brokers by a sequential node with the token's
id as its data.
"""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import quote, unquote_plus

from odradek.security.principal import KafkaPrincipal, parse_principal
from odradek.security.tokens.token_information import TokenInformation

VERSION: Final = 3
"""Version 3 added the requester (KIP-373)."""

SIZE_MAX: Final = 1 << 20
"""ZooKeeper's limit of a node."""


def encode_change(token_id: str) -> bytes:
    return token_id.encode("utf-8")


def decode_change(data: bytes) -> str:
    """Return the id of the token that was created, changed or removed. Raises ValueError."""
    return data.decode("utf-8")


def encode_token(information: TokenInformation) -> bytes:
    fields = {
        "version": VERSION,
        "owner": _sanitized(information.owner),
        "tokenRequester": _sanitized(information.requester),
        "renewers": [_sanitized(renewer) for renewer in information.renewers],
        "issueTimestamp": information.issue_timestamp,
        "maxTimestamp": information.max_timestamp,
        "expiryTimestamp": information.expiry_timestamp,
        "tokenId": information.token_id,
    }
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def decode_token(data: bytes) -> TokenInformation:
    """Decode a token of any version. Raises ValueError with what was expected."""
    if len(data) > SIZE_MAX:
        raise ValueError(f"delegation token must be <= {SIZE_MAX} bytes, got {len(data)}")
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("delegation token must be JSON, got something else") from None
    if not isinstance(fields, dict):
        raise ValueError(f"delegation token must be a JSON object, got a {type(fields).__name__}")  # noqa: TRY004
    version = _integer(fields, "version")
    if not 1 <= version <= VERSION:
        raise ValueError(f"version must be from 1 to {VERSION}, got {version}")
    owner = _principal(_text(fields, "owner"))
    requester = _principal(_text(fields, "tokenRequester")) if version >= 3 else owner
    renewers = fields.get("renewers")
    if not isinstance(renewers, list) or not all(isinstance(renewer, str) for renewer in renewers):
        raise ValueError(f"renewers must be a list of str, got {renewers!r}")
    return TokenInformation(
        _text(fields, "tokenId"),
        owner,
        requester,
        tuple(_principal(renewer) for renewer in renewers),
        _integer(fields, "issueTimestamp"),
        _integer(fields, "maxTimestamp"),
        _integer(fields, "expiryTimestamp"),
    )


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be a non-empty str, got {value!r}")
    return value


def _integer(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} must be an int, got {value!r}")  # noqa: TRY004
    return value


def _sanitized(principal: KafkaPrincipal) -> str:
    """Return a principal as Kafka's Sanitizer writes names: percent-encoded, tildes included."""
    return quote(str(principal), safe="").replace("~", "%7E")


def _principal(sanitized: str) -> KafkaPrincipal:
    return parse_principal(unquote_plus(sanitized))
