"""The embedded store beyond the contract: commit order, failing disks, cancelled callers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from odradek.store.embedded.database import MEMORY, Database, DiskFull
from odradek.store.embedded.ensemble import EmbeddedEnsemble
from odradek.store.port import (
    BadVersion,
    CreateOp,
    SessionExpired,
    Unavailable,
    WatchedEvent,
    WatchedEventType,
)


class ManualOffload:
    """Runs work when the test releases it."""

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


def run(scenario) -> None:
    asyncio.run(scenario())


def test_reads_see_only_committed_writes(clock) -> None:
    async def scenario() -> None:
        offload = ManualOffload()
        async with opened(clock, offload) as ensemble:
            store = ensemble.connect()
            writing = asyncio.create_task(store.create("/a"))
            await asyncio.sleep(0)
            assert await store.exists("/a") is None
            await offload.release()
            assert await writing == "/a"
            assert await store.exists("/a") is not None

    run(scenario)


def test_queued_writes_share_the_next_transaction(clock) -> None:
    async def scenario() -> None:
        offload = ManualOffload()
        async with opened(clock, offload) as ensemble:
            store = ensemble.connect()
            first = asyncio.create_task(store.create("/a"))
            await asyncio.sleep(0)
            queued_writes = [asyncio.create_task(store.set("/a", b"%d" % n, n)) for n in range(10)]
            stale = asyncio.create_task(store.set("/a", b"stale", 3))
            await asyncio.sleep(0)
            await offload.release()
            assert first.done()
            assert not queued_writes[0].done()
            await offload.release()
            assert [(await write).version for write in queued_writes] == list(range(1, 11))
            with pytest.raises(BadVersion):
                await stale
            assert offload.count == 2
            assert (await store.get("/a"))[0] == b"9"

    run(scenario)


def test_watch_set_during_a_commit_fires(clock) -> None:
    async def scenario() -> None:
        offload = ManualOffload()
        async with opened(clock, offload) as ensemble:
            store = ensemble.connect()
            events: list[WatchedEvent] = []
            writing = asyncio.create_task(store.create("/a"))
            await asyncio.sleep(0)
            assert await store.watch_exists("/a", events.append) is None
            await offload.release()
            await writing
            assert events == [WatchedEvent(WatchedEventType.CREATED, "/a")]

    run(scenario)


def test_cancelled_caller_does_not_cancel_its_write(clock) -> None:
    async def scenario() -> None:
        offload = ManualOffload()
        async with opened(clock, offload) as ensemble:
            store = ensemble.connect()
            first, second = asyncio.create_task(store.create("/a")), asyncio.create_task(store.create("/b"))
            await asyncio.sleep(0)
            first.cancel()
            await offload.release()
            assert await second == "/b"
            assert first.cancelled()
            assert await store.exists("/a") is not None

    run(scenario)


def fail_next_write(monkeypatch) -> None:
    real_write = Database.write

    def failing(self, after, zxid) -> None:
        monkeypatch.setattr(Database, "write", real_write)
        raise Unavailable(self.path, "disk full")

    monkeypatch.setattr(Database, "write", failing)


@pytest.mark.parametrize("inline", [True, False])
def test_failed_commit_changes_nothing(clock, monkeypatch, inline) -> None:
    async def scenario() -> None:
        async def run_immediately(work) -> None:
            work()

        async with opened(clock, None if inline else run_immediately) as ensemble:
            store = ensemble.connect()
            events: list[WatchedEvent] = []
            await store.watch_children("/", events.append)
            fail_next_write(monkeypatch)
            with pytest.raises(Unavailable, match="disk full"):
                await store.multi([CreateOp("/a"), CreateOp("/b")])
            assert await store.children("/") == []
            assert events == []
            await store.create("/a")
            await asyncio.sleep(0)
            assert events == [WatchedEvent(WatchedEventType.CHILDREN, "/")]

    run(scenario)


def test_stopped_writer_rejects_queued_and_later_writes(clock) -> None:
    async def scenario() -> None:
        offload = ManualOffload()
        async with opened(clock, offload) as ensemble:
            store = ensemble.connect()
            first = asyncio.create_task(store.create("/a"))
            await asyncio.sleep(0)
            second = asyncio.create_task(store.create("/b"))
            await asyncio.sleep(0)
            _, done = await offload.waiting.get()
            done.cancel()
            for write in (first, second):
                with pytest.raises(Unavailable, match="stopped"):
                    await write
            with pytest.raises(Unavailable):
                await store.create("/c")

    run(scenario)


def test_closed_store_rejects_new_sessions(run_on_store) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await ensemble.close()
        with pytest.raises(Unavailable):
            ensemble.connect()
        with pytest.raises(SessionExpired):
            await store.get("/")

    run_on_store(scenario)


def test_watch_event_of_an_ended_session_is_dropped(clock) -> None:
    async def scenario() -> None:
        async with opened(clock) as ensemble:
            first, second = ensemble.connect(), ensemble.connect()
            events: list[WatchedEvent] = []
            await first.watch_exists("/a", events.append)
            await second.create("/a")
            await first.close()
            await asyncio.sleep(0)
            assert events == []

    run(scenario)


def test_node_times_come_from_the_clock(run_on_store, clock) -> None:
    async def scenario(ensemble: EmbeddedEnsemble) -> None:
        store = ensemble.connect()
        await store.create("/a")
        clock.now_ms += 7
        stat = await store.set("/a", b"")
        assert (stat.ctime_ms, stat.mtime_ms) == (clock.now_ms - 7, clock.now_ms)

    run_on_store(scenario)


@pytest.fixture
def full(monkeypatch) -> list[bool]:
    """Flags of a full disk: the last element counts."""
    is_full = [False]
    write = Database.write

    def failing_if_full(self, after, zxid):
        if is_full[-1]:
            raise DiskFull(self.path, "cannot be written: full")
        write(self, after, zxid)

    monkeypatch.setattr(Database, "write", failing_if_full)
    return is_full


def test_deferred_writes_reach_the_file_once_there_is_space(clock, full, tmp_path) -> None:
    async def scenario() -> None:
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
        reopened = EmbeddedEnsemble(path, clock)
        assert set(reopened.tree.nodes) == {"/", "/before", "/later"}
        assert reopened.tree.nodes["/before"][0] == b"changed"
        await reopened.close()

    run(scenario)


def test_store_closes_on_a_full_disk(clock, full, tmp_path) -> None:
    async def scenario() -> None:
        ensemble = EmbeddedEnsemble(str(tmp_path / "store.sqlite"), clock)
        await ensemble.connect().create("/here", ephemeral=True)
        full.append(True)
        await ensemble.close()
        full.append(False)
        reopened = EmbeddedEnsemble(str(tmp_path / "store.sqlite"), clock)
        assert set(reopened.tree.nodes) == {"/"}
        await reopened.close()

    run(scenario)


def test_opening_a_store_writes_nothing(clock, full, tmp_path) -> None:
    async def scenario() -> None:
        path = str(tmp_path / "store.sqlite")
        ensemble = EmbeddedEnsemble(path, clock)
        await ensemble.connect().create("/kept")
        await ensemble.close()
        full.append(True)
        reopened = EmbeddedEnsemble(path, clock)
        assert set(reopened.tree.nodes) == {"/", "/kept"}
        await reopened.close()

    run(scenario)
