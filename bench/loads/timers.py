"""A million timers in one queue: each new one replaces the oldest; every tenth is short and expires.

The load of delayed requests: nearly all complete long before their deadline, so that adding and cancelling
must be cheap, independent of the number pending. All queues get the same deadlines and the same virtual time,
except the event loop, which only has its own.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable
from typing import Protocol

from bench.loads.worker import Result, Spec, serve
from bench.meter import Meter

ADDED_PER_MS = 100
DELAY_MS = (15_000, 30_000)  # beyond the end of a run: these are cancelled
SHORT_DELAY_MS = 5
EXPIRING_EVERY = 10


class Handle(Protocol):
    def cancel(self) -> object: ...


class Queue(Protocol):
    def add(self, deadline_ms: int) -> Handle: ...
    def advance(self, now_ms: int) -> None: ...


def _no_action() -> None:
    pass


class WheelQueue:
    """Odradek's timing wheel."""

    def __init__(self) -> None:
        from odradek.timers.timing_wheel import TimingWheel

        self._wheel = TimingWheel(0)

    def add(self, deadline_ms: int) -> Handle:
        return self._wheel.add(deadline_ms, _no_action)

    def advance(self, now_ms: int) -> None:
        self._wheel.advance(now_ms)


class HeapTimer:
    __slots__ = ("action", "queue")

    def __init__(self, queue: HeapQueue, action: Callable[[], None]) -> None:
        self.queue = queue
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        if self.action:
            self.action = None
            self.queue.on_cancel()


class HeapQueue:
    """heapq; cancelled entries are removed when they are half of it, as in asyncio."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, HeapTimer]] = []
        self._order = itertools.count()
        self._cancelled = 0

    def add(self, deadline_ms: int) -> Handle:
        timer = HeapTimer(self, _no_action)
        heapq.heappush(self._heap, (deadline_ms, next(self._order), timer))
        return timer

    def on_cancel(self) -> None:
        self._cancelled += 1
        if self._cancelled > 100 and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].action]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def advance(self, now_ms: int) -> None:
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            timer = heapq.heappop(heap)[2]
            if timer.action:
                action, timer.action = timer.action, None
                action()
            else:
                self._cancelled -= 1


class LoopQueue:
    """`loop.call_later` of asyncio; one iteration of the loop advances it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._now_ms = 0

    def add(self, deadline_ms: int) -> Handle:
        return self._loop.call_later((deadline_ms - self._now_ms) / 1000, _no_action)

    def advance(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._loop.call_soon(self._loop.stop)
        self._loop.run_forever()


QUEUES: dict[str, Callable[[], Queue]] = {
    "wheel": WheelQueue,
    "heapq": HeapQueue,
    "call_later": LoopQueue,
}


def run(spec: Spec) -> Result:
    delays = [random.Random(spec["seed"]).randint(*DELAY_MS) for _ in range(10_000)]
    queue = QUEUES[spec["queue"]]()
    meter = Meter(None)
    meter.start()
    _churn(queue, spec["timers"], spec["pending"], delays)
    cost = meter.stop()
    return {"timers": spec["timers"], **cost.as_result()}


def _churn(queue: Queue, count: int, pending: int, delays: list[int]) -> None:
    waiting: deque[Handle] = deque()
    now_ms = 0
    for number in range(count):
        if number % ADDED_PER_MS == 0:
            now_ms += 1
            queue.advance(now_ms)
        if number % EXPIRING_EVERY == 0:
            queue.add(now_ms + SHORT_DELAY_MS)
            continue
        waiting.append(queue.add(now_ms + delays[number % len(delays)]))
        if len(waiting) > pending:
            waiting.popleft().cancel()


if __name__ == "__main__":
    serve(run)
