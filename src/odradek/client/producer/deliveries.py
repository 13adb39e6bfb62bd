"""Notification of applications about completed records: waiting threads or tasks, and callbacks.

``LoopNotifier`` serves tasks of the event loop, ``ThreadNotifier`` other threads. Both are called once for
each completed batch, on the loop thread, wake the waiters of the batch and run its callbacks in send order. A
callback that raises is logged and does not affect others.
"""

from __future__ import annotations

import asyncio
from _thread import LockType, allocate_lock
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from odradek.model.client_errors import InvalidState, TimedOut
from odradek.telemetry import events

if TYPE_CHECKING:
    from odradek.records.client.producer import Delivery, ProducerBatch

log = events.logger("producer")

_FOREVER_S: Final = -1

Calls = list[tuple[Callable[..., object], tuple[Any, ...]]]


def run_calls(calls: Calls) -> None:
    """Run callbacks of the application; a failing one does not keep others from running."""
    for function, args in calls:
        try:
            function(*args)
        except Exception as error:  # noqa: BLE001  user code may raise anything
            log.failure("delivery_callback_failed", error)


def _is_done_now(batch: ProducerBatch) -> bool:
    """Read ``batch.done`` again: type checkers assume that it has not changed since the last check."""
    return batch.done


class LoopNotifier:
    """Notifier of asyncio producers: tasks of the same loop wait."""

    __slots__ = ("_futures",)

    def __init__(self) -> None:
        self._futures: dict[ProducerBatch, list[asyncio.Future[None]]] = {}

    def deliver(self, batch: ProducerBatch, calls: Calls) -> None:
        for future in self._futures.pop(batch, ()):
            if not future.done():
                future.set_result(None)
        run_calls(calls)

    def wait(self, batch: ProducerBatch, timeout_s: float | None) -> None:
        del batch, timeout_s
        raise InvalidState("a delivery of an asyncio producer must be awaited; use await delivery")

    def future(self, batch: ProducerBatch) -> Awaitable[object]:
        """Return a future for one waiter, which may be cancelled without effect on others."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if batch.done:
            future.set_result(None)
            return future
        waiting = self._futures.setdefault(batch, [])
        if waiting and waiting[-1].done():
            waiting.pop()  # cancelled: repeated attempts to wait do not add up
        waiting.append(future)
        return future


class ThreadNotifier:
    """Notifier of blocking producers: any thread but the loop thread may wait.

    Each waits on its own raw lock: a ``threading.Event`` costs several times as much.
    """

    __slots__ = ("_is_loop_thread", "_locks")

    def __init__(self, is_loop_thread: Callable[[], bool]) -> None:
        self._locks: dict[ProducerBatch, list[LockType]] = {}
        self._is_loop_thread = is_loop_thread

    def deliver(self, batch: ProducerBatch, calls: Calls) -> None:
        # A copy: a thread that times out at this moment removes itself from the list.
        for lock in tuple(self._locks.pop(batch, ())):
            lock.release()
        run_calls(calls)

    def wait(self, batch: ProducerBatch, timeout_s: float | None) -> None:
        if batch.done:
            return
        if self._is_loop_thread():
            raise InvalidState("a callback must not wait for a delivery: deliveries complete on its thread")
        lock = allocate_lock()
        lock.acquire()
        self._locks.setdefault(batch, []).append(lock)
        # The batch may have completed since the first check; then the lock may never be released.
        if _is_done_now(batch):
            self._remove(batch, lock)
        elif not lock.acquire(timeout=_FOREVER_S if timeout_s is None else max(timeout_s, 0)):
            self._remove(batch, lock)
            if not _is_done_now(batch):
                raise TimedOut(f"no delivery for {batch.topic}-{batch.partition} within {timeout_s} s")

    def _remove(self, batch: ProducerBatch, lock: LockType) -> None:
        """Stop waiting. Other waiters of the same batch stay in the list."""
        locks = self._locks.get(batch, [])
        if lock in locks:
            locks.remove(lock)
        # Before completion another thread may be about to add to the empty list, which ``deliver`` must find.
        if not locks and batch.done:
            self._locks.pop(batch, None)

    def future(self, batch: ProducerBatch) -> Awaitable[object]:
        del batch
        raise InvalidState("a delivery of a blocking producer must not be awaited; use delivery.result()")


class Deliveries:
    """Deliveries of many records sent in one call.

    ``result`` (or ``await``, in asyncio) waits for all of them and returns the number of acknowledged
    records; it raises one of their errors if there is any. ``acknowledged``, ``failed`` and ``error`` are the
    state so far.

    >>> from odradek import Producer
    >>> with Producer(bootstrap_servers="localhost:9092") as producer:
    ...     deliveries = producer.send_many("greetings", [b"a", b"b"])
    ...     deliveries.result(), deliveries.failed
    (2, 0)
    """

    __slots__ = ("_notifier", "_ranges", "_singles", "count")

    def __init__(self, notifier: LoopNotifier | ThreadNotifier) -> None:
        self._notifier = notifier
        self._ranges: list[tuple[ProducerBatch, int, int]] = []
        self._singles: list[Delivery] = []
        self.count = 0
        """Number of records sent."""

    def add(self, ranges: Iterable[tuple[ProducerBatch, int, int]]) -> None:
        """Add ranges of records: batch, index of the first record, and count."""
        for batch, first, count in ranges:
            self.count += count
            self._ranges.append((batch, first, count))

    def add_one(self, delivery: Delivery) -> None:
        """Add a record that was sent alone, mostly the first of a batch."""
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
            self._notifier.wait(batch, timeout_s)
        return self._result()

    def __await__(self) -> Generator[Any, None, int]:
        for batch in self._pending():
            yield from self._notifier.future(batch).__await__()
        return self._result()

    def offset_ranges(self) -> Iterator[tuple[str, int, int, int]]:
        """Yield the offsets of acknowledged records: topic, partition, first offset, count.

        Records without a known offset are omitted.
        """
        for delivery in self._singles:
            if delivery.done() and delivery.exception() is None:
                metadata = delivery.result()
                if metadata.offset >= 0:
                    yield metadata.topic, metadata.partition, metadata.offset, 1
        for batch, first, count in self._ranges:
            yield from _offset_ranges(batch, first, count)

    def _pending(self) -> Iterator[ProducerBatch]:
        """Yield batches to wait for; the parts of a split batch come after it."""
        open_batches = [batch for batch, _, _ in self._ranges] + [
            delivery.batch for delivery in self._singles
        ]
        while open_batches:
            batch = open_batches.pop()
            while not batch.done:
                yield batch
            open_batches.extend(batch.parts)

    def _tally(self) -> tuple[int, int, BaseException | None]:
        acknowledged, failed, error = 0, 0, None
        for delivery in self._singles:
            if delivery.done():
                exception = delivery.exception()
                acknowledged, failed = acknowledged + (exception is None), failed + (exception is not None)
                error = error or exception
        for batch, first, count in self._ranges:
            range_acknowledged, range_failed, exception = batch.outcome(first, count)
            acknowledged, failed = acknowledged + range_acknowledged, failed + range_failed
            error = error or exception
        return acknowledged, failed, error

    def _result(self) -> int:
        acknowledged, _, error = self._tally()
        if error is not None:
            raise error
        return acknowledged

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        acknowledged, failed, _ = self._tally()
        return f"<Deliveries of {self.count}: {acknowledged} acknowledged, {failed} failed>"


def _offset_ranges(batch: ProducerBatch, first: int, count: int) -> Iterator[tuple[str, int, int, int]]:
    if not batch.is_split:
        if batch.done and batch.error is None and batch.base_offset >= 0:
            yield batch.topic, batch.partition, batch.base_offset + first, count
        return
    part_start = 0
    for part in batch.parts:
        low, high = max(first, part_start), min(first + count, part_start + part.count)
        if low < high:
            yield from _offset_ranges(part, low - part_start, high - low)
        part_start += part.count
