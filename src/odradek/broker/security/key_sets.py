"""The keys that verify access tokens (``sasl.oauthbearer.jwks.endpoint.url``), read again in intervals.

A token with an unknown key makes them be read earlier, but not more often than the backoff allows: otherwise
anybody could make the broker send requests. Keys that were read stay in use while their source fails.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from odradek.model.errors import ConfigError
from odradek.ports.clock import Clock
from odradek.security.sasl.jwt_keys import KeySet, parse_key_set
from odradek.security.sasl.jwt_validator import JwtValidator, UnknownKey
from odradek.security.sasl.oauthbearer_server import ValidatedToken
from odradek.telemetry import events

log = events.logger("key_sets")

ReadText = Callable[[str], Awaitable[str]]
"""Returns the text at a URL of a file or an HTTP server; raises OSError or ValueError."""


class KeySetSource:
    """The current key set of one URL."""

    def __init__(
        self, url: str, read_text: ReadText, clock: Clock, backoff_ms: int, backoff_ms_max: int
    ) -> None:
        self._url = url
        self._read_text = read_text
        self._clock = clock
        self._backoff_ms = self._backoff_ms_min = backoff_ms
        self._backoff_ms_max = backoff_ms_max
        self._read_at_ms = 0
        self._is_reading = False
        self._keys = KeySet(())
        self.on_unknown_key: Callable[[], None] | None = None
        """Schedules ``refresh`` soon."""

    def current(self) -> KeySet:
        return self._keys

    async def load(self) -> None:
        """Read the keys at start; raises ConfigError."""
        try:
            self._keys = parse_key_set(await self._read_text(self._url))
        except (OSError, ValueError) as error:
            raise ConfigError(
                [f"sasl.oauthbearer.jwks.endpoint.url: {self._url} cannot be read: {error}"]
            ) from error
        self._read_at_ms = self._clock.monotonic_ms()

    async def refresh(self) -> None:
        """Read the keys again, and keep the current ones if that fails."""
        if self._is_reading:
            return
        self._is_reading, self._read_at_ms = True, self._clock.monotonic_ms()
        problem: Exception | None = None
        try:
            self._keys = parse_key_set(await self._read_text(self._url))
        except (OSError, ValueError) as error:
            problem = error
        self._is_reading = False
        if problem is None:
            self._backoff_ms = self._backoff_ms_min
        else:
            self._backoff_ms = min(self._backoff_ms * 2, self._backoff_ms_max)
            log.warning("keys_not_read", url=self._url, reason=str(problem))

    def request_refresh(self) -> None:
        """Read the keys soon, unless that was done a moment ago."""
        elapsed_ms = self._clock.monotonic_ms() - self._read_at_ms
        if self.on_unknown_key is not None and not self._is_reading and elapsed_ms >= self._backoff_ms:
            self.on_unknown_key()


class TokenValidation:
    """Verifies tokens by the current keys; an unknown key has them read again."""

    def __init__(self, validator: JwtValidator, keys: KeySetSource) -> None:
        self._validator = validator
        self._keys = keys

    def __call__(self, token: str) -> ValidatedToken:
        try:
            return self._validator.validate(token)
        except UnknownKey:
            self._keys.request_refresh()
            raise
