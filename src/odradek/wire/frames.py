"""Length-prefixed frames from a byte stream.

Layout: int32 size, then that many bytes. Bytes are received into a scratch buffer that several readers may
share: its content belongs to one reader from ``buffer()`` to ``received()`` only. Complete frames are copied
out of it, and the beginning of the next one is saved. A large frame gets a buffer of its own as soon as its
size is known, and the rest is received directly into it. That buffer uses memory in proportion to the bytes
received, so that a peer cannot claim memory by announcing a size: up to ``GROWN_BYTES_MAX`` it grows with the
data, beyond that it is memory-mapped, so that pages are allocated as they are written. A returned frame owns
its bytes.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from struct import Struct
from typing import Final

from odradek.model.errors import RemoteProtocolViolation

SCRATCH_BYTES: Final = 256 * 1024
LARGE_BYTES: Final = 64 * 1024
"""An incomplete frame above this size gets a buffer of its own."""

GROWN_BYTES_MAX: Final = 1024 * 1024 + LARGE_BYTES
"""Slightly more than the usual records of one partition; larger frames are memory-mapped."""
_GROWTH: Final = 4
_FIRST_GROWTH: Final = 16
_FIRST_BYTES_MAX: Final = 256 * 1024
"""Up to this size, the first buffer is large enough for most frames: a second costs a copy and a receive."""
_SMALL_BYTES: Final = 4 * 1024

_size_at = Struct(">i").unpack_from


def make_scratch() -> memoryview:
    """Return a buffer to share among readers that never overlap between ``buffer()`` and ``received()``."""
    return memoryview(bytearray(SCRATCH_BYTES))


class FrameReader:
    """Splits received bytes into frames: receive into ``buffer()``, then call ``received`` with the count.

    A large frame is allocated up to ``announced_bytes_max`` on its announced size alone (for trusted peers).
    ``allocate`` creates the buffers of large frames; they need not be zeroed, because every byte is received
    before it is visible. At most ``frames_max`` frames are returned at once; ``more`` returns the others.
    """

    __slots__ = (
        "_allocate",
        "_announced_bytes_max",
        "_filled",
        "_frames_max",
        "_large",
        "_large_bytes",
        "_large_view",
        "_rest",
        "_scratch",
        "frame_bytes_max",
        "has_more",
        "violation",
    )

    def __init__(
        self,
        frame_bytes_max: int,
        scratch: memoryview | None = None,
        announced_bytes_max: int = 0,
        allocate: Callable[[int], bytearray | memoryview] = bytearray,
        frames_max: int = SCRATCH_BYTES,
    ) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._allocate = allocate
        self._frames_max = frames_max
        self._announced_bytes_max = announced_bytes_max
        self.violation: RemoteProtocolViolation | None = None
        self.has_more = False
        """True while complete frames may remain; ``more`` returns them."""
        self._scratch = make_scratch() if scratch is None else scratch
        self._rest = b""
        self._large: bytearray | memoryview | mmap.mmap | None = None
        self._large_view = memoryview(b"")
        self._large_bytes = 0
        self._filled = 0

    def buffer(self) -> memoryview:
        """Return the buffer to receive into: never empty, and valid for one receive."""
        if self._large is None:
            rest = self._rest
            if not rest:
                return self._scratch
            self._scratch[: len(rest)] = rest
            return self._scratch[len(rest) :]
        if self._filled == len(self._large):
            self._reserve(min(_GROWTH * self._filled, self._large_bytes))
        return self._large_view[self._filled :]

    def received(self, count: int) -> list[memoryview]:
        """Account for ``count`` bytes received into ``buffer()``; return the complete frames in order.

        Frames before an invalid one are returned, and ``violation`` is set: nothing more may be received. An
        invalid first frame raises the violation.
        """
        if self._large is not None:
            self._filled += count
            return self._finish_large()
        return self._cut(len(self._rest) + count)

    def more(self) -> list[memoryview]:
        """Return the next complete frames of the received bytes."""
        self.buffer()
        return self._cut(len(self._rest))

    @property
    def partial_bytes(self) -> int:
        """Bytes received of an incomplete frame, including its size field."""
        return len(self._rest) if self._large is None else 4 + self._filled

    def release(self) -> None:
        """Drop all received bytes; nothing more will be received."""
        self._rest = b""
        self.has_more = False
        self._large, self._large_view = None, memoryview(b"")

    def _cut(self, end: int) -> list[memoryview]:
        frames: list[memoryview] = []
        scratch, start = self._scratch, 0
        self.has_more = False
        while end - start >= 4:
            if len(frames) == self._frames_max:
                self.has_more = True
                break
            size: int = _size_at(scratch, start)[0]
            if not 0 <= size <= self.frame_bytes_max:
                self.violation = self._invalid_size(size)
                if not frames:
                    raise self.violation
                break
            stop = start + 4 + size
            if stop > end:
                if size > LARGE_BYTES:
                    self._begin_large(size, start + 4, end)
                    start = end
                break
            frames.append(memoryview(bytearray(scratch[start + 4 : stop])))
            start = stop
        self._rest = bytes(scratch[start:end]) if start < end else b""
        return frames

    def _invalid_size(self, size: int) -> RemoteProtocolViolation:
        if size < 0:
            return RemoteProtocolViolation(f"frame size must be in 0..{self.frame_bytes_max}, got {size}")
        return RemoteProtocolViolation(f"frame size must be <= {self.frame_bytes_max} bytes, got {size}")

    def _begin_large(self, size: int, start: int, end: int) -> None:
        self._large_bytes = size
        self._filled = 0
        arrived = end - start
        first = max(_GROWTH * arrived, min(_FIRST_GROWTH * arrived, _FIRST_BYTES_MAX), _SMALL_BYTES)
        self._reserve(min(size, max(first, self._announced_bytes_max)))
        self._large_view[: end - start] = self._scratch[start:end]
        self._filled = end - start

    def _reserve(self, size: int) -> None:
        """Move the large frame to a buffer of this size, or to a mapping of its whole size."""
        if size > max(GROWN_BYTES_MAX, self._announced_bytes_max):
            larger: bytearray | memoryview | mmap.mmap = mmap.mmap(-1, self._large_bytes)
        else:
            larger = self._allocate(size)
        view = memoryview(larger)
        view[: self._filled] = self._large_view[: self._filled]
        self._large, self._large_view = larger, view

    def _finish_large(self) -> list[memoryview]:
        if self._filled < self._large_bytes:
            return []
        frame = self._large_view
        self._large, self._large_view = None, memoryview(b"")
        return [frame]
