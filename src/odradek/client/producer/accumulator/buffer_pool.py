"""The memory that records wait in: at most ``buffer.memory``, given out first come, first served.

Pure bookkeeping: nobody sleeps here. A taker that finds no room joins the line with ``queue`` and is told by
``give_back`` or ``leave`` when its turn has come; whoever called those wakes it.

Invariant: what is free, what is granted to the line and what is in use add up to ``memory_bytes``; while
somebody waits, nobody overtakes. Only buffers of the few sizes that batches begin with or grow to are kept
for another use, and no more of them than memory is free: others would fit nothing but their like.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable


def _nobody() -> None:
    """Wakes nobody: the turn came before there was a wait."""


class Waiter:
    """A place in the line; ``granted`` once the memory is reserved for it."""

    __slots__ = ("granted", "size_bytes", "wake")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.granted = False
        self.wake: Callable[[], object] = _nobody
        """What wakes the one who waits; set by whoever joined the line, called by whoever grants."""


class BufferPool:
    """Counts memory, keeps buffers for reuse and the line of those who wait."""

    __slots__ = ("_free", "_waiting", "available_bytes", "kept_bytes", "memory_bytes")

    def __init__(self, memory_bytes: int, batch_bytes: int, grown_bytes: Iterable[int] = ()) -> None:
        self.memory_bytes = memory_bytes
        self.available_bytes = memory_bytes
        self.kept_bytes = 0
        self._free: dict[int, list[bytearray]] = {
            size_bytes: [] for size_bytes in (batch_bytes, *grown_bytes)
        }
        self._waiting: deque[Waiter] = deque()

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    @property
    def kept_count(self) -> int:
        return sum(map(len, self._free.values()))

    def take(self, size_bytes: int) -> bool:
        """Reserve memory if there is room and nobody was here before."""
        if self._waiting or size_bytes > self.available_bytes:
            return False
        self.available_bytes -= size_bytes
        return True

    def take_spare(self, size_bytes: int) -> bool:
        """Reserve memory that nobody needs: only while half of all is left for those who do."""
        return size_bytes <= self.available_bytes - self.memory_bytes // 2 and self.take(size_bytes)

    def buffer(self, size_bytes: int) -> bytearray | None:
        """A kept buffer for memory that was reserved; None if there is none of that size."""
        found = None
        kept = self._free.get(size_bytes)
        if kept:
            found = kept.pop()
            self.kept_bytes -= size_bytes
        if self.kept_bytes > self.available_bytes:
            self._let_go()
        return found

    def _let_go(self) -> None:
        """Memory that is in use and buffers that are kept must not be more than all there may be."""
        for size_bytes, kept in self._free.items():
            while kept and self.kept_bytes > self.available_bytes:
                kept.pop()
                self.kept_bytes -= size_bytes

    def queue(self, size_bytes: int) -> Waiter:
        """Join the line; ``granted`` already if there is room after all."""
        waiter = Waiter(size_bytes)
        self._waiting.append(waiter)
        self._grant()
        return waiter

    def give_back(self, size_bytes: int, buffer: bytearray | None = None) -> list[Waiter]:
        """Free memory, and keep its buffer if it is of a kept size; gives those whose turn has come."""
        self.available_bytes += size_bytes
        if buffer is not None and len(buffer) == size_bytes:
            self.keep(buffer)
        return self._grant() if self._waiting else []

    def keep(self, buffer: bytearray) -> None:
        """Have a buffer for another use, if it is of such a size and there is free memory for it."""
        kept = self._free.get(len(buffer))
        if kept is not None and self.kept_bytes + len(buffer) <= self.available_bytes:
            kept.append(buffer)
            self.kept_bytes += len(buffer)

    def leave(self, waiter: Waiter) -> list[Waiter]:
        """Give up waiting, or memory granted and not used; gives those whose turn has come."""
        if waiter.granted:
            return self.give_back(waiter.size_bytes)
        self._waiting.remove(waiter)
        return self._grant()

    def waiters(self) -> list[Waiter]:
        """The line as it is."""
        return list(self._waiting)

    def _grant(self) -> list[Waiter]:
        granted = []
        while self._waiting and self._waiting[0].size_bytes <= self.available_bytes:
            waiter = self._waiting.popleft()
            self.available_bytes -= waiter.size_bytes
            waiter.granted = True
            granted.append(waiter)
        return granted
