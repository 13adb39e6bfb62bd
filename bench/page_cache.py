"""How to make the machine forget files, and how to tell that it did."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

PROBE_BYTES = 4096
CACHED_SHARE_MAX = 0.05  # above it a run is not about a disk


def must_evict(files: Sequence[Path]) -> None:
    """Evict, and raise ConnectionError if the files would not go."""
    cached = evict(files)
    if cached > CACHED_SHARE_MAX:
        raise ConnectionError(f"{cached:.0%} of the log would not leave the page cache")


def evict(files: Sequence[Path]) -> float:
    """Write files out and drop them from the page cache; the share of them that is still there."""
    still, probed = 0, 0
    for path in files:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            size = os.fstat(handle).st_size
            for position in range(0, size, max(PROBE_BYTES, size // 16)):
                probed += 1
                still += _is_cached(handle, position)
        finally:
            os.close(handle)
    return still / probed if probed else 0.0


def _is_cached(handle: int, position: int) -> bool:
    try:
        return os.preadv(handle, [bytearray(1)], position, os.RWF_NOWAIT) > 0
    except BlockingIOError:
        return False
