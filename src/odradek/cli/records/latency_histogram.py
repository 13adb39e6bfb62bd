"""Latency histogram: any number of values in bounded memory, with an error below one percent.

Below 256 µs a bucket is one microsecond wide; above, each doubling has 128 buckets.
"""

from __future__ import annotations

from typing import Final

_FINE_BITS: Final = 8
_FRACTIONS: Final = (0.5, 0.95, 0.99, 0.999)


class LatencyHistogram:
    """Counts of latencies in microseconds."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.count = 0
        self.max_us = 0

    def add(self, duration_us: int) -> None:
        value = max(0, duration_us)
        bucket = _bucket(value)
        self._counts[bucket] = self._counts.get(bucket, 0) + 1
        self.count += 1
        self.max_us = max(self.max_us, value)

    def at(self, fraction: float) -> int:
        """Return the latency in microseconds that this fraction of values does not exceed."""
        rank = fraction * self.count
        seen = 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= rank:
                return min(_highest(bucket), self.max_us)
        return self.max_us

    def summary_ms(self) -> dict[str, float]:
        """Return percentiles in milliseconds, by name."""
        percentiles = {f"p{100 * fraction:g}": self.at(fraction) / 1000 for fraction in _FRACTIONS}
        return {**percentiles, "max": self.max_us / 1000}


def _bucket(value: int) -> int:
    shift = max(0, value.bit_length() - _FINE_BITS)
    return (shift << _FINE_BITS) + (value >> shift)


def _highest(bucket: int) -> int:
    """Return the largest value in a bucket."""
    shift, rest = bucket >> _FINE_BITS, bucket & ((1 << _FINE_BITS) - 1)
    return ((rest + 1) << shift) - 1
