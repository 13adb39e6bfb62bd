"""Mapping of group ids and transactional ids to partitions of their internal topic, as in every Kafka broker.

Invariant: this never changes. A group or a transactional id is looked up in the partition it was written to.
"""

from __future__ import annotations

from typing import Final

_INT32_MIN: Final = -(2**31)


def java_hash(text: str) -> int:
    """Return Java's ``String.hashCode``: a signed 32-bit hash over UTF-16 code units."""
    units = memoryview(text.encode("utf-16-be", "surrogatepass"))
    hashed = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        hashed = (31 * hashed + (high << 8 | low)) & 0xFFFF_FFFF
    return hashed - 2**32 if hashed >= 2**31 else hashed


def partition_of(identifier: str, count: int) -> int:
    """Return the partition, out of ``count``, of an identifier. Like ``Utils.abs`` in Kafka, the smallest
    32-bit integer becomes 0."""
    hashed = java_hash(identifier)
    return 0 if hashed == _INT32_MIN else abs(hashed) % count
