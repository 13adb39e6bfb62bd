"""Public keys that verify access tokens, from a JSON web key set (RFC 7517)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from odradek.security.sasl.jwt_text import decode_base64url, json_object

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

TEXT_LENGTH_MAX: Final = 1 << 20
KEYS_MAX: Final = 256
RSA_BITS_MIN: Final = 2048
RSA_BITS_MAX: Final = 8192
RSA_EXPONENT_MAX: Final = (1 << 32) - 1

RSA_ALGORITHMS: Final = frozenset(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"))
CURVE_ALGORITHMS: Final = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
ALGORITHMS: Final = RSA_ALGORITHMS | frozenset(CURVE_ALGORITHMS.values())
"""Signatures that are accepted: never ``none``, and no HMAC, whose key would be known to whoever verifies."""


class VerificationKey(NamedTuple):
    """A public key and the algorithms that it may verify."""

    key_id: str | None
    algorithms: frozenset[str]
    key: RSAPublicKey | EllipticCurvePublicKey


class KeySet:
    """Keys by id."""

    def __init__(self, keys: tuple[VerificationKey, ...]) -> None:
        self._keys = keys

    def candidates(self, key_id: str | None, algorithm: str) -> tuple[VerificationKey, ...]:
        """Return the keys that may have signed a token with this header."""
        return tuple(
            key
            for key in self._keys
            if algorithm in key.algorithms and (key_id is None or key.key_id == key_id)
        )

    def has_key_id(self, key_id: str) -> bool:
        return any(key.key_id == key_id for key in self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def parse_key_set(text: str) -> KeySet:
    """Parse a JSON web key set. Raises ValueError.

    As RFC 7517 asks, keys that cannot be used here are skipped: other types and curves, keys for encryption,
    RSA keys that are too short, malformed members. A set of which nothing is left is an error.
    """
    if len(text) > TEXT_LENGTH_MAX:
        raise ValueError(f"JSON web key set must be at most {TEXT_LENGTH_MAX} characters, got {len(text)}")
    members = json_object("JSON web key set", text).get("keys")
    if not isinstance(members, list) or len(members) > KEYS_MAX:
        raise ValueError(
            f"JSON web key set must have 'keys', a list of at most {KEYS_MAX}, got something else"
        )
    keys = tuple(key for member in members if (key := _key(member)) is not None)
    if not keys:
        raise ValueError("JSON web key set must have an RSA or EC key for signatures, got none")
    return KeySet(keys)


def _key(member: object) -> VerificationKey | None:
    """Return a key, or None if it is not for signatures that are accepted here."""
    if not isinstance(member, dict) or member.get("use", "sig") != "sig":
        return None
    operations = member.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        return None
    key_id = member.get("kid")
    if key_id is not None and not isinstance(key_id, str):
        return None
    try:
        if member.get("kty") == "RSA":
            key, algorithms = _rsa_key(member), RSA_ALGORITHMS
        elif member.get("kty") == "EC":
            key, algorithms = _ec_key(member), frozenset((CURVE_ALGORITHMS[member["crv"]],))
        else:
            return None
    except (ValueError, KeyError, TypeError):
        return None
    if "alg" in member:
        algorithms &= {member["alg"]} if isinstance(member["alg"], str) else set()
    return VerificationKey(key_id, algorithms, key) if algorithms else None


def _rsa_key(member: dict[str, Any]) -> RSAPublicKey | EllipticCurvePublicKey:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

    modulus, exponent = _number(member, "n"), _number(member, "e")
    if not RSA_BITS_MIN <= modulus.bit_length() <= RSA_BITS_MAX or exponent > RSA_EXPONENT_MAX:
        raise ValueError(
            f"RSA key must have {RSA_BITS_MIN} to {RSA_BITS_MAX} bits, got {modulus.bit_length()}"
        )
    return RSAPublicNumbers(exponent, modulus).public_key()


def _ec_key(member: dict[str, Any]) -> EllipticCurvePublicKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    curves: dict[str, ec.EllipticCurve] = {
        "P-256": ec.SECP256R1(),
        "P-384": ec.SECP384R1(),
        "P-521": ec.SECP521R1(),
    }
    numbers = ec.EllipticCurvePublicNumbers(_number(member, "x"), _number(member, "y"), curves[member["crv"]])
    return numbers.public_key()


def _number(member: dict[str, Any], name: str) -> int:
    value = member[name]
    if not isinstance(value, str):
        raise TypeError(f"member {name} must be a str, got {type(value).__name__}")
    return int.from_bytes(decode_base64url(name, value), "big")
