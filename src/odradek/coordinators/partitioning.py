"""Mapping of group ids and transactional ids to partitions of their internal topic, as in every Kafka broker.

Invariant: this never changes. A group or a transactional id is looked up in the partition it was written to.
"""

from __future__ import annotations

from typing import Final

_INT32_MIN: Final = -(2**31)


def java_hash(text: str) -> int:
    """Return Java's ``String.hashCode``: a signed 32-bit hash over UTF-16 code units."""
    hashed = 0
    for unit in text.encode() if text.isascii() else _utf16_units(text):
        hashed = (31 * hashed + unit) & 0xFFFF_FFFF
    return hashed - 2**32 if hashed >= 2**31 else hashed


def _utf16_units(text: str) -> list[int]:
    raw = text.encode("utf-16-be", "surrogatepass")
    return [high << 8 | low for high, low in zip(raw[::2], raw[1::2], strict=True)]


def partition_of(identifier: str, count: int) -> int:
    """Return the partition, out of ``count``, of an identifier. Like ``Utils.abs`` in Kafka, the smallest
    32-bit integer becomes 0."""
    hashed = java_hash(identifier)
    return 0 if hashed == _INT32_MIN else abs(hashed) % count
