"""A ZooKeeper ensemble, as the provider of store sessions."""

from __future__ import annotations

import asyncio

from odradek.config.definition import Settings
from odradek.store.zookeeper.client import ZooKeeperClient
from odradek.store.zookeeper.options import ZooKeeperOptions, read_options
from odradek.store.zookeeper.session import ZooKeeperStore


def open_zookeeper(settings: Settings) -> ZooKeeperEnsemble:
    """Return the ensemble of ``zookeeper.connect``; raises ``ConfigError``. Connects with ``connect``."""
    return ZooKeeperEnsemble(read_options(settings))


class ZooKeeperEnsemble:
    """``defers_writes`` has no effect: the disk that may be full is not the broker's."""

    def __init__(self, options: ZooKeeperOptions) -> None:
        self._options = options
        self._sessions: list[ZooKeeperStore] = []
        self.defers_writes = False

    async def connect(self) -> ZooKeeperStore:
        """Open a session; raises ``Unavailable`` if there is none within the connection timeout."""
        store = ZooKeeperStore(self._options)
        await store.open()
        self._sessions = [session for session in self._sessions if session.is_alive]
        self._sessions.append(store)
        return store

    async def open_session(self) -> ZooKeeperStore:
        """Open a session, as a broker does."""
        return await self.connect()

    async def expire(self, session: tuple[int, bytes]) -> None:
        """End a session, given by id and password, behind its client's back. For tests.

        Another client takes the session over and closes it. Its own client must be disconnected meanwhile,
        or it takes the session back.
        """
        await _Takeover(self._options, session).close()

    async def close(self) -> None:
        """Close all sessions."""
        await asyncio.gather(*(session.close() for session in self._sessions))
        self._sessions.clear()


class _Takeover:
    """A client that takes a session over in order to close it."""

    def __init__(self, options: ZooKeeperOptions, session: tuple[int, bytes]) -> None:
        self._settled = asyncio.Event()
        self._client = ZooKeeperClient(options, self, session)

    async def close(self) -> None:
        self._client.start()
        await self._settled.wait()
        await self._client.release()

    def on_connected(self) -> None:
        self._settled.set()

    def on_disconnected(self, last_zxid: int) -> None:
        """Wait for the next connection."""

    def on_ended(self) -> None:
        """The session had already expired."""
        self._settled.set()
