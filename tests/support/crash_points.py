"""Crashes between any two writes of a program that uses the ports for stores and files.

A ``CrashPoint`` counts writes, and ends the program before or after the effect of one of them: from then on
every write fails, as nothing is written by a process that is gone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from odradek.store.port import MATCH_ANY_VERSION, Op, OpResult, Stat, Store
from odradek.system.files import RealFileSystem


class Crashed(Exception):
    """Raised in place of a write, and of every write after it."""


class CrashPoint:
    """A crash at write number ``at``, counted from 0; None for never."""

    def __init__(self, at: int | None = None, *, is_after_effect: bool = False) -> None:
        self.writes = 0
        self._at = at
        self._is_after_effect = is_after_effect
        self._is_dead = False

    async def write(self, effect: Callable[[], Awaitable[Any]]) -> Any:
        must_crash = self._count()
        result = await effect()
        self._end(must_crash)
        return result

    def write_now(self, effect: Callable[[], Any]) -> Any:
        must_crash = self._count()
        result = effect()
        self._end(must_crash)
        return result

    def _count(self) -> bool:
        if self._is_dead:
            raise Crashed
        must_crash = self.writes == self._at
        self.writes += 1
        if must_crash and not self._is_after_effect:
            self._end(True)
        return must_crash

    def _end(self, must_crash: bool) -> None:
        if must_crash:
            self._is_dead = True
            raise Crashed


class CrashingStore:
    """A session whose writes may crash."""

    def __init__(self, store: Store, crash: CrashPoint) -> None:
        self._store = store
        self._crash = crash

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def create(self, path: str, data: bytes = b"", **options: bool) -> str:
        result: str = await self._crash.write(lambda: self._store.create(path, data, **options))
        return result

    async def set(self, path: str, data: bytes, version: int = MATCH_ANY_VERSION) -> Stat:
        result: Stat = await self._crash.write(lambda: self._store.set(path, data, version))
        return result

    async def delete(self, path: str, version: int = MATCH_ANY_VERSION) -> None:
        await self._crash.write(lambda: self._store.delete(path, version))

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        result: list[OpResult] = await self._crash.write(lambda: self._store.multi(ops))
        return result

    async def ensure_path(self, path: str) -> None:
        await self._crash.write(lambda: self._store.ensure_path(path))


class CrashingEnsemble:
    """An ensemble whose sessions may crash. It is closed even then: the system closes files."""

    def __init__(self, ensemble: Any, crash: CrashPoint) -> None:
        self._ensemble = ensemble
        self._crash = crash
        self.defers_writes = False

    async def open_session(self) -> Any:
        return CrashingStore(await self._ensemble.open_session(), self._crash)

    async def close(self) -> None:
        await self._ensemble.close()


class CrashingFiles(RealFileSystem):
    """Files whose changes may crash."""

    def __init__(self, crash: CrashPoint) -> None:
        super().__init__()
        self._crash = crash

    def rename(self, old: str, new: str) -> None:
        self._crash.write_now(lambda: super(CrashingFiles, self).rename(old, new))

    def remove(self, path: str) -> None:
        self._crash.write_now(lambda: super(CrashingFiles, self).remove(path))

    def write_whole(self, path: str, data: bytes) -> None:
        self._crash.write_now(lambda: super(CrashingFiles, self).write_whole(path, data))

    def sync_dir(self, path: str) -> None:
        self._crash.write_now(lambda: super(CrashingFiles, self).sync_dir(path))
