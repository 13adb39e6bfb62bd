"""Exponential backoff with jitter."""

from __future__ import annotations

from typing import Final

from odradek.ports.entropy import Entropy

_JITTER_PERCENT: Final = 20
_JITTER_STEPS: Final = 1 << 20


def exponential_backoff_ms(first_ms: int, max_ms: int, failures: int, entropy: Entropy) -> int:
    """Return ``first_ms`` doubled with each failure up to ``max_ms``, with a jitter of ±20 %.

    A ``max_ms`` below ``first_ms`` counts as ``first_ms``.
    """
    if first_ms <= 0:
        return max(first_ms, 0)
    limit_ms = max(first_ms, max_ms)
    doublings = min(failures, limit_ms.bit_length())
    backoff_ms = min(first_ms << doublings, limit_ms)
    jitter = _JITTER_PERCENT * (2 * entropy.below(_JITTER_STEPS + 1) - _JITTER_STEPS) / (100 * _JITTER_STEPS)
    return round(backoff_ms * (1 + jitter))
