"""Message values: reproducible by seed, all different, compressible to half."""

from __future__ import annotations

import random


def values(count: int, size: int, seed: int) -> list[bytes]:
    source = random.Random(seed)
    return [source.randbytes(size // 2 + 1).hex().encode()[:size] for _ in range(count)]
