"""Token bucket: permits that refill at a rate, up to a burst. It may be overdrawn once."""

from __future__ import annotations


class TokenBucket:
    """Permits of one client. ``rate`` is passed in, because the quota may change."""

    __slots__ = ("_last_ms", "_span_s", "_tokens")

    def __init__(self, sample_count: int, sample_ms: int) -> None:
        """The burst is what refills during all samples."""
        self._span_s = sample_count * sample_ms / 1000
        self._last_ms = 0
        self._tokens: float | None = None

    def tokens(self, rate: float, now_ms: int) -> float:
        """Refill and return the permits left; a new bucket is full."""
        burst = self._span_s * rate
        if self._tokens is None:
            self._tokens = burst
        else:
            self._tokens = min(burst, self._tokens + rate * (now_ms - self._last_ms) / 1000)
        self._last_ms = now_ms
        return self._tokens

    def take(self, permits: float, rate: float, now_ms: int) -> float:
        """Take permits, even if there are too few; return those left."""
        self._tokens = min(self._span_s * rate, self.tokens(rate, now_ms) - permits)
        return self._tokens
