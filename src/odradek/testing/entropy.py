"""Seeded randomness, for reproducible tests and simulations."""

from __future__ import annotations

import random  # noqa: TID251 - this is the injected Entropy


class SeededEntropy:
    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self._random = random.Random(seed)
        self._draw_bits = self._random.getrandbits

    def token(self, size_bytes: int) -> bytes:
        return self._random.randbytes(size_bytes)

    def below(self, limit: int) -> int:
        """Return what ``randrange`` would, without its layers: simulations draw for every delivery."""
        if limit <= 0:
            raise ValueError(f"limit must be positive, got {limit}")
        bits = limit.bit_length()
        value = self._draw_bits(bits)
        while value >= limit:
            value = self._draw_bits(bits)
        return value

    def uuid(self) -> bytes:
        token = bytearray(self.token(16))
        token[6] = token[6] & 0x0F | 0x40
        token[8] = token[8] & 0x3F | 0x80
        return bytes(token)
