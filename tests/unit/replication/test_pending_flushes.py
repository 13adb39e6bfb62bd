"""Flushes that appends wait for: one at a time per log, shared by all waiters."""

import asyncio
from typing import Any

import pytest

from odradek.model.errors import StorageError
from odradek.replication.pending_flushes import PendingFlushes


class FakeLog:
    """A partition and its log in one; the test ends each flush."""

    def __init__(self):
        self.log = self
        self.begun = []
        self.is_flush_pending = self.is_leader = True
        self.failure = None

    async def flush(self):
        self.begun.append(asyncio.get_running_loop().create_future())
        await self.begun[-1]


async def run_loop():
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.sources
def test_requests_during_a_flush_share_the_next_one():
    async def main():
        log: Any = FakeLog()
        results: list[Any] = []
        flushed: list[Any] = []
        flushes = PendingFlushes(flushed.append)

        def request(name: str) -> None:
            flushes.request(log, lambda failure: results.append((name, failure)))

        request("first")
        await run_loop()
        for name in ("second", "third"):
            request(name)
        await run_loop()
        assert (len(log.begun), results, flushed) == (1, [], [])
        log.begun[0].set_result(None)
        await run_loop()
        assert (results, flushed) == ([("first", None)], [log])
        assert len(log.begun) == 2
        log.begun[1].set_result(None)
        await run_loop()
        assert results == [("first", None), ("second", None), ("third", None)]
        assert len(log.begun) == 2

    asyncio.run(main())


@pytest.mark.sources
def test_flush_failure_is_reported_to_all_waiters():
    async def main():
        log: Any = FakeLog()
        results: list[Any] = []
        flushed: list[Any] = []
        flushes = PendingFlushes(flushed.append)
        for _ in range(2):
            flushes.request(log, results.append)
            await run_loop()
        for _ in range(2):
            log.begun[-1].set_exception(StorageError("lost"))
            await run_loop()
        assert [str(failure) for failure in results] == ["lost", "lost"]
        assert flushed == []
        flushes.request(log, results.append)
        await run_loop()
        assert len(log.begun) == 3
        log.begun[2].set_result(None)
        await run_loop()
        assert results[2] is None

    asyncio.run(main())


@pytest.mark.sources
def test_drain_waits_for_flushes_in_progress():
    async def main():
        log: Any = FakeLog()
        results: list[Any] = []
        flushes = PendingFlushes(lambda _: None)
        await flushes.drain()
        flushes.request(log, results.append)
        await run_loop()
        drained = asyncio.get_running_loop().create_task(flushes.drain())
        await run_loop()
        assert not drained.done()
        log.begun[0].set_result(None)
        await drained
        assert results == [None]

    asyncio.run(main())


@pytest.mark.sources
def test_flushes_of_partitions_are_independent():
    async def main():
        slow: Any = FakeLog()
        quick: Any = FakeLog()
        results: list[Any] = []
        flushes = PendingFlushes(lambda _: None)
        flushes.request(slow, results.append)
        flushes.request(quick, results.append)
        await run_loop()
        quick.begun[0].set_result(None)
        await run_loop()
        assert results == [None]
        slow.begun[0].set_result(None)
        await run_loop()
        assert results == [None, None]

    asyncio.run(main())


@pytest.mark.sources
def test_failed_flush_is_retried_while_records_wait_for_it():
    async def main():
        logs: list[Any] = [FakeLog() for _ in range(4)]
        waiting, unneeded, follower, failed = logs
        flushes = PendingFlushes(lambda _: None)
        for log in logs:
            flushes.request(log, lambda _: None)
        await run_loop()
        for log in logs:
            log.begun[0].set_exception(StorageError("no space"))
        await flushes.drain()
        unneeded.is_flush_pending, follower.is_leader, failed.failure = False, False, StorageError("lost")
        flushes.retry()
        await run_loop()
        assert [len(log.begun) for log in logs] == [2, 1, 1, 1]
        waiting.begun[1].set_exception(StorageError("no space"))
        await flushes.drain()
        flushes.retry()
        await run_loop()
        waiting.begun[2].set_result(None)
        await flushes.drain()
        flushes.retry()
        await run_loop()
        assert len(waiting.begun) == 3, "the last flush succeeded"

    asyncio.run(main())
