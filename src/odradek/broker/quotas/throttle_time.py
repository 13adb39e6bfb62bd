"""Throttle times of violated quotas, with Kafka's formulas."""

from __future__ import annotations

import math
from typing import Final

THROTTLE_MS_MAX: Final = 2**31 - 1
"""The largest time that fits into the field of a response."""


def rate_throttle_time_ms(rate: float, bound: float, window_ms: int) -> int:
    """Return how much longer the window must be for a rate to fall to ``bound``; 0 if it is not above.

    No time suffices for a bound of 0: the window passes once. (Kafka's formula overflows there, and does not
    throttle at all.)
    """
    if rate <= bound:
        return 0
    if bound <= 0:
        return window_ms
    return _rounded((rate - bound) / bound * window_ms)


def token_throttle_time_ms(tokens: float, refill_per_second: float) -> int:
    """Return the time until an overdrawn bucket has no debt left."""
    if refill_per_second <= 0:
        return THROTTLE_MS_MAX
    return _rounded(-tokens / refill_per_second * 1000)


def _rounded(millis: float) -> int:
    return min(math.floor(millis + 0.5), THROTTLE_MS_MAX) if millis < THROTTLE_MS_MAX else THROTTLE_MS_MAX
