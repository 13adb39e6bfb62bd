"""A real ZooKeeper server for a test session, and a fresh store on it for each test."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from tests.support.zookeeper_link import Link

from odradek.store.port import Store
from odradek.store.zookeeper.connect_string import ConnectString
from odradek.store.zookeeper.ensemble import ZooKeeperEnsemble
from odradek.store.zookeeper.options import ZooKeeperOptions
from odradek.store.zookeeper.session import ZooKeeperStore
from odradek.system.local_zookeeper import LocalZooKeeper

TICK_MS = 500
"""Session timeouts are between 1 and 10 seconds."""

_chroots = itertools.count()


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalZooKeeper]:
    directory = tmp_path_factory.mktemp("zookeeper")
    with LocalZooKeeper(directory, os.environ, tick_ms=TICK_MS, is_durable=False) as server:
        yield server


def new_chroot() -> str:
    """Return a path of two new nodes: the parents of a chroot get the ACL of the store that creates them."""
    return f"/tests-{os.getpid()}-{next(_chroots)}/cluster"


def options_for(
    ports: list[int], chroot: str, session_timeout_ms: int = 10_000, in_flight_max: int = 10
) -> ZooKeeperOptions:
    connect = ConnectString(tuple(f"127.0.0.1:{port}" for port in ports), chroot)
    return ZooKeeperOptions(connect, session_timeout_ms, 30_000, in_flight_max)


class ZooKeeperWorld:
    """Sessions below one chroot, each behind its own link."""

    def __init__(self, server: LocalZooKeeper, session_timeout_ms: int) -> None:
        self._server = server
        self.chroot = new_chroot()
        self._session_timeout_ms = session_timeout_ms
        self._opened_links: list[Link] = []
        self._links: dict[int, Link] = {}
        """Links of sessions, by session id."""
        self._ensembles: list[ZooKeeperEnsemble] = []

    async def connect(self) -> Store:
        link = Link(self._server.port)
        self._opened_links.append(link)
        port = await link.open()
        # Listed twice, an address is tried twice in a row: time for a client to open another session.
        options = options_for([port, port], self.chroot, self._session_timeout_ms)
        ensemble = ZooKeeperEnsemble(options)
        self._ensembles.append(ensemble)
        store = await ensemble.connect()
        self._links[store.session_id] = link
        return store

    async def expire(self, store: Store) -> None:
        assert isinstance(store, ZooKeeperStore)
        await self.disconnect(store)
        direct = options_for([self._server.port], self.chroot, self._session_timeout_ms)
        await ZooKeeperEnsemble(direct).expire(store.id_and_password)
        await self.reconnect(store)

    async def disconnect(self, store: Store) -> None:
        assert isinstance(store, ZooKeeperStore)
        self._links[store.session_id].cut()
        while store.is_connected:
            await asyncio.sleep(0.005)

    async def reconnect(self, store: Store) -> None:
        self._links[store.session_id].restore()

    async def hold_requests(self, store: Store) -> None:
        self._links[store.session_id].hold_requests()

    async def hold_responses(self, store: Store) -> None:
        self._links[store.session_id].hold_responses()

    async def wait_until_held(self, store: Store) -> None:
        await self._links[store.session_id].wait_until_held()

    def count_sessions(self, store: Store) -> int:
        return self._links[store.session_id].session_ids.count(0)

    async def close(self) -> None:
        for link in self._opened_links:
            link.restore()
        await asyncio.gather(*(ensemble.close() for ensemble in self._ensembles))
        for link in self._opened_links:
            await link.close()


@asynccontextmanager
async def zookeeper_world(
    server: LocalZooKeeper, session_timeout_ms: int = 10_000
) -> AsyncIterator[ZooKeeperWorld]:
    world = ZooKeeperWorld(server, session_timeout_ms)
    try:
        yield world
    finally:
        await world.close()
