"""Verification of access tokens by a broker, with the rules of Kafka's validator (KIP-768)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from odradek.security.sasl.jwt_keys import ALGORITHMS, KeySet, VerificationKey
from odradek.security.sasl.jwt_text import Sections, split_token
from odradek.security.sasl.mechanism import SaslRefused
from odradek.security.sasl.oauthbearer_server import INVALID_TOKEN, ValidatedToken

if TYPE_CHECKING:
    from jwt.algorithms import Algorithm

CLOCK_SKEW_MS: Final = 30_000
KEY_ID_LENGTH_MAX: Final = 1024
KEYS_TRIED_MAX: Final = 8
"""Keys that are tried for a token without a key id; each costs a verification."""
DATE_LIMIT: Final = 1 << 43
"""Seconds; far off, and in milliseconds still a 64-bit number."""


class JwtSettings(NamedTuple):
    """The settings ``sasl.oauthbearer.*`` of a listener."""

    expected_issuer: str | None = None
    expected_audiences: frozenset[str] = frozenset()
    clock_skew_ms: int = CLOCK_SKEW_MS
    scope_claim: str = "scope"
    sub_claim: str = "sub"


class UnknownKey(SaslRefused):
    """Raised for a token whose key is not in the set, which may have to be read again."""

    def __init__(self, key_id: str) -> None:
        super().__init__(INVALID_TOKEN, f"no key {key_id[:64]!r} in the JSON web key set")
        self.key_id = key_id


class JwtValidator:
    """Verifies tokens. Beyond Kafka's checks, a token must not be issued in the future.

    ``keys`` returns the current key set, and ``wall_ms`` the time in milliseconds since the epoch. The
    detail of a refusal is its reason; it holds nothing of the signature.
    """

    def __init__(self, settings: JwtSettings, keys: Callable[[], KeySet], wall_ms: Callable[[], int]) -> None:
        for name in ("scope_claim", "sub_claim"):
            if not getattr(settings, name).strip():
                raise ValueError(f"{name} must be a non-empty str, got {getattr(settings, name)!r}")
        if settings.clock_skew_ms < 0:
            raise ValueError(f"clock_skew_ms must be >= 0, got {settings.clock_skew_ms}")
        self._settings = settings
        self._keys = keys
        self._wall_ms = wall_ms

    def validate(self, token: str) -> ValidatedToken:
        """Return the claims of a token. Raises SaslRefused; UnknownKey if reading the keys again may help."""
        try:
            sections = split_token(token)
            self._verify_signature(sections)
            return self._validated(sections.payload)
        except ValueError as invalid:
            raise SaslRefused(INVALID_TOKEN, str(invalid)) from None

    def _verify_signature(self, sections: Sections) -> None:
        header = sections.header
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise ValueError(f"alg must be one of {', '.join(sorted(ALGORITHMS))}, got another")
        if "crit" in header or "b64" in header:
            raise ValueError("header must have no critical extensions, got crit or b64")
        content_type = header.get("cty", "")
        if not isinstance(content_type, str) or content_type.lower() == "jwt":
            raise ValueError("token must not contain another token, got cty JWT")
        if key_id is not None and (not isinstance(key_id, str) or len(key_id) > KEY_ID_LENGTH_MAX):
            raise ValueError("kid must be a short str, got something else")
        keys = self._keys()
        if key_id is not None and not keys.has_key_id(key_id):
            raise UnknownKey(key_id)
        candidates = keys.candidates(key_id, algorithm)[:KEYS_TRIED_MAX]
        if not any(is_signed_by(key, algorithm, sections) for key in candidates):
            raise ValueError("signature does not verify")

    def _validated(self, claims: dict[str, Any]) -> ValidatedToken:
        settings = self._settings
        now, skew = self._wall_ms(), settings.clock_skew_ms
        expires_at_ms = required_date_ms(claims, "exp")
        issued_at_ms = required_date_ms(claims, "iat")
        not_before_ms = date_ms(claims, "nbf")
        if now - skew >= expires_at_ms:
            raise ValueError(f"token expired {now - expires_at_ms} ms ago")
        if not_before_ms is not None and now + skew < not_before_ms:
            raise ValueError(f"token is not valid for another {not_before_ms - now} ms (nbf)")
        if expires_at_ms < issued_at_ms or (not_before_ms is not None and expires_at_ms < not_before_ms):
            raise ValueError("exp must not be before iat or nbf, got an earlier one")
        if now + skew < issued_at_ms:
            raise ValueError(f"token is issued {issued_at_ms - now} ms in the future (iat)")
        self._check_issuer(claims)
        self._check_audience(claims)
        subject = text_claim(claims, settings.sub_claim.strip())
        return ValidatedToken(
            subject, expires_at_ms, scopes(claims, settings.scope_claim.strip()), issued_at_ms
        )

    def _check_issuer(self, claims: dict[str, Any]) -> None:
        expected = self._settings.expected_issuer
        if not isinstance(claims.get("iss", ""), str):
            raise ValueError("iss must be a str, got something else")  # noqa: TRY004 - one kind of error
        if expected is not None and claims.get("iss") != expected:
            raise ValueError(f"iss must be {expected!r}, got another or none")

    def _check_audience(self, claims: dict[str, Any]) -> None:
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [] if audience is None else [audience]
        if not all(isinstance(item, str) for item in audiences):
            raise ValueError("aud must be a str or a list of str, got something else")
        expected = self._settings.expected_audiences
        if not expected and audience is not None:
            # As in Kafka: a token that is meant for somebody is not for everybody.
            raise ValueError("token has an audience: set sasl.oauthbearer.expected.audience")
        if expected and expected.isdisjoint(audiences):
            raise ValueError(f"aud must have one of {', '.join(sorted(expected))}, got others or none")


def is_signed_by(key: VerificationKey, algorithm: str, sections: Sections) -> bool:
    return bool(_algorithms()[algorithm].verify(sections.signing_input, key.key, sections.signature))


@functools.cache
def _algorithms() -> dict[str, Algorithm]:
    # Here, since the import takes long and most processes verify no token.
    from jwt.algorithms import get_default_algorithms

    return get_default_algorithms()


def date_ms(claims: dict[str, Any], name: str) -> int | None:
    """Return a claim that is a number of seconds, as milliseconds; None if it is absent."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} must be a number of seconds, got something else")  # noqa: TRY004 - one kind of error
    if not 0 <= value < DATE_LIMIT:
        raise ValueError(f"{name} must be from 0 to {DATE_LIMIT}, got another number")
    return int(value) * 1000


def required_date_ms(claims: dict[str, Any], name: str) -> int:
    value = date_ms(claims, name)
    if value is None:
        raise ValueError(f"{name} is required, got none")
    return value


def text_claim(claims: dict[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} must be a non-empty str, got something else")
    return value.strip()


def scopes(claims: dict[str, Any], name: str) -> frozenset[str]:
    """Return the scopes of a token. As in Kafka a str is a single scope, whatever its blanks."""
    value = claims.get(name)
    items = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    if not all(isinstance(item, str) and item.strip() for item in items):
        raise ValueError(f"{name} must have non-empty scopes, got something else")
    stripped = [item.strip() for item in items]
    if len(set(stripped)) != len(stripped):
        raise ValueError(f"{name} must have no scope twice, got repeated ones")
    return frozenset(stripped)
