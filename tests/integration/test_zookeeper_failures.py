"""Sessions whose ZooKeeper servers restart, freeze, or die one after the other."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.zookeeper import options_for

from odradek.store.port import SessionExpired, Stat, Store, Unavailable, WatchedEvent, WatchedEventType
from odradek.store.zookeeper.ensemble import ZooKeeperEnsemble
from odradek.system.local_zookeeper import LocalZooKeeper, free_port
from odradek.testing.store_fixture import RecordingWatcher

pytestmark = pytest.mark.timeout(300)

SERVERS = 3


def test_session_survives_a_restart_of_its_server(tmp_path: Path) -> None:
    port = free_port()

    def start() -> LocalZooKeeper:
        return LocalZooKeeper(tmp_path, os.environ, port=port)

    async def main() -> None:
        server = start()
        ensemble = ZooKeeperEnsemble(options_for([port], "/kafka", session_timeout_ms=30_000))
        store, other = await ensemble.connect(), await ensemble.connect()
        try:
            await store.create("/e", b"1", ephemeral=True)
            watch = RecordingWatcher()
            await store.watch_data("/e", watch)
            server.stop()
            waiting = asyncio.create_task(other.set("/e", b"2", 0))
            server = await asyncio.to_thread(start)
            assert (await waiting).ephemeral_owner == store.session_id
            assert await watch.next() == WatchedEvent(WatchedEventType.CHANGED, "/e")
            assert (await store.get("/e"))[0] == b"2"
        finally:
            await ensemble.close()
            server.stop()

    asyncio.run(main())


def test_frozen_server_makes_operations_unavailable(tmp_path: Path) -> None:
    async def main(server: LocalZooKeeper) -> None:
        ensemble = ZooKeeperEnsemble(options_for([server.port], "/kafka", session_timeout_ms=3_000))
        store = await ensemble.connect()
        os.kill(server.process_id, signal.SIGSTOP)
        try:
            with pytest.raises(Unavailable, match="/a"):
                await store.create("/a")
        finally:
            os.kill(server.process_id, signal.SIGCONT)
        # The session may have survived; if not, it says so for good.
        try:
            await store.exists("/")
        except SessionExpired:
            with pytest.raises(SessionExpired):
                await store.exists("/")
        assert await (await ensemble.connect()).exists("/") is not None
        await ensemble.close()

    with LocalZooKeeper(tmp_path, os.environ, tick_ms=500) as server:
        asyncio.run(main(server))


@contextmanager
def quorum(directory: Path) -> Iterator[list[LocalZooKeeper]]:
    """Start an ensemble of several servers."""
    members = {
        f"server.{number}": f"127.0.0.1:{free_port()}:{free_port()}" for number in range(1, SERVERS + 1)
    }
    properties = {"initLimit": "20", "syncLimit": "10", **members}

    def start(number: int) -> LocalZooKeeper:
        data = directory / str(number) / "data"
        data.mkdir(parents=True)
        (data / "myid").write_text(str(number), encoding="utf-8")
        return LocalZooKeeper(
            data.parent, os.environ, tick_ms=500, is_durable=False, heap_mib=64, properties=properties
        )

    with ThreadPoolExecutor(SERVERS) as threads:  # each waits for the others
        servers = list(threads.map(start, range(1, SERVERS + 1)))
    try:
        yield servers
    finally:
        for server in servers:
            server.stop()


def has_session(server: LocalZooKeeper, store: Store) -> bool:
    """Return whether a session is connected to this server."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(b"cons")
        sessions = connection.makefile(encoding="utf-8").read()
    return f"sid={store.session_id & (1 << 64) - 1:#x}," in sessions


def test_session_moves_to_another_server(tmp_path: Path) -> None:
    async def main(servers: list[LocalZooKeeper]) -> None:
        options = options_for([server.port for server in servers], "/kafka", session_timeout_ms=10_000)
        ensemble = ZooKeeperEnsemble(options)
        store, other = await ensemble.connect(), await ensemble.connect()
        await store.create("/e", b"0", ephemeral=True)
        watch = RecordingWatcher()
        await other.watch_data("/e", watch)
        expiries: list[str] = []
        store.on_expired(lambda: expiries.append("expired"))
        (connected,) = [server for server in servers if has_session(server, store)]
        writing = asyncio.create_task(write_until_unavailable(store))
        assert (await watch.next()).path == "/e"
        await other.watch_data("/e", watch)
        os.kill(connected.process_id, signal.SIGKILL)
        written = await writing
        stat = await read_stat(store)
        # The last write may or may not have happened; what was confirmed, has.
        assert stat.version in (written, written + 1)
        assert (stat.ephemeral_owner, expiries) == (store.session_id, [])
        await store.set("/e", b"last")
        assert (await watch.next()).path == "/e"
        assert (await read_stat(other)).version == stat.version + 1
        assert sum(has_session(server, store) for server in servers if server is not connected) == 1
        await ensemble.close()

    with quorum(tmp_path) as servers:
        asyncio.run(main(servers))


async def read_stat(store: Store) -> Stat:
    """Read the node's stat; servers that elect a leader drop connections, too."""
    while True:
        try:
            stat = await store.exists("/e")
        except Unavailable:
            continue
        assert stat is not None
        return stat


async def write_until_unavailable(store: Store) -> int:
    """Return the number of confirmed writes."""
    written = 0
    while True:
        try:
            await store.set("/e", b"x" * 1000)
        except Unavailable:
            return written
        written += 1
