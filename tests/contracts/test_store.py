"""The embedded store keeps the store contract: in memory, on a file, and with commits run in a thread."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from odradek.store.database import MEMORY
from odradek.store.embedded import FILE_NAME, EmbeddedEnsemble, Offload
from odradek.store.port import Store
from odradek.testing.store_contract import StoreContract, World


class StillClock:
    def wall_ms(self) -> int:
        return 1_700_000_000_000

    def monotonic_ms(self) -> int:
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
async def embedded(path: str, offload: Offload | None = None) -> AsyncIterator[World]:
    ensemble = EmbeddedEnsemble(path, StillClock(), asyncio.get_running_loop().call_soon, offload)
    yield EmbeddedWorld(ensemble)
    await ensemble.close()


async def in_a_thread(work: Callable[[], None]) -> None:
    await asyncio.to_thread(work)


class TestStoreInMemory(StoreContract):
    def open(self) -> AbstractAsyncContextManager[World]:
        return embedded(MEMORY)


class TestStoreOnAFile(StoreContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[World]:
        with tempfile.TemporaryDirectory() as directory:
            async with embedded(str(Path(directory, FILE_NAME))) as world:
                yield world


class TestStoreCommittingInAThread(StoreContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[World]:
        with tempfile.TemporaryDirectory() as directory:
            async with embedded(str(Path(directory, FILE_NAME)), in_a_thread) as world:
                yield world
