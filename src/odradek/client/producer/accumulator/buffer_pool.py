"""The memory of queued batches: at most ``buffer.memory``, allocated first come, first served.

Pure bookkeeping: no call blocks. An allocation that does not fit is queued with ``enqueue``; ``deallocate``
and ``cancel`` return the waiters that were granted memory, and their caller wakes them.

Invariant: free, granted and used memory add up to ``memory_bytes``; no allocation overtakes a waiter. Only
buffers of the sizes that batches start with or grow to are kept for reuse, up to the free memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable


def _wake_nothing() -> None:
    """Default of ``Waiter.wake``: the memory was granted before anything waited for it."""


class Waiter:
    """A queued allocation; ``granted`` once the memory is reserved for it."""

    __slots__ = ("granted", "size_bytes", "wake")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.granted = False
        self.wake: Callable[[], object] = _wake_nothing
        """Wakes the waiting ``send``; set after ``enqueue``, called after the memory is granted."""


class BufferPool:
    """Counts memory, keeps buffers for reuse, and queues waiting allocations."""

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

    def try_allocate(self, size_bytes: int) -> bool:
        """Reserve memory if it is free and no allocation is waiting."""
        if self._waiting or size_bytes > self.available_bytes:
            return False
        self.available_bytes -= size_bytes
        return True

    def try_allocate_spare(self, size_bytes: int) -> bool:
        """Reserve memory for growth, only as long as half of the total stays free."""
        return size_bytes <= self.available_bytes - self.memory_bytes // 2 and self.try_allocate(size_bytes)

    def buffer(self, size_bytes: int) -> bytearray | None:
        """Return a kept buffer for reserved memory; None if there is none of that size."""
        buffer = None
        kept = self._free.get(size_bytes)
        if kept:
            buffer = kept.pop()
            self.kept_bytes -= size_bytes
        if self.kept_bytes > self.available_bytes:
            self._drop_kept_buffers()
        return buffer

    def _drop_kept_buffers(self) -> None:
        """Drop kept buffers until they fit in the free memory."""
        for size_bytes, kept in self._free.items():
            while kept and self.kept_bytes > self.available_bytes:
                kept.pop()
                self.kept_bytes -= size_bytes

    def enqueue(self, size_bytes: int) -> Waiter:
        """Queue an allocation; it is granted immediately if there is memory."""
        waiter = Waiter(size_bytes)
        self._waiting.append(waiter)
        self._grant()
        return waiter

    def deallocate(self, size_bytes: int, buffer: bytearray | None = None) -> list[Waiter]:
        """Free memory, and keep its buffer if it has a kept size; return the waiters granted by that."""
        self.available_bytes += size_bytes
        if buffer is not None and len(buffer) == size_bytes:
            self.keep(buffer)
        return self._grant() if self._waiting else []

    def keep(self, buffer: bytearray) -> None:
        """Keep a buffer for reuse, if it has a kept size and fits in the free memory."""
        kept = self._free.get(len(buffer))
        if kept is not None and self.kept_bytes + len(buffer) <= self.available_bytes:
            kept.append(buffer)
            self.kept_bytes += len(buffer)

    def cancel(self, waiter: Waiter) -> list[Waiter]:
        """Remove a waiter, or free its granted memory; return the waiters granted by that."""
        if waiter.granted:
            return self.deallocate(waiter.size_bytes)
        self._waiting.remove(waiter)
        return self._grant()

    def waiters(self) -> list[Waiter]:
        """Return the queued waiters."""
        return list(self._waiting)

    def _grant(self) -> list[Waiter]:
        granted = []
        while self._waiting and self._waiting[0].size_bytes <= self.available_bytes:
            waiter = self._waiting.popleft()
            self.available_bytes -= waiter.size_bytes
            waiter.granted = True
            granted.append(waiter)
        return granted
