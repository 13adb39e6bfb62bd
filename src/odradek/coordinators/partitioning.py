"""Which partition of an internal topic an identifier belongs to, as every Kafka broker and tool computes it.

Invariant: this never changes. A group or a transactional id is found where it was put by whoever wrote it.
"""

from __future__ import annotations

from typing import Final

_INT32_MIN: Final = -(2**31)


def java_hash(text: str) -> int:
    """What Java's ``String.hashCode`` gives: over UTF-16 code units, in 32 bits with a sign."""
    units = memoryview(text.encode("utf-16-be", "surrogatepass"))
    hashed = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        hashed = (31 * hashed + (high << 8 | low)) & 0xFFFF_FFFF
    return hashed - 2**32 if hashed >= 2**31 else hashed


def partition_of(identifier: str, count: int) -> int:
    """The partition, of so many, that holds an identifier. The hash without a positive twin is 0."""
    hashed = java_hash(identifier)
    return 0 if hashed == _INT32_MIN else abs(hashed) % count
