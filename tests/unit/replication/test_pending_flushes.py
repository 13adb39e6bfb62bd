"""Flushes that appends wait for: one at a time a log, shared by all who ask meanwhile."""

import asyncio

from odradek.model.errors import StorageError
from odradek.replication.pending_flushes import Flushes


class Disk:
    """Stands for a partition and its log: a flush ends when the test says so."""

    def __init__(self):
        self.log = self
        self.begun = []
        self.is_flush_pending = self.is_leader = True
        self.failure = None

    async def flush(self):
        self.begun.append(asyncio.get_running_loop().create_future())
        await self.begun[-1]


async def turns():
    for _ in range(5):
        await asyncio.sleep(0)


def test_those_who_ask_while_a_flush_is_under_way_share_the_next():
    async def main():
        disk, told, flushed = Disk(), [], []
        flushes = Flushes(flushed.append)
        flushes.ask(disk, lambda failure: told.append(("first", failure)))
        await turns()
        for name in ("second", "third"):
            flushes.ask(disk, lambda failure, name=name: told.append((name, failure)))
        await turns()
        assert (len(disk.begun), told, flushed) == (1, [], [])
        disk.begun[0].set_result(None)
        await turns()
        assert (told, flushed) == ([("first", None)], [disk])
        assert len(disk.begun) == 2
        disk.begun[1].set_result(None)
        await turns()
        assert told == [("first", None), ("second", None), ("third", None)]
        assert len(disk.begun) == 2

    asyncio.run(main())


def test_a_failure_is_told_to_all_who_wait_and_to_those_who_come_later():
    async def main():
        disk, told, flushed = Disk(), [], []
        flushes = Flushes(flushed.append)
        for _ in range(2):
            flushes.ask(disk, told.append)
            await turns()
        for _ in range(2):
            disk.begun[-1].set_exception(StorageError("lost"))
            await turns()
        assert [str(failure) for failure in told] == ["lost", "lost"]
        assert flushed == []
        flushes.ask(disk, told.append)
        await turns()
        assert len(disk.begun) == 3
        disk.begun[2].set_result(None)
        await turns()
        assert told[2] is None

    asyncio.run(main())


def test_settled_means_that_no_flush_is_under_way():
    async def main():
        disk, told = Disk(), []
        flushes = Flushes(lambda _: None)
        await flushes.settle()
        flushes.ask(disk, told.append)
        await turns()
        settled = asyncio.get_running_loop().create_task(flushes.settle())
        await turns()
        assert not settled.done()
        disk.begun[0].set_result(None)
        await settled
        assert told == [None]

    asyncio.run(main())


def test_partitions_do_not_wait_for_each_other():
    async def main():
        slow, quick, told = Disk(), Disk(), []
        flushes = Flushes(lambda _: None)
        flushes.ask(slow, told.append)
        flushes.ask(quick, told.append)
        await turns()
        quick.begun[0].set_result(None)
        await turns()
        assert told == [None]
        slow.begun[0].set_result(None)
        await turns()
        assert told == [None, None]

    asyncio.run(main())


def test_a_refused_flush_is_retried_once_where_records_still_wait_for_it():
    async def main():
        waiting, unneeded, follower, failed = disks = [Disk() for _ in range(4)]
        flushes = Flushes(lambda _: None)
        for disk in disks:
            flushes.ask(disk, lambda _: None)
        await turns()
        for disk in disks:
            disk.begun[0].set_exception(StorageError("no space"))
        await flushes.settle()
        unneeded.is_flush_pending, follower.is_leader, failed.failure = False, False, StorageError("lost")
        flushes.retry()
        await turns()
        assert [len(disk.begun) for disk in disks] == [2, 1, 1, 1]
        waiting.begun[1].set_exception(StorageError("no space"))
        await flushes.settle()
        flushes.retry()
        await turns()
        waiting.begun[2].set_result(None)
        await flushes.settle()
        flushes.retry()
        await turns()
        assert len(waiting.begun) == 3, "the last flush was not refused"

    asyncio.run(main())
