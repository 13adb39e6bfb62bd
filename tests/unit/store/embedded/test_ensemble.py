"""The embedded store beyond the contract: order of commits, failing disks, cancelled callers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from odradek.store.embedded.database import MEMORY, Database, DiskFull
from odradek.store.embedded.ensemble import EmbeddedEnsemble
from odradek.store.port import BadVersion, Create, SessionExpired, Unavailable, WatchedEvent, WatchedEventType


class HeldOffload:
    """Runs work only when told to."""

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[tuple[Callable[[], None], asyncio.Future[None]]] = asyncio.Queue()
        self.count = 0

    async def __call__(self, work: Callable[[], None]) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.put_nowait((work, done))
        await done

    async def release(self) -> None:
        work, done = await self.waiting.get()
        self.count += 1
        try:
            work()
        except Unavailable as failed:
            done.set_exception(failed)
        else:
            done.set_result(None)
        for _ in range(5):
            await asyncio.sleep(0)


@asynccontextmanager
async def opened(clock, offload=None) -> AsyncIterator[EmbeddedEnsemble]:
    ensemble = EmbeddedEnsemble(MEMORY, clock, offload=offload)
    try:
        yield ensemble
    finally:
        await ensemble.close()


def run(body) -> None:
    asyncio.run(body())


def test_reads_see_only_committed_writes(clock) -> None:
    async def body() -> None:
        offload = HeldOffload()
        async with opened(clock, offload) as ensemble:
            store = ensemble.connect()
            writing = asyncio.create_task(store.create("/a"))
            await asyncio.sleep(0)
            assert await store.exists("/a") is None
            await offload.release()
            assert await writing == "/a"
            assert await store.exists("/a") is not None

    run(body)


def test_queued_writes_share_the_next_transaction(clock) -> None:
    async def body() -> None:
        offload = HeldOffload()
        async with opened(clock, offload) as ensemble:
            store = ensemble.connect()
            first = asyncio.create_task(store.create("/a"))
            await asyncio.sleep(0)
            later = [asyncio.create_task(store.set("/a", b"%d" % n, n)) for n in range(10)]
            stale = asyncio.create_task(store.set("/a", b"stale", 3))
            await asyncio.sleep(0)
            await offload.release()
            assert first.done()
            assert not later[0].done()
            await offload.release()
            assert [(await write).version for write in later] == list(range(1, 11))
            with pytest.raises(BadVersion):
                await stale
            assert offload.count == 2
            assert (await store.get("/a"))[0] == b"9"

    run(body)


def test_watch_set_during_a_commit_fires(clock) -> None:
    async def body() -> None:
        offload = HeldOffload()
        async with opened(clock, offload) as ensemble:
            store = ensemble.connect()
            told: list[WatchedEvent] = []
            writing = asyncio.create_task(store.create("/a"))
            await asyncio.sleep(0)
            assert await store.watch_exists("/a", told.append) is None
            await offload.release()
            await writing
            assert told == [WatchedEvent(WatchedEventType.CREATED, "/a")]

    run(body)


def test_cancelled_caller_does_not_cancel_its_write(clock) -> None:
    async def body() -> None:
        offload = HeldOffload()
        async with opened(clock, offload) as ensemble:
            store = ensemble.connect()
            one, two = asyncio.create_task(store.create("/a")), asyncio.create_task(store.create("/b"))
            await asyncio.sleep(0)
            one.cancel()
            await offload.release()
            assert await two == "/b"
            assert one.cancelled()
            assert await store.exists("/a") is not None

    run(body)


def fail_next_write(monkeypatch) -> None:
    honest = Database.write

    def failing(self, after, zxid) -> None:
        monkeypatch.setattr(Database, "write", honest)
        raise Unavailable(self.path, "disk full")

    monkeypatch.setattr(Database, "write", failing)


@pytest.mark.parametrize("in_line", [True, False])
def test_failed_commit_changes_nothing(clock, monkeypatch, in_line) -> None:
    async def body() -> None:
        async def at_once(work) -> None:
            work()

        async with opened(clock, None if in_line else at_once) as ensemble:
            store = ensemble.connect()
            told: list[WatchedEvent] = []
            await store.watch_children("/", told.append)
            fail_next_write(monkeypatch)
            with pytest.raises(Unavailable, match="disk full"):
                await store.multi([Create("/a"), Create("/b")])
            assert await store.children("/") == []
            assert told == []
            await store.create("/a")
            await asyncio.sleep(0)
            assert told == [WatchedEvent(WatchedEventType.CHILDREN, "/")]

    run(body)


def test_stopped_writer_rejects_queued_and_later_writes(clock) -> None:
    async def body() -> None:
        offload = HeldOffload()
        async with opened(clock, offload) as ensemble:
            store = ensemble.connect()
            one = asyncio.create_task(store.create("/a"))
            await asyncio.sleep(0)
            two = asyncio.create_task(store.create("/b"))
            await asyncio.sleep(0)
            _, done = await offload.waiting.get()
            done.cancel()
            for write in (one, two):
                with pytest.raises(Unavailable, match="stopped"):
                    await write
            with pytest.raises(Unavailable):
                await store.create("/c")

    run(body)


def test_closed_store_rejects_new_sessions(play) -> None:
    async def body(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await ensemble.close()
        with pytest.raises(Unavailable):
            ensemble.connect()
        with pytest.raises(SessionExpired):
            await store.get("/")

    play(body)


def test_watch_event_of_an_ended_session_is_dropped(clock) -> None:
    async def body() -> None:
        async with opened(clock) as ensemble:
            one, two = ensemble.connect(), ensemble.connect()
            told: list[WatchedEvent] = []
            await one.watch_exists("/a", told.append)
            await two.create("/a")
            await one.close()
            await asyncio.sleep(0)
            assert told == []

    run(body)


def test_node_times_come_from_the_clock(play, clock) -> None:
    async def body(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await store.create("/a")
        clock.now_ms += 7
        stat = await store.set("/a", b"")
        assert (stat.ctime_ms, stat.mtime_ms) == (clock.now_ms - 7, clock.now_ms)

    play(body)


@pytest.fixture
def full(monkeypatch) -> list[bool]:
    """Whether the disk is full: the last one counts."""
    states = [False]
    write = Database.write

    def guarded(self, after, zxid):
        if states[-1]:
            raise DiskFull(self.path, "cannot be written: full")
        write(self, after, zxid)

    monkeypatch.setattr(Database, "write", guarded)
    return states


def test_deferred_writes_reach_the_file_once_there_is_space(clock, full, tmp_path) -> None:
    async def body() -> None:
        path = str(tmp_path / "store.sqlite")
        ensemble = EmbeddedEnsemble(path, clock)
        store = ensemble.connect()
        await store.create("/before")
        full.append(True)
        ensemble.defers_writes = True
        await store.create("/here", ephemeral=True)
        await store.set("/before", b"changed")
        assert (await store.get("/before"))[0] == b"changed"
        ensemble.defers_writes = False
        with pytest.raises(Unavailable, match="full"):
            await store.create("/later")
        assert await store.exists("/later") is None
        assert await store.exists("/here") is not None
        full.append(False)
        await store.create("/later")
        assert set(Database.load(ensemble._database).nodes) == {"/", "/before", "/here", "/later"}
        await ensemble.close()
        again = EmbeddedEnsemble(path, clock)
        assert set(again.tree.nodes) == {"/", "/before", "/later"}
        assert again.tree.nodes["/before"][0] == b"changed"
        await again.close()

    run(body)


def test_store_closes_on_a_full_disk(clock, full, tmp_path) -> None:
    async def body() -> None:
        ensemble = EmbeddedEnsemble(str(tmp_path / "store.sqlite"), clock)
        await ensemble.connect().create("/here", ephemeral=True)
        full.append(True)
        await ensemble.close()
        full.append(False)
        again = EmbeddedEnsemble(str(tmp_path / "store.sqlite"), clock)
        assert set(again.tree.nodes) == {"/"}
        await again.close()

    run(body)


def test_opening_a_store_writes_nothing(clock, full, tmp_path) -> None:
    async def body() -> None:
        path = str(tmp_path / "store.sqlite")
        ensemble = EmbeddedEnsemble(path, clock)
        await ensemble.connect().create("/kept")
        await ensemble.close()
        full.append(True)
        again = EmbeddedEnsemble(path, clock)
        assert set(again.tree.nodes) == {"/", "/kept"}
        await again.close()

    run(body)
