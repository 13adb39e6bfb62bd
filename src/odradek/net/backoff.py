"""How long to wait before something is tried again: longer with each failure, and never twice the same."""

from __future__ import annotations

from typing import Final

from odradek.ports.entropy import Entropy

_SPREAD_PERCENT: Final = 20
_GRAIN: Final = 1 << 20


def exponential_backoff_ms(first_ms: int, max_ms: int, failures: int, entropy: Entropy) -> int:
    """``first_ms`` doubled with each failure up to ``max_ms``, then moved by up to a fifth either way.

    Many who failed together do not come back together. A ``max_ms`` below ``first_ms`` counts as it.
    """
    if first_ms <= 0:
        return max(first_ms, 0)
    limit_ms = max(first_ms, max_ms)
    doublings = min(failures, limit_ms.bit_length())
    plain_ms = min(first_ms << doublings, limit_ms)
    spread = _SPREAD_PERCENT * (2 * entropy.below(_GRAIN + 1) - _GRAIN) / (100 * _GRAIN)
    return round(plain_ms * (1 + spread))
