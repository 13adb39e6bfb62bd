"""Whoever waits for a batch is woken once it is done, cut or not; callbacks cannot disturb each other."""

from __future__ import annotations

import asyncio
import threading
from _thread import LockType, allocate_lock
from typing import Any, cast

import pytest

from odradek.client.producer.deliveries import Deliveries, LoopNotifier, ThreadNotifier
from odradek.model.client_errors import InvalidState, TimedOut
from odradek.records.codec import ProducerBatch


def batch(waiting: object, *values: bytes) -> ProducerBatch:
    made = ProducerBatch("t", 0, 10_000, 0, None, waiting)
    for value in values or (b"v",):
        assert made.append(0, None, value, None) is not None
    return made


def elsewhere() -> ThreadNotifier:
    return ThreadNotifier(lambda: False)


def test_a_thread_is_woken_when_its_batch_is_done() -> None:
    waiting = elsewhere()
    sent = batch(waiting)
    deliveries = Deliveries(waiting)
    deliveries.add([(sent, 0, 1)])
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(deliveries.result(30)))
    thread.start()
    sent.complete(7, -1)
    thread.join(30)
    assert found == [1]


def test_a_thread_that_waits_for_what_is_done_does_not_wait() -> None:
    waiting = elsewhere()
    sent = batch(waiting)
    sent.complete(7, -1)
    waiting.wait(sent, 0)
    assert waiting._locks == {}


class Racing(list[Any]):
    """Those who wait for a batch; at the moment that counts, another thread changes the list."""

    def __init__(self, *locks: Any) -> None:
        super().__init__(locks)
        self.joining: list[Any] = []

    def __len__(self) -> int:
        found = super().__len__()
        self.extend(self.joining)
        self.joining = []
        return found


class Leaving:
    """The lock of somebody who gives up waiting in the moment of being woken."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []

    def release(self) -> None:
        self.waiting.remove(self)


def held() -> LockType:
    lock = allocate_lock()
    lock.acquire()
    return lock


def test_who_begins_to_wait_while_another_gives_up_is_woken() -> None:
    waiting = elsewhere()
    sent = batch(waiting)
    leaving, joining = held(), held()
    locks = Racing(leaving)
    waiting._locks[sent] = locks
    locks.joining = [joining]
    waiting._leave(sent, leaving)
    sent.complete(7, -1)
    assert not joining.locked()


def test_who_waits_beside_another_that_gives_up_is_woken() -> None:
    waiting = elsewhere()
    sent = batch(waiting)
    leaving, staying = Leaving(), held()
    waiting._locks[sent] = leaving.waiting = [cast(LockType, leaving), staying]
    sent.complete(7, -1)
    assert not staying.locked()


def test_patience_ends() -> None:
    waiting = elsewhere()
    with pytest.raises(TimedOut, match="t-0"):
        waiting.wait(batch(waiting), 0.001)


def test_the_loops_own_thread_must_not_wait() -> None:
    waiting = ThreadNotifier(lambda: True)
    with pytest.raises(InvalidState, match="callback"):
        waiting.wait(batch(waiting), 1)


def test_each_world_says_how_to_wait_in_it() -> None:
    threads, tasks = elsewhere(), LoopNotifier()
    with pytest.raises(InvalidState, match="await"):
        tasks.wait(batch(tasks), 1)
    with pytest.raises(InvalidState, match="result"):
        threads.future(batch(threads))


def test_a_task_waits_for_all_parts_of_a_batch_that_was_cut() -> None:
    async def scenario() -> None:
        waiting = LoopNotifier()
        sent = batch(waiting, *(bytes(300) for _ in range(4)))
        deliveries = Deliveries(waiting)
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


def test_giving_up_a_wait_does_not_end_that_of_another() -> None:
    async def scenario() -> None:
        waiting = LoopNotifier()
        sent = batch(waiting)
        first = asyncio.ensure_future(_wait(waiting, sent))
        second = asyncio.ensure_future(_wait(waiting, sent))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        sent.complete(0, -1)
        await second
        await _wait(waiting, sent)
        assert waiting._futures == {}

    asyncio.run(scenario())


def test_deliveries_tell_what_is_known_so_far() -> None:
    waiting = LoopNotifier()
    good, bad, open_one = (batch(waiting, b"a", b"b") for _ in range(3))
    deliveries = Deliveries(waiting)
    deliveries.add([(good, 0, 2), (bad, 1, 1), (open_one, 0, 2)])
    good.complete(0, -1)
    bad.fail(TimedOut("too late"))
    assert (len(deliveries), deliveries.acknowledged, deliveries.failed) == (5, 2, 1)
    assert isinstance(deliveries.error, TimedOut)
    assert not deliveries.done()
    assert "5" in repr(deliveries)


def test_deliveries_tell_where_records_are_also_those_of_a_batch_that_was_cut() -> None:
    waiting = LoopNotifier()
    whole, cut, failed = (batch(waiting, *(bytes(300) for _ in range(4))) for _ in range(3))
    deliveries = Deliveries(waiting)
    deliveries.add([(whole, 1, 2), (cut, 1, 3), (failed, 0, 4)])
    parts = cut.split(700)
    assert [part.count for part in parts] == [2, 2]
    whole.complete(100, -1)
    failed.fail(TimedOut("too late"))
    parts[0].complete(200, -1)
    assert [place[2:] for place in deliveries.placed()] == [(101, 2), (201, 1)]
    parts[1].complete(300, -1)
    assert [place[2:] for place in deliveries.placed()] == [(101, 2), (201, 1), (300, 2)]


def test_deliveries_leave_out_records_whose_place_nobody_told() -> None:
    waiting = LoopNotifier()
    sent = batch(waiting, b"a")
    deliveries = Deliveries(waiting)
    deliveries.add([(sent, 0, 1)])
    sent.complete(-1, -1)
    assert list(deliveries.placed()) == []


async def _result(deliveries: Deliveries) -> int:
    return await deliveries


async def _wait(waiting: LoopNotifier, sent: ProducerBatch) -> None:
    await waiting.future(sent)
