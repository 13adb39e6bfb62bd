"""The links of simulated brokers to the store, which break for some or all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from odradek.store.port import Unavailable
from odradek.testing.broker import STORE_ADDRESS, DelayedEnsemble
from odradek.testing.clock import Process
from odradek.testing.cluster import BrokerSessions
from odradek.testing.linked_store import LinkedStore


class StoreLink:
    """The link of one host. Sessions of a process that was killed stay behind it until they expire."""

    def __init__(self) -> None:
        self.is_up = True
        self.sessions: list[LinkedStore] = []
        self._changed = asyncio.Event()

    def disconnect(self) -> None:
        self.is_up = False
        for session in self.sessions:
            session.disconnect()

    def reconnect(self) -> None:
        self.is_up = True
        for session in self.sessions:
            session.reconnect()
        self._changed.set()
        self._changed = asyncio.Event()

    def lag(self) -> None:
        """Let the events of all sessions be late."""
        for session in self.sessions:
            session.lag()

    def catch_up(self) -> None:
        for session in self.sessions:
            session.catch_up()

    async def wait(self, timeout_s: float) -> None:
        """Wait until the link is up; raises ``Unavailable``."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while not self.is_up:
            left_s = deadline - asyncio.get_running_loop().time()
            try:
                async with asyncio.timeout(max(left_s, 0)):
                    await self._changed.wait()
            except TimeoutError:
                raise Unavailable(STORE_ADDRESS, f"no connection for {timeout_s:g} seconds") from None


class LinkedSessions(BrokerSessions):
    """The store sessions of one broker process, behind the link of its host."""

    def __init__(
        self, ensemble: DelayedEnsemble, process: Process, link: StoreLink, session_timeout_s: float
    ) -> None:
        super().__init__(ensemble, process)
        self._link = link
        self._timeout_s = session_timeout_s
        link.sessions = []

    async def open_session(self) -> LinkedStore:
        await self._link.wait(self._timeout_s)
        session = LinkedStore(self._ensemble, self._timeout_s, self._call_soon_in_process)
        self.sessions.append(session)
        self._link.sessions.append(session)
        return session

    def _call_soon_in_process(self, callback: Callable[[], None]) -> object:
        return self._call_soon(callback)
