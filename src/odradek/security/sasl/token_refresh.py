"""The times at which a client replaces its access token, as in Kafka's ExpiringCredentialRefreshingLogin."""

from __future__ import annotations

from typing import Final, NamedTuple

RETRY_MS: Final = 10_000
"""Time until the next attempt when the last one failed or its token is expired already."""


class RefreshSettings(NamedTuple):
    """The settings ``sasl.login.refresh.*``. Raises ValueError from ``check`` if out of Kafka's limits."""

    window_factor: float = 0.8
    window_jitter: float = 0.05
    min_period_s: int = 60
    buffer_s: int = 300

    def check(self) -> None:
        for name, low, high in (
            ("window_factor", 0.5, 1.0),
            ("window_jitter", 0.0, 0.25),
            ("min_period_s", 0, 900),
            ("buffer_s", 0, 3600),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"{name} must be from {low} to {high}, got {value}")


def refresh_at_ms(
    now_ms: int, issued_at_ms: int | None, expires_at_ms: int, settings: RefreshSettings, random: float
) -> int:
    """Return when to ask for the next token; ``random`` is a number from 0 to 1."""
    if now_ms > expires_at_ms:
        return now_ms + RETRY_MS
    part = settings.window_factor + settings.window_jitter * random
    min_period_ms, buffer_ms = 1000 * settings.min_period_s, 1000 * settings.buffer_s
    if now_ms + min_period_ms + buffer_ms > expires_at_ms:
        # Too short a life for both: what is left of it is divided instead.
        return now_ms + int((expires_at_ms - now_ms) * part)
    start_ms = now_ms if issued_at_ms is None else issued_at_ms
    proposed_ms = start_ms + int((expires_at_ms - start_ms) * part)
    return max(min(proposed_ms, expires_at_ms - buffer_ms), now_ms + min_period_ms)


def retry_wait_ms(attempt: int, initial_ms: int, left_ms: int) -> int | None:
    """Return the wait after failed attempt ``attempt`` (from 1), or None if no time is left.

    ``left_ms`` is what is left of ``sasl.login.retry.backoff.max.ms``, which in Kafka bounds all attempts
    together.
    """
    if left_ms <= 0:
        return None
    return min(initial_ms << min(attempt - 1, 62), left_ms)
