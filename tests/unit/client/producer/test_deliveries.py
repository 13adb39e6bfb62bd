"""Notification of waiting threads and tasks about completed batches."""

from __future__ import annotations

import asyncio
import threading
from _thread import LockType, allocate_lock
from typing import Any, cast

import pytest

from odradek.client.producer.deliveries import Deliveries, LoopNotifier, ThreadNotifier
from odradek.model.client_errors import InvalidState, TimedOut
from odradek.records.client.producer import ProducerBatch


def new_batch(notifier: Any, *values: bytes) -> ProducerBatch:
    batch = ProducerBatch("t", 0, 10_000, 0, None, notifier)
    for value in values or (b"v",):
        assert batch.append(0, None, value, None) is not None
    return batch


def thread_notifier() -> ThreadNotifier:
    return ThreadNotifier(lambda: False)


def test_waiting_thread_is_woken_on_completion() -> None:
    notifier = thread_notifier()
    sent = new_batch(notifier)
    deliveries = Deliveries(notifier)
    deliveries.add([(sent, 0, 1)])
    results: list[int] = []
    thread = threading.Thread(target=lambda: results.append(deliveries.result(30)))
    thread.start()
    sent.complete(7, -1)
    thread.join(30)
    assert results == [1]


def test_waiting_for_a_completed_batch_returns_immediately() -> None:
    notifier = thread_notifier()
    sent = new_batch(notifier)
    sent.complete(7, -1)
    notifier.wait(sent, 0)
    assert notifier._locks == {}


class RacingLocks(list[Any]):
    """Locks of a batch; ``len`` lets another thread add to the list, as in a race."""

    def __init__(self, *locks: Any) -> None:
        super().__init__(locks)
        self.joining: list[Any] = []

    def __len__(self) -> int:
        length = super().__len__()
        self.extend(self.joining)
        self.joining = []
        return length


class LeavingLock:
    """The lock of a thread that times out at the moment it is woken."""

    def __init__(self) -> None:
        self.locks: list[Any] = []

    def release(self) -> None:
        self.locks.remove(self)


def held() -> LockType:
    lock = allocate_lock()
    lock.acquire()
    return lock


def test_thread_that_starts_waiting_while_another_times_out_is_woken() -> None:
    notifier = thread_notifier()
    sent = new_batch(notifier)
    leaving, joining = held(), held()
    locks = RacingLocks(leaving)
    notifier._locks[sent] = locks
    locks.joining = [joining]
    notifier._remove(sent, leaving)
    sent.complete(7, -1)
    assert not joining.locked()


def test_thread_waiting_next_to_one_that_times_out_is_woken() -> None:
    notifier = thread_notifier()
    sent = new_batch(notifier)
    leaving, staying = LeavingLock(), held()
    notifier._locks[sent] = leaving.locks = [cast(LockType, leaving), staying]
    sent.complete(7, -1)
    assert not staying.locked()


def test_wait_times_out() -> None:
    notifier = thread_notifier()
    with pytest.raises(TimedOut, match="t-0"):
        notifier.wait(new_batch(notifier), 0.001)


def test_wait_on_the_loop_thread_is_rejected() -> None:
    notifier = ThreadNotifier(lambda: True)
    with pytest.raises(InvalidState, match="callback"):
        notifier.wait(new_batch(notifier), 1)


def test_wrong_way_to_wait_is_rejected_with_the_right_one() -> None:
    threads, tasks = thread_notifier(), LoopNotifier()
    with pytest.raises(InvalidState, match="await"):
        tasks.wait(new_batch(tasks), 1)
    with pytest.raises(InvalidState, match="result"):
        threads.future(new_batch(threads))


def test_task_waits_for_all_parts_of_a_split_batch() -> None:
    async def scenario() -> None:
        notifier = LoopNotifier()
        sent = new_batch(notifier, *(bytes(300) for _ in range(4)))
        deliveries = Deliveries(notifier)
        deliveries.add([(sent, 0, 4)])
        task = asyncio.ensure_future(_result(deliveries))
        await asyncio.sleep(0)
        parts = sent.split(700)
        for part in parts[:-1]:
            part.complete(0, -1)
        await asyncio.sleep(0)
        assert not task.done()
        assert not deliveries.done()
        parts[-1].complete(0, -1)
        assert await task == 4

    asyncio.run(scenario())


def test_cancelled_wait_does_not_end_another() -> None:
    async def scenario() -> None:
        notifier = LoopNotifier()
        sent = new_batch(notifier)
        first = asyncio.ensure_future(_wait(notifier, sent))
        second = asyncio.ensure_future(_wait(notifier, sent))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        sent.complete(0, -1)
        await second
        await _wait(notifier, sent)
        assert notifier._futures == {}

    asyncio.run(scenario())


def test_deliveries_report_partial_progress() -> None:
    notifier = LoopNotifier()
    good, bad, pending = (new_batch(notifier, b"a", b"b") for _ in range(3))
    deliveries = Deliveries(notifier)
    deliveries.add([(good, 0, 2), (bad, 1, 1), (pending, 0, 2)])
    good.complete(0, -1)
    bad.fail(TimedOut("too late"))
    assert (len(deliveries), deliveries.acknowledged, deliveries.failed) == (5, 2, 1)
    assert isinstance(deliveries.error, TimedOut)
    assert not deliveries.done()
    assert "5" in repr(deliveries)


def test_deliveries_placed_includes_parts_of_a_split_batch() -> None:
    notifier = LoopNotifier()
    whole, split, failed = (new_batch(notifier, *(bytes(300) for _ in range(4))) for _ in range(3))
    deliveries = Deliveries(notifier)
    deliveries.add([(whole, 1, 2), (split, 1, 3), (failed, 0, 4)])
    parts = split.split(700)
    assert [part.count for part in parts] == [2, 2]
    whole.complete(100, -1)
    failed.fail(TimedOut("too late"))
    parts[0].complete(200, -1)
    assert [offsets[2:] for offsets in deliveries.offset_ranges()] == [(101, 2), (201, 1)]
    parts[1].complete(300, -1)
    assert [offsets[2:] for offsets in deliveries.offset_ranges()] == [(101, 2), (201, 1), (300, 2)]


def test_deliveries_placed_omits_unknown_offsets() -> None:
    notifier = LoopNotifier()
    sent = new_batch(notifier, b"a")
    deliveries = Deliveries(notifier)
    deliveries.add([(sent, 0, 1)])
    sent.complete(-1, -1)
    assert list(deliveries.offset_ranges()) == []


async def _result(deliveries: Deliveries) -> int:
    return await deliveries


async def _wait(notifier: LoopNotifier, sent: ProducerBatch) -> None:
    await notifier.future(sent)
