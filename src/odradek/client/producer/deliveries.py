"""How programs learn what became of their records: whoever waits for a batch, and callbacks in send order.

``LoopNotifier`` serves tasks of the event loop, ``ThreadNotifier`` threads beside it. Both are told of a
batch's end exactly once, on the loop's thread, wake those who wait for it and run its callbacks in the order
of sending. A callback that raises is logged and disturbs nobody else.
"""

from __future__ import annotations

import asyncio
from _thread import LockType, allocate_lock
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from odradek.model.client_errors import InvalidState, TimedOut
from odradek.telemetry import events

if TYPE_CHECKING:
    from odradek.records.codec import Delivery, ProducerBatch

log = events.logger("producer")

_FOREVER_S: Final = -1

Calls = list[tuple[Callable[..., object], tuple[Any, ...]]]


def run_calls(calls: Calls) -> None:
    """Run callbacks of a program; none of them can keep another from running."""
    for function, given in calls:
        try:
            function(*given)
        except Exception as failed:  # noqa: BLE001  a user's code may raise anything
            log.failure("delivery_callback_failed", failed)


def _has_ended(batch: ProducerBatch) -> bool:
    """Whether a batch is done by now, whatever it was a line ago."""
    return batch.done


class LoopNotifier:
    """For asyncio: those who wait are tasks of the same loop."""

    __slots__ = ("_futures",)

    def __init__(self) -> None:
        self._futures: dict[ProducerBatch, asyncio.Future[None]] = {}

    def deliver(self, batch: ProducerBatch, calls: Calls) -> None:
        future = self._futures.pop(batch, None)
        if future is not None and not future.done():
            future.set_result(None)
        run_calls(calls)

    def wait(self, batch: ProducerBatch, timeout_s: float | None) -> None:
        del batch, timeout_s
        raise InvalidState("a delivery of an asyncio producer is awaited: await delivery")

    def future(self, batch: ProducerBatch) -> Awaitable[object]:
        future = self._futures.get(batch)
        if future is None:
            future = self._futures[batch] = asyncio.get_running_loop().create_future()
            if batch.done:
                del self._futures[batch]
                future.set_result(None)
        return asyncio.shield(future)


class ThreadNotifier:
    """For threads: those who wait are anywhere but on the loop's own thread, which would never end.

    Each waits on a raw lock of its own: an event of the standard library costs several times as much.
    """

    __slots__ = ("_is_loop_thread", "_locks")

    def __init__(self, is_loop_thread: Callable[[], bool]) -> None:
        self._locks: dict[ProducerBatch, list[LockType]] = {}
        self._is_loop_thread = is_loop_thread

    def deliver(self, batch: ProducerBatch, calls: Calls) -> None:
        # A copy: whoever gives up waiting at this moment takes itself out of the list.
        for lock in tuple(self._locks.pop(batch, ())):
            lock.release()
        run_calls(calls)

    def wait(self, batch: ProducerBatch, timeout_s: float | None) -> None:
        if batch.done:
            return
        if self._is_loop_thread():
            raise InvalidState("a callback cannot wait for a delivery: it runs where deliveries are made")
        lock = allocate_lock()
        lock.acquire()
        self._locks.setdefault(batch, []).append(lock)
        # The batch may have ended between the two looks at it; then nobody may come to release the lock.
        if _has_ended(batch):
            self._leave(batch, lock)
        elif not lock.acquire(timeout=_FOREVER_S if timeout_s is None else max(timeout_s, 0)):
            self._leave(batch, lock)
            if not _has_ended(batch):
                raise TimedOut(f"no answer for {batch.topic}-{batch.partition} within {timeout_s} s")

    def _leave(self, batch: ProducerBatch, lock: LockType) -> None:
        """Wait no longer. Others who wait for the same batch stay in the list, and are told."""
        locks = self._locks.get(batch, [])
        if lock in locks:
            locks.remove(lock)
        # Before the end somebody may be about to join an empty list: then it must be found by ``deliver``.
        if not locks and batch.done:
            self._locks.pop(batch, None)

    def future(self, batch: ProducerBatch) -> Awaitable[object]:
        del batch
        raise InvalidState("a delivery of a blocking producer is waited for with delivery.result()")


class Deliveries:
    """What became of many records sent in one call.

    ``result`` (or ``await``, in asyncio) waits for all of them and gives how many were acknowledged; it
    raises an error of theirs if there is one. ``acknowledged``, ``failed`` and ``error`` tell what is known
    so far.

    >>> from odradek import Producer
    >>> with Producer(bootstrap_servers="localhost:9092") as producer:
    ...     deliveries = producer.send_many("greetings", [b"a", b"b"])
    ...     deliveries.result(), deliveries.failed
    (2, 0)
    """

    __slots__ = ("_ranges", "_singles", "_waiting", "count")

    def __init__(self, waiting: LoopNotifier | ThreadNotifier) -> None:
        self._waiting = waiting
        self._ranges: list[tuple[ProducerBatch, int, int]] = []
        self._singles: list[Delivery] = []
        self.count = 0
        """Records that were sent."""

    def add(self, ranges: Iterable[tuple[ProducerBatch, int, int]]) -> None:
        """Note where records went: a batch, the place of the first in it, and how many follow."""
        for batch, first, count in ranges:
            self.count += count
            self._ranges.append((batch, first, count))

    def add_one(self, delivery: Delivery) -> None:
        """Note a record that was sent alone: the first of a batch, mostly."""
        self.count += 1
        self._singles.append(delivery)

    @property
    def acknowledged(self) -> int:
        return self._tally()[0]

    @property
    def failed(self) -> int:
        return self._tally()[1]

    @property
    def error(self) -> BaseException | None:
        """One of the errors, if there is any."""
        return self._tally()[2]

    def done(self) -> bool:
        acknowledged, failed, _ = self._tally()
        return acknowledged + failed == self.count

    def result(self, timeout_s: float | None = None) -> int:
        """Wait for all records; ``timeout_s`` bounds the wait for each batch of them."""
        for batch in self._pending():
            self._waiting.wait(batch, timeout_s)
        return self._outcome()

    def __await__(self) -> Generator[Any, None, int]:
        for batch in self._pending():
            yield from self._waiting.future(batch).__await__()
        return self._outcome()

    def placed(self) -> Iterator[tuple[str, int, int, int]]:
        """Where records are that were acknowledged: topic, partition, first offset, count.

        Records whose broker did not say where it put them are left out.
        """
        for delivery in self._singles:
            if delivery.done() and delivery.exception() is None:
                found = delivery.result()
                if found.offset >= 0:
                    yield found.topic, found.partition, found.offset, 1
        for batch, first, count in self._ranges:
            yield from _places(batch, first, count)

    def _pending(self) -> Iterator[ProducerBatch]:
        """Batches to wait for, one after another; what one was cut into comes after it."""
        open_batches = [batch for batch, _, _ in self._ranges] + [one.batch for one in self._singles]
        while open_batches:
            batch = open_batches.pop()
            while not batch.done:
                yield batch
            open_batches.extend(batch.parts)

    def _tally(self) -> tuple[int, int, BaseException | None]:
        acknowledged, failed, error = 0, 0, None
        for delivery in self._singles:
            if delivery.done():
                found = delivery.exception()
                acknowledged, failed = acknowledged + (found is None), failed + (found is not None)
                error = error or found
        for batch, first, count in self._ranges:
            good, bad, found = batch.outcome(first, count)
            acknowledged, failed = acknowledged + good, failed + bad
            error = error or found
        return acknowledged, failed, error

    def _outcome(self) -> int:
        acknowledged, _, error = self._tally()
        if error is not None:
            raise error
        return acknowledged

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        acknowledged, failed, _ = self._tally()
        return f"<Deliveries of {self.count}: {acknowledged} acknowledged, {failed} failed>"


def _places(batch: ProducerBatch, first: int, count: int) -> Iterator[tuple[str, int, int, int]]:
    if not batch.is_split:
        if batch.done and batch.error is None and batch.base_offset >= 0:
            yield batch.topic, batch.partition, batch.base_offset + first, count
        return
    begins = 0
    for part in batch.parts:
        low, high = max(first, begins), min(first + count, begins + part.count)
        if low < high:
            yield from _places(part, low - begins, high - low)
        begins += part.count
