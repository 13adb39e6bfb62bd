"""The store contract on the embedded store (memory, file, commits on a thread) and on ZooKeeper."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from tests.support.zookeeper import ZooKeeperWorld, new_chroot, options_for, zookeeper_world
from tests.support.zookeeper_link import Link

from odradek.store.embedded.database import MEMORY, Database
from odradek.store.embedded.ensemble import FILE_NAME, EmbeddedEnsemble, Offload
from odradek.store.port import CreateOp, NoNode, Store, StoreError, Unavailable
from odradek.store.zookeeper.client import ZooKeeperClient
from odradek.store.zookeeper.ensemble import ZooKeeperEnsemble
from odradek.system.local_zookeeper import LocalZooKeeper
from odradek.testing.contracts.store_connection_contract import StoreConnectionContract
from odradek.testing.contracts.store_contract import StoreContract
from odradek.testing.contracts.store_fixture import RecordingWatcher, StoreFixture, scenario
from odradek.testing.linked_store import LinkedStore


class StillClock:
    def wall_ms(self) -> int:
        return 1_700_000_000_000

    def monotonic_ms(self) -> int:
        return 0

    def monotonic_ns(self) -> int:
        return 0

    async def sleep_ms(self, duration_ms: int) -> None:
        raise AssertionError("a store does not sleep")


class EmbeddedWorld:
    def __init__(self, ensemble: EmbeddedEnsemble) -> None:
        self._ensemble = ensemble

    async def connect(self) -> Store:
        return self._ensemble.connect()

    async def expire(self, store: Store) -> None:
        await self._ensemble.expire(store.session_id)


@asynccontextmanager
async def embedded(path: str, offload: Offload | None = None) -> AsyncIterator[StoreFixture]:
    ensemble = EmbeddedEnsemble(path, StillClock(), asyncio.get_running_loop().call_soon, offload)
    yield EmbeddedWorld(ensemble)
    await ensemble.close()


async def in_a_thread(work: Callable[[], None]) -> None:
    await asyncio.to_thread(work)


class TestStoreInMemory(StoreContract):
    def open(self) -> AbstractAsyncContextManager[StoreFixture]:
        return embedded(MEMORY)


class TestStoreOnAFile(StoreContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[StoreFixture]:
        with tempfile.TemporaryDirectory() as directory:
            async with embedded(str(Path(directory, FILE_NAME))) as fixture:
                yield fixture


class TestStoreCommittingInAThread(StoreContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[StoreFixture]:
        with tempfile.TemporaryDirectory() as directory:
            async with embedded(str(Path(directory, FILE_NAME)), in_a_thread) as fixture:
                yield fixture


class LinkedWorld:
    """Sessions of one embedded store, each behind a link."""

    def __init__(self, ensemble: EmbeddedEnsemble) -> None:
        self._ensemble = ensemble

    async def connect(self) -> Store:
        return LinkedStore(self._ensemble, session_timeout_s=1.0)

    async def expire(self, store: Store) -> None:
        await self._ensemble.expire(store.session_id)

    async def disconnect(self, store: Store) -> None:
        linked(store).disconnect()

    async def reconnect(self, store: Store) -> None:
        linked(store).reconnect()

    async def hold_requests(self, store: Store) -> None:
        linked(store).hold_requests()

    async def hold_responses(self, store: Store) -> None:
        linked(store).hold_responses()

    async def wait_until_held(self, store: Store) -> None:
        await linked(store).held.wait()

    def count_sessions(self, store: Store) -> int:
        return 1


def linked(store: Store) -> LinkedStore:
    assert isinstance(store, LinkedStore)
    return store


class TestStoreBehindALink(StoreConnectionContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[LinkedWorld]:
        ensemble = EmbeddedEnsemble(MEMORY, StillClock())
        yield LinkedWorld(ensemble)
        await ensemble.close()


class OnZooKeeper:
    """A real server, one per test session, with a fresh chroot per test."""

    server: LocalZooKeeper
    session_timeout_ms: int

    @pytest.fixture(autouse=True)
    def use_server(self, zookeeper: LocalZooKeeper) -> None:
        self.server = zookeeper

    def open(self) -> AbstractAsyncContextManager[ZooKeeperWorld]:
        return zookeeper_world(self.server, self.session_timeout_ms)


class TestStoreOnZooKeeper(OnZooKeeper, StoreContract):
    session_timeout_ms = 10_000

    @scenario
    async def test_event_comes_before_a_read_of_the_change(self, fixture: StoreFixture) -> None:
        writer, reader = await fixture.connect(), await fixture.connect()
        await writer.create("/a", b"0")
        for number in range(1, 21):
            watch = RecordingWatcher()
            await reader.watch_data("/a", watch)
            await writer.set("/a", b"%d" % number)
            while (await reader.get("/a"))[0] != b"%d" % number:
                pass
            assert watch.tasks, "the new data was read before the event"


class TestStoreConnectionsToZooKeeper(OnZooKeeper, StoreConnectionContract):
    session_timeout_ms = 3_000


class RecordingListener:
    """The state changes of a session with ZooKeeper, of which nobody releases the client."""

    def __init__(self) -> None:
        self.changes: list[str] = []

    def on_connected(self) -> None:
        self._record("connected")

    def on_disconnected(self, last_zxid: int) -> None:
        self._record("disconnected")

    def on_ended(self) -> None:
        self._record("ended")

    def _record(self, change: str) -> None:
        self.changes.append(change)

    async def wait_for(self, change: str) -> None:
        async with asyncio.timeout(20):
            while change not in self.changes:
                await asyncio.sleep(0.01)


def test_client_of_an_expired_session_opens_no_other(zookeeper: LocalZooKeeper) -> None:
    async def body() -> None:
        link = Link(zookeeper.port)
        options = options_for([await link.open()], "", session_timeout_ms=3_000)
        listener = RecordingListener()
        client = ZooKeeperClient(options, listener)
        client.start()
        await listener.wait_for("connected")
        link.cut()
        await listener.wait_for("disconnected")
        assert client.session is not None
        await ZooKeeperEnsemble(options_for([zookeeper.port], "")).expire(client.session)
        link.restore()
        await listener.wait_for("ended")
        await asyncio.sleep(1)  # ten times the time after which kazoo connects again
        assert listener.changes == ["connected", "disconnected", "ended"]
        assert link.session_ids.count(0) == 1
        await client.release()
        await link.close()

    asyncio.run(body())


def test_silent_server_does_not_use_up_the_session(zookeeper: LocalZooKeeper) -> None:
    async def body() -> None:
        link = Link(zookeeper.port)
        ensemble = ZooKeeperEnsemble(options_for([await link.open()], new_chroot()))
        store = await ensemble.connect()
        link.cut()
        while store.is_connected:
            await asyncio.sleep(0.005)
        link.silent_connections = 1
        link.restore()
        assert await store.exists("/") is not None
        assert link.silent_connections == 0
        assert set(link.session_ids) == {0, store.session_id}
        await ensemble.close()
        await link.close()

    asyncio.run(body())


# What only a file can show.


def test_reopened_file_has_no_ephemeral_nodes(tmp_path: Path) -> None:
    async def body() -> None:
        path = str(tmp_path / FILE_NAME)
        async with embedded(path) as fixture:
            store = await fixture.connect()
            await store.create("/a", b"1")
            await store.create("/a/b_", b"2", sequence=True)
            await store.create("/a/e", ephemeral=True)
            stat = await store.set("/a", b"3")
            before = await store.get("/a/b_0000000000")
            old_session = store.session_id
        async with embedded(path) as fixture:
            store = await fixture.connect()
            assert store.session_id > old_session
            data, again = await store.get("/a")
            assert (data, again.version, again.czxid, again.num_children) == (b"3", 1, stat.czxid, 1)
            assert await store.get("/a/b_0000000000") == before
            assert await store.exists("/a/e") is None
            assert await store.create("/a/b_", sequence=True) == "/a/b_0000000002"
            assert (await store.get("/a/b_0000000002"))[1].czxid > stat.mzxid

    asyncio.run(body())


def test_file_is_synced_with_each_commit(tmp_path: Path) -> None:
    database = Database(str(tmp_path / FILE_NAME))
    pragmas = [
        database._connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous")
    ]
    database.close()
    assert pragmas == ["wal", 2]


def test_second_process_cannot_open_the_store(tmp_path: Path) -> None:
    async def body() -> None:
        path = str(tmp_path / FILE_NAME)
        async with embedded(path):
            with pytest.raises(Unavailable, match=r"in use by another process.*log\.dirs"):
                EmbeddedEnsemble(path, StillClock())
            code = (
                "import sys, sqlite3\n"
                "from odradek.store.embedded.database import Database\n"
                "from odradek.store.port import Unavailable\n"
                "try:\n    Database(sys.argv[1])\n"
                "except Unavailable as refused:\n    assert 'in use' in str(refused)\n    sys.exit(7)\n"
            )
            assert subprocess.run([sys.executable, "-c", code, path], check=False).returncode == 7
        async with embedded(path) as fixture:
            await fixture.connect()

    asyncio.run(body())


@pytest.mark.parametrize(
    "content", [b"this is not a database, " * 100, b"SQLite format 3\x00" + b"\xff" * 5000]
)
def test_invalid_file_is_rejected_with_path(tmp_path: Path, content: bytes) -> None:
    async def body() -> None:
        path = tmp_path / FILE_NAME
        path.write_bytes(content)
        with pytest.raises(StoreError, match=FILE_NAME):
            EmbeddedEnsemble(str(path), StillClock())
        assert path.read_bytes() == content

    asyncio.run(body())


def test_newer_layout_is_rejected(tmp_path: Path) -> None:
    async def body() -> None:
        path = str(tmp_path / FILE_NAME)
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA user_version=99")
        connection.close()
        with pytest.raises(StoreError, match="newer version"):
            EmbeddedEnsemble(path, StillClock())

    asyncio.run(body())


def test_missing_directory_is_reported(tmp_path: Path) -> None:
    async def body() -> None:
        with pytest.raises(Unavailable, match="nowhere"):
            EmbeddedEnsemble(str(tmp_path / "nowhere" / FILE_NAME), StillClock())

    asyncio.run(body())


# Writes without end; says each number once its write is committed. Each write is three nodes or none.
WRITER = """
import asyncio, sys
from odradek.store.embedded.ensemble import EmbeddedEnsemble
from odradek.store.port import CreateOp, SetDataOp

class Clock:
    def wall_ms(self): return 1
    def monotonic_ms(self): return 1

async def main():
    offload = asyncio.to_thread if sys.argv[2] == "thread" else None
    ensemble = EmbeddedEnsemble(sys.argv[1], Clock(), offload=offload)
    store = ensemble.connect()
    await store.ensure_path("/n")
    await store.create("/last", b"-1")
    await store.create("/alive", ephemeral=True)
    await store.create("/n/alive", ephemeral=True)
    number = 0
    while True:
        await store.multi([
            CreateOp(f"/n/{number}", b"x" * (number % 700)),
            CreateOp(f"/n/{number}/state"),
            SetDataOp("/last", b"%d" % number),
        ])
        print(number, flush=True)
        number += 1

asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["inline", "thread"])
@pytest.mark.parametrize("writes", [1, 40, 300])
def test_committed_writes_survive_a_killed_process(tmp_path: Path, how: str, writes: int) -> None:
    path = str(tmp_path / FILE_NAME)
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, path, how], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        for _ in range(writes):
            last_said = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        said = writer.stdout.read().split()
        # The kill may cut the last line short.
        last_said = max([last_said, *(int(number) for number in said[:-1])])
    assert writer.returncode == -signal.SIGKILL

    async def body() -> None:
        async with embedded(path) as fixture:
            store = await fixture.connect()
            last = int((await store.get("/last"))[0])
            assert last >= last_said
            names = await store.children("/n")
            assert sorted(names, key=int) == [str(number) for number in range(last + 1)]
            for number in range(last + 1):
                data, stat = await store.get(f"/n/{number}")
                assert (len(data), stat.num_children) == (number % 700, 1)
            with pytest.raises(NoNode):
                await store.get("/alive")
            stat = (await store.get("/n"))[1]
            assert (stat.num_children, stat.cversion) == (last + 1, last + 3)
            await store.multi([CreateOp(f"/n/{last + 1}")])

    asyncio.run(body())
