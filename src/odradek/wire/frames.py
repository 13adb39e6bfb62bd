"""Length-prefixed frames out of a stream of bytes.

Layout: size int32, then that many bytes. Bytes are received into a scratch buffer that many readers may
share: what lies in it belongs to one reader from ``buffer()`` to ``received()``, and no longer. Frames that
are whole by then are copied out of it, the beginning of the next one is kept aside; a large frame gets its
own buffer as soon as its size is known, and the rest of it is received straight into that. Its buffer takes
the memory of what has arrived, so that announcing much and sending little costs the peer's words, not our
memory: up to ``GROWN_BYTES_MAX`` it grows with that, and beyond it is mapped, so that pages become memory as
they are received into. A frame given out owns its bytes: nothing here touches them again.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from struct import Struct
from typing import Final

from odradek.model.errors import RemoteProtocolViolation

SCRATCH_BYTES: Final = 256 * 1024
LARGE_BYTES: Final = 64 * 1024
"""A frame above this that is not complete in scratch gets a buffer of its own."""

GROWN_BYTES_MAX: Final = 1024 * 1024 + LARGE_BYTES
"""A little more than the usual records of one partition: larger frames are worth a mapping."""
_GROWTH: Final = 4
_FIRST_GROWTH: Final = 16
_FIRST_BYTES_MAX: Final = 256 * 1024
"""Up to this size, the first buffer is large enough for most frames: a second costs a copy and a receive."""
_SMALL_BYTES: Final = 4 * 1024

_size_at = Struct(">i").unpack_from


def make_scratch() -> memoryview:
    """A buffer for readers that are never between ``buffer()`` and ``received()`` at the same time."""
    return memoryview(bytearray(SCRATCH_BYTES))


class FrameReader:
    """Receive into ``buffer()``, tell ``received`` how much arrived, get the frames that are complete.

    For a large frame ``announced_bytes_max`` is set aside on its announcement alone, where peers are trusted.
    ``allocate`` makes the buffers of large frames. They need not be empty: each byte is received before
    anybody sees it. At most ``frames_max`` frames are given at once; ``more`` gives the others.
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
        """True while frames may be left in the received bytes; ``more`` gives them."""
        self._scratch = make_scratch() if scratch is None else scratch
        self._rest = b""
        self._large: bytearray | memoryview | mmap.mmap | None = None
        self._large_view = memoryview(b"")
        self._large_bytes = 0
        self._filled = 0

    def buffer(self) -> memoryview:
        """Where to receive next; never empty, and to be asked for anew before every receive."""
        if self._large is None:
            rest = self._rest
            if not rest:
                return self._scratch
            self._scratch[: len(rest)] = rest
            return self._scratch[len(rest) :]
        if self._filled == len(self._large):
            self._set_aside(min(_GROWTH * self._filled, self._large_bytes))
        return self._large_view[self._filled :]

    def received(self, count: int) -> list[memoryview]:
        """Account for ``count`` bytes put into ``buffer()``; give the frames now complete, in order.

        Frames before one that cannot be are given; ``violation`` then says what came behind them, and nothing
        more may be received. With none before it, it is raised.
        """
        if self._large is not None:
            self._filled += count
            return self._finish_large()
        return self._cut(len(self._rest) + count)

    def more(self) -> list[memoryview]:
        """Give the next frames of what was received."""
        self.buffer()
        return self._cut(len(self._rest))

    @property
    def partial_bytes(self) -> int:
        """Bytes received of a frame that is not complete, with its size."""
        return len(self._rest) if self._large is None else 4 + self._filled

    def release(self) -> None:
        """Let go of what was received; nothing more will be."""
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
                self.violation = self._refusal(size)
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

    def _refusal(self, size: int) -> RemoteProtocolViolation:
        if size < 0:
            return RemoteProtocolViolation(
                f"a frame announces {size} bytes; the limit is {self.frame_bytes_max}"
            )
        return RemoteProtocolViolation(
            f"a frame of {size} bytes is larger than the limit of {self.frame_bytes_max}"
        )

    def _begin_large(self, size: int, start: int, end: int) -> None:
        self._large_bytes = size
        self._filled = 0
        arrived = end - start
        first = max(_GROWTH * arrived, min(_FIRST_GROWTH * arrived, _FIRST_BYTES_MAX), _SMALL_BYTES)
        self._set_aside(min(size, max(first, self._announced_bytes_max)))
        self._large_view[: end - start] = self._scratch[start:end]
        self._filled = end - start

    def _set_aside(self, size: int) -> None:
        """Give the large frame a buffer of this size, with what it has so far; or one of its whole size."""
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
