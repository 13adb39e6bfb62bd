"""Keys of an identity provider, and tokens signed with them."""

from __future__ import annotations

import base64
import functools
import json
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS // 1000


@functools.cache
def rsa_key(bits: int = 2048, name: str = "first") -> rsa.RSAPrivateKey:
    """``name`` tells keys of a size apart."""
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


@functools.cache
def ec_key(curve: str) -> ec.EllipticCurvePrivateKey:
    curves = {"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1()}
    return ec.generate_private_key(curves[curve])


def number(value: int, size: int) -> str:
    return base64.urlsafe_b64encode(value.to_bytes(size, "big")).rstrip(b"=").decode()


def rsa_jwk(key: rsa.RSAPrivateKey, **members: object) -> dict[str, Any]:
    numbers = key.public_key().public_numbers()
    return {
        "kty": "RSA",
        "n": number(numbers.n, (key.key_size + 7) // 8),
        "e": number(numbers.e, 3),
        **members,
    }


def ec_jwk(curve: str, **members: object) -> dict[str, Any]:
    key = ec_key(curve)
    size = (key.curve.key_size + 7) // 8
    numbers = key.public_key().public_numbers()
    return {
        "kty": "EC",
        "crv": curve,
        "x": number(numbers.x, size),
        "y": number(numbers.y, size),
        **members,
    }


def key_set_text(*keys: dict[str, Any]) -> str:
    return json.dumps({"keys": list(keys)})


def claims(**changes: object) -> dict[str, Any]:
    """Return valid claims; a change to None removes a claim."""
    values = {"sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 600, "iss": "https://idp", **changes}
    return {name: value for name, value in values.items() if value is not None}


def sign(payload: dict[str, Any], key: Any, algorithm: str = "RS256", **header: object) -> str:
    return jwt.encode(payload, key, algorithm=algorithm, headers=header)


def section(value: object) -> str:
    """Return a section of a token; ``value`` is text, or anything that is JSON."""
    text = value if isinstance(value, str) else json.dumps(value)
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def unsecured(payload: dict[str, Any], algorithm: str = "none") -> str:
    return f"{section({'alg': algorithm})}.{section(payload)}."
