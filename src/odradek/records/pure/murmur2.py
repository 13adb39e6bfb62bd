"""Kafka's murmur2 hash of keys, and the partition of a key."""

from __future__ import annotations

from typing import Final

from odradek.ports.files import Buffer

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_BITS: Final = 0xFFFFFFFF


def murmur2(key: Buffer) -> int:
    """Return the hash of a key as a signed int32."""
    data = bytes(key)
    whole = len(data) & ~3
    h = _SEED ^ len(data)
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _BITS
        k = (k ^ k >> 24) * _M & _BITS
        h = h * _M & _BITS ^ k
    if len(data) > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _BITS
    h = (h ^ h >> 13) * _M & _BITS
    h ^= h >> 15
    return h - (1 << 32) if h >> 31 else h


def partition_for_key(key: Buffer, partition_count: int) -> int:
    """Return the partition that Kafka's clients choose for a key."""
    if partition_count < 1:
        raise ValueError(f"partition_count must be >= 1, got {partition_count}")
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
