"""The store on SQLite: a file for one broker, memory for tests and simulation.

``EmbeddedEnsemble`` takes ZooKeeper's place: it owns the tree, the file and the sessions. ``EmbeddedStore``
is one session with it. Invariants: the tree in memory is what has been committed, and reads see nothing else;
writes go through one queue, in order; what waits while a commit is under way shares the next transaction.

While ``defers_writes`` is set, a disk without room refuses nothing: the write counts, and comes to the file
with the next one for which there is room. That is for starts, whose writes say who is there and are made
again by the next start, and for the end of sessions.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final

from odradek.ports.clock import Clock
from odradek.store.embedded.database import Database, DiskFull
from odradek.store.embedded.node_tree import Staged, check_path
from odradek.store.embedded.watches import Watches
from odradek.store.port import (
    MATCH_ANY_VERSION,
    Create,
    Delete,
    Node,
    NodeExists,
    NoNode,
    Op,
    OpResult,
    SessionExpired,
    SetData,
    Stat,
    StoreError,
    Unavailable,
    WatchedEvent,
    Watcher,
)
from odradek.telemetry import events

FILE_NAME: Final = "odradek-store.sqlite"

Offload = Callable[[Callable[[], None]], Awaitable[None]]
"""Runs what may wait for a disk away from the event loop; in a simulation at once."""

CallSoon = Callable[[Callable[[], None]], object]
"""Runs a callback from the event loop, later, in the order given: ``loop.call_soon``."""

_WRITES_PER_TRANSACTION_MAX: Final = 1000
_WRITES_WAITING_MAX: Final = 100_000

log = events.logger("store")


class _Waiting:
    """A write in the queue. No operations at all: the end of its session."""

    __slots__ = ("done", "is_multi", "ops", "session_id")

    def __init__(self, session_id: int, ops: Sequence[Op] | None, is_multi: bool) -> None:
        self.session_id = session_id
        self.ops = ops
        self.is_multi = is_multi
        self.done: asyncio.Future[list[OpResult]] = asyncio.get_running_loop().create_future()


class EmbeddedEnsemble:
    """All of a store but its sessions' view.

    ``path`` is a file, or ``database.MEMORY`` for a store that lives as long as this object. Without
    ``offload``, a write is committed within its call.
    """

    def __init__(
        self, path: str, clock: Clock, call_soon: CallSoon | None = None, offload: Offload | None = None
    ) -> None:
        self._clock = clock
        self._call_soon: CallSoon = call_soon or asyncio.get_running_loop().call_soon
        self._offload = offload
        self._database = Database(path)
        self.defers_writes = False
        # What the tree has before the file: at first the end of sessions that ended with the process before.
        self._unwritten: dict[str, Node | None] = {}
        try:
            self.tree = self._database.load()
            self._bury_the_dead()
        except StoreError:
            self._database.close()
            raise
        self._sessions: dict[int, EmbeddedStore] = {}
        self._next_session_id = (self._database.opened << 32) + 1
        self._queue: deque[_Waiting] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._is_open = True

    def _bury_the_dead(self) -> None:
        """Every session of the process that had the file before is over: forget what they left."""
        staged = Staged(self.tree)
        for session_id in sorted(self.tree.ephemerals):
            staged.end_session(session_id, self._clock.wall_ms())
        self.tree.apply(staged)
        self._unwritten = staged.after

    def connect(self) -> EmbeddedStore:
        """Begin a session."""
        if not self._is_open:
            raise Unavailable(self._database.path, "is closed")
        session = EmbeddedStore(self, self._next_session_id)
        self._sessions[session.session_id] = session
        self._next_session_id += 1
        return session

    async def expire(self, session_id: int) -> None:
        """End a session as ZooKeeper does when it no longer hears from it."""
        session = self._sessions.get(session_id)
        if session is not None:
            expired = session.stop()
            for callback in expired:
                self._call_soon(callback)
            await self.end(session_id)

    async def close(self) -> None:
        """End all sessions, with their ephemeral nodes, then let go of the file. Writes under way finish."""
        sessions = list(self._sessions.values())
        self.defers_writes = True
        if self._is_open:
            for session in sessions:
                await session.close()
        self._is_open = False
        for session in sessions:
            session.stop()
        if self._writer is not None:
            await self._writer
        self._database.close()

    async def write(self, session_id: int, ops: Sequence[Op], *, is_multi: bool) -> list[OpResult]:
        """Commit operations as one write of a session."""
        return await self._enqueue(_Waiting(session_id, ops, is_multi))

    async def end(self, session_id: int) -> None:
        """Delete what a stopped session owned, and forget it."""
        if self._sessions.pop(session_id, None) is not None:
            await self._enqueue(_Waiting(session_id, None, False))

    def _enqueue(self, waiting: _Waiting) -> asyncio.Future[list[OpResult]]:
        if not self._is_open:
            raise Unavailable(self._database.path, "is closed")
        if len(self._queue) >= _WRITES_WAITING_MAX:
            raise Unavailable(self._database.path, f"{_WRITES_WAITING_MAX} writes are waiting already")
        self._queue.append(waiting)
        if self._offload is None:
            self._commit_inline()
        elif self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._commit_all(self._offload))
        return waiting.done

    def _commit_inline(self) -> None:
        staged, answers = self._stage()
        try:
            if staged.after:
                self._database.write(self._unwritten | staged.after, staged.zxid)
        except Unavailable as failed:
            self._refuse_or_defer(staged, answers, failed)
        else:
            self._finish(staged, answers)

    async def _commit_all(self, offload: Offload) -> None:
        """The one writer; ends when the queue is empty. Callers wait for their own part only."""
        answers: list[_Answer] = []
        try:
            while self._queue:
                staged, answers = self._stage()
                try:
                    if staged.after:
                        after = self._unwritten | staged.after
                        await offload(partial(self._database.write, after, staged.zxid))
                except Unavailable as failed:
                    self._refuse_or_defer(staged, answers, failed)
                else:
                    self._finish(staged, answers)
        except BaseException:
            # Cancelled, or broken: whether the transaction happened is not known, so the tree may be behind
            # the file. Nothing more can be promised until the file is opened anew.
            self._is_open = False
            answers.extend((waiting.done, []) for waiting in self._queue)
            self._queue.clear()
            _refuse(answers, Unavailable(self._database.path, "its writer was stopped"))
            raise
        finally:
            self._writer = None

    def _stage(self) -> tuple[Staged, list[_Answer]]:
        """Judge the writes at the head of the queue, each after the one before."""
        staged = Staged(self.tree)
        answers: list[_Answer] = []
        now_ms = self._clock.wall_ms()
        for _ in range(min(len(self._queue), _WRITES_PER_TRANSACTION_MAX)):
            waiting = self._queue.popleft()
            try:
                if waiting.ops is None:
                    staged.end_session(waiting.session_id, now_ms)
                    answers.append((waiting.done, []))
                else:
                    results = staged.write(waiting.ops, waiting.session_id, now_ms, is_multi=waiting.is_multi)
                    answers.append((waiting.done, results))
            except StoreError as refused:
                answers.append((waiting.done, refused))
        return staged, answers

    def _refuse_or_defer(self, staged: Staged, answers: list[_Answer], failed: Unavailable) -> None:
        if not self.defers_writes or not isinstance(failed, DiskFull):
            _refuse(answers, failed)
            return
        log.warning("store_write_deferred", reason=str(failed), nodes=len(staged.after))
        unwritten = self._unwritten | staged.after
        self._finish(staged, answers)
        self._unwritten = unwritten

    def _finish(self, staged: Staged, answers: list[_Answer]) -> None:
        if staged.after:
            self._unwritten = {}
        self.tree.apply(staged)
        for event in staged.events:
            for session in self._sessions.values():
                for watcher, seen in session.watches.take(event):
                    self._call_soon(partial(session.tell, watcher, seen))
        for done, result in answers:
            _answer(done, result)


_Answer = tuple["asyncio.Future[list[OpResult]]", list[OpResult] | StoreError]


def _answer(done: asyncio.Future[list[OpResult]], result: list[OpResult] | StoreError) -> None:
    if done.done():  # its caller was cancelled; the write stands
        return
    if isinstance(result, StoreError):
        done.set_exception(result)
    else:
        done.set_result(result)


def _refuse(answers: list[_Answer], failed: Unavailable) -> None:
    """All of a failed transaction fail alike: a refusal judged on top of it may be wrong too."""
    for done, _ in answers:
        _answer(done, Unavailable(failed.path, failed.detail))


class EmbeddedStore:
    """A session with an ``EmbeddedEnsemble``; a ``Store``."""

    def __init__(self, ensemble: EmbeddedEnsemble, session_id: int) -> None:
        self._ensemble = ensemble
        self._nodes = ensemble.tree.nodes
        self._session_id = session_id
        self._is_alive = True
        self._on_expired: list[Callable[[], None]] = []
        self.watches = Watches()

    @property
    def session_id(self) -> int:
        return self._session_id

    def on_expired(self, callback: Callable[[], None]) -> None:
        self._on_expired.append(callback)

    async def get(self, path: str) -> Node:
        return self._find(path)

    async def get_many(self, paths: Iterable[str]) -> list[Node | None]:
        self._require_alive()
        return [self._nodes.get(path) for path in paths]

    async def exists(self, path: str) -> Stat | None:
        self._require_alive()
        check_path(path)
        node = self._nodes.get(path)
        return None if node is None else node[1]

    async def children(self, path: str) -> list[str]:
        self._find(path)
        return self._ensemble.tree.names_under(path)

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> str:
        result = await self._write(Create(path, data, ephemeral, sequence))
        assert isinstance(result, str)
        return result

    async def set(self, path: str, data: bytes, version: int = MATCH_ANY_VERSION) -> Stat:
        result = await self._write(SetData(path, data, version))
        assert isinstance(result, Stat)
        return result

    async def delete(self, path: str, version: int = MATCH_ANY_VERSION) -> None:
        await self._write(Delete(path, version))

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        self._require_alive()
        return await self._ensemble.write(self._session_id, ops, is_multi=True)

    async def ensure_path(self, path: str) -> None:
        self._require_alive()
        check_path(path)
        parts = path[1:].split("/") if path != "/" else []
        for depth in range(1, len(parts) + 1):
            prefix = "/" + "/".join(parts[:depth])
            if prefix not in self._nodes:
                try:
                    await self.create(prefix)
                except NodeExists:
                    continue  # another session was quicker

    async def watch_data(self, path: str, watcher: Watcher) -> Node:
        node = self._find(path)
        self.watches.watch_data(path, watcher)
        return node

    async def watch_exists(self, path: str, watcher: Watcher) -> Stat | None:
        stat = await self.exists(path)
        self.watches.watch_data(path, watcher)
        return stat

    async def watch_children(self, path: str, watcher: Watcher) -> list[str]:
        names = await self.children(path)
        self.watches.watch_children(path, watcher)
        return names

    async def close(self) -> None:
        if self._is_alive:
            self.stop()
            await self._ensemble.end(self._session_id)

    def stop(self) -> list[Callable[[], None]]:
        """Refuse calls and tell no watcher from now on; give who wants to know of an expiry."""
        self._is_alive = False
        self.watches.clear()
        told, self._on_expired = self._on_expired, []
        return told

    def tell(self, watcher: Watcher, event: WatchedEvent) -> None:
        """Call a watcher, unless the session ended since the change."""
        if self._is_alive:
            watcher(event)

    async def _write(self, op: Op) -> OpResult:
        self._require_alive()
        return (await self._ensemble.write(self._session_id, (op,), is_multi=False))[0]

    def _find(self, path: str) -> Node:
        self._require_alive()
        node = self._nodes.get(path)
        if node is None:
            check_path(path)
            raise NoNode(path)
        return node

    def _require_alive(self) -> None:
        if not self._is_alive:
            raise SessionExpired(detail=f"session {self._session_id:#x}")
