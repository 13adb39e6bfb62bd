"""XXH32 with seed 0 for LZ4 frame headers, which have a few bytes only."""

from typing import Final

_PRIME_1: Final = 0x9E3779B1
_PRIME_2: Final = 0x85EBCA77
_PRIME_3: Final = 0xC2B2AE3D
_PRIME_4: Final = 0x27D4EB2F
_PRIME_5: Final = 0x165667B1
_MASK: Final = 0xFFFFFFFF


def _rotate(value: int, by: int) -> int:
    value &= _MASK
    return (value << by | value >> (32 - by)) & _MASK


def xxh32(data: bytes) -> int:
    """Return the 32-bit hash of ``data``."""
    lanes = [_PRIME_1 + _PRIME_2, _PRIME_2, 0, -_PRIME_1]
    position = 0
    while len(data) - position >= 16:
        for lane in range(4):
            word = int.from_bytes(data[position : position + 4], "little")
            lanes[lane] = _rotate(lanes[lane] + word * _PRIME_2, 13) * _PRIME_1
            position += 4
    mixed = sum(_rotate(lanes[lane], by) for lane, by in enumerate((1, 7, 12, 18)))
    result = (mixed if position else _PRIME_5) + len(data)
    while len(data) - position >= 4:
        word = int.from_bytes(data[position : position + 4], "little")
        result = _rotate(result + word * _PRIME_3, 17) * _PRIME_4
        position += 4
    for byte in data[position:]:
        result = _rotate(result + byte * _PRIME_5, 11) * _PRIME_1
    result &= _MASK
    result = (result ^ result >> 15) * _PRIME_2 & _MASK
    result = (result ^ result >> 13) * _PRIME_3 & _MASK
    return result ^ result >> 16
