"""Sessions whose ZooKeeper server restarts or freezes."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from tests.support.zookeeper import options_for

from odradek.store.port import SessionExpired, Unavailable, WatchedEvent, WatchedEventType
from odradek.store.zookeeper.ensemble import ZooKeeperEnsemble
from odradek.system.local_zookeeper import LocalZooKeeper, free_port
from odradek.testing.contracts.store_fixture import RecordingWatcher

pytestmark = pytest.mark.timeout(180)


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
            while "T (stopped)" not in Path(f"/proc/{server.process_id}/status").read_text(encoding="utf-8"):
                await asyncio.sleep(0.01)
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
