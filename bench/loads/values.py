"""Message values: the same for a seed, different from one another, half as large when compressed."""

from __future__ import annotations

import random


def values(count: int, size: int, seed: int) -> list[bytes]:
    source = random.Random(seed)
    return [source.randbytes(size // 2 + 1).hex().encode()[:size] for _ in range(count)]
