"""The embedded store on SQLite: a file for one broker, memory for tests and simulation.

``EmbeddedEnsemble`` replaces a ZooKeeper ensemble: it owns the tree, the file and the sessions.
``EmbeddedStore`` is one session with it. Invariants: the tree in memory holds exactly the committed writes,
and reads see nothing else; writes go through one queue, in order; writes queued during a commit share the
next transaction.

While ``defers_writes`` is set, a full disk fails no write: the write takes effect, and reaches the file
with the next write that fits. This is for broker startup, whose registrations the next startup repeats, and
for the end of sessions.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final

from odradek.ports.clock import Clock
from odradek.store.embedded.database import Database, DiskFull
from odradek.store.embedded.node_tree import StagedWrites
from odradek.store.embedded.watches import Watches
from odradek.store.layout.node_paths import check_path, prefixes_of
from odradek.store.port import (
    MATCH_ANY_VERSION,
    CreateOp,
    DeleteOp,
    Node,
    NodeExists,
    NoNode,
    Op,
    OpResult,
    SessionExpired,
    SetDataOp,
    Stat,
    StoreError,
    Unavailable,
    WatchedEvent,
    Watcher,
)
from odradek.telemetry import events

FILE_NAME: Final = "odradek-store.sqlite"
ADOPTED_SUFFIX: Final = ".adopted"
"""Added to the name of a store whose nodes were carried over to ZooKeeper."""

Offload = Callable[[Callable[[], None]], Awaitable[None]]
"""Runs work that may wait for a disk off the event loop; in a simulation immediately."""

CallSoon = Callable[[Callable[[], None]], object]
"""Schedules a callback on the event loop, in call order: ``loop.call_soon``."""

_WRITES_PER_TRANSACTION_MAX: Final = 1000
_QUEUED_WRITES_MAX: Final = 100_000

log = events.logger("store")


class _QueuedWrite:
    """A queued write; ``ops`` is None for the end of a session."""

    __slots__ = ("done", "is_multi", "ops", "session_id")

    def __init__(self, session_id: int, ops: Sequence[Op] | None, is_multi: bool) -> None:
        self.session_id = session_id
        self.ops = ops
        self.is_multi = is_multi
        self.done: asyncio.Future[list[OpResult]] = asyncio.get_running_loop().create_future()


class EmbeddedEnsemble:
    """The store shared by all sessions.

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
        # Changes in the tree that are not in the file yet: at first the end of the previous process's
        # sessions.
        self._unwritten: dict[str, Node | None] = {}
        try:
            self.tree = self._database.load()
            self._end_previous_sessions()
        except StoreError:
            self._database.close()
            raise
        self._sessions: dict[int, EmbeddedStore] = {}
        self._next_session_id = (self._database.opened << 32) + 1
        self._queue: deque[_QueuedWrite] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._is_open = True

    def _end_previous_sessions(self) -> None:
        """Delete the ephemeral nodes of the previous process's sessions."""
        staged = StagedWrites(self.tree)
        for session_id in sorted(self.tree.ephemerals):
            staged.end_session(session_id, self._clock.wall_ms())
        self.tree.apply(staged)
        self._unwritten = staged.after

    async def open_session(self) -> EmbeddedStore:
        """Open a session, as a broker does."""
        return self.connect()

    def connect(self, call_soon: CallSoon | None = None) -> EmbeddedStore:
        """Open a session. ``call_soon`` schedules its callbacks, by default as those of all sessions."""
        if not self._is_open:
            raise Unavailable(self._database.path, "is closed")
        session = EmbeddedStore(self, self._next_session_id, call_soon or self._call_soon)
        self._sessions[session.session_id] = session
        self._next_session_id += 1
        return session

    async def expire(self, session_id: int) -> None:
        """Expire a session, as ZooKeeper does without heartbeats."""
        session = self._sessions.get(session_id)
        if session is not None:
            expired = session.stop()
            for callback in expired:
                session.call_soon(callback)
            await self.end(session_id)

    async def close(self) -> None:
        """End all sessions with their ephemeral nodes, finish queued writes, close the file."""
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
        return await self._enqueue(_QueuedWrite(session_id, ops, is_multi))

    async def end(self, session_id: int) -> None:
        """Remove a stopped session and its ephemeral nodes."""
        if self._sessions.pop(session_id, None) is not None:
            await self._enqueue(_QueuedWrite(session_id, None, False))

    def _enqueue(self, queued: _QueuedWrite) -> asyncio.Future[list[OpResult]]:
        if not self._is_open:
            raise Unavailable(self._database.path, "is closed")
        if len(self._queue) >= _QUEUED_WRITES_MAX:
            raise Unavailable(self._database.path, f"write queue is full ({_QUEUED_WRITES_MAX} writes)")
        self._queue.append(queued)
        if self._offload is None:
            self._commit_inline()
        elif self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._commit_all(self._offload))
        return queued.done

    def _commit_inline(self) -> None:
        staged, completions = self._stage()
        try:
            if staged.after:
                self._database.write(self._unwritten | staged.after, staged.zxid)
        except Unavailable as error:
            self._fail_or_defer(staged, completions, error)
        else:
            self._finish(staged, completions)

    async def _commit_all(self, offload: Offload) -> None:
        """Commit queued writes until the queue is empty. Callers wait for their own write only."""
        completions: list[_Completion] = []
        try:
            while self._queue:
                staged, completions = self._stage()
                try:
                    if staged.after:
                        after = self._unwritten | staged.after
                        await offload(partial(self._database.write, after, staged.zxid))
                except Unavailable as error:
                    self._fail_or_defer(staged, completions, error)
                else:
                    self._finish(staged, completions)
        except BaseException:
            # Cancelled or crashed: the outcome of the transaction is unknown, so the tree may be behind the
            # file. The store is unusable until the file is opened again.
            self._is_open = False
            completions.extend((queued.done, []) for queued in self._queue)
            self._queue.clear()
            _fail_all(completions, Unavailable(self._database.path, "its writer was stopped"))
            raise
        finally:
            self._writer = None

    def _stage(self) -> tuple[StagedWrites, list[_Completion]]:
        """Stage the writes at the head of the queue, each on top of the one before."""
        staged = StagedWrites(self.tree)
        completions: list[_Completion] = []
        now_ms = self._clock.wall_ms()
        for _ in range(min(len(self._queue), _WRITES_PER_TRANSACTION_MAX)):
            queued = self._queue.popleft()
            try:
                if queued.ops is None:
                    staged.end_session(queued.session_id, now_ms)
                    completions.append((queued.done, []))
                else:
                    results = staged.write(queued.ops, queued.session_id, now_ms, is_multi=queued.is_multi)
                    completions.append((queued.done, results))
            except StoreError as error:
                completions.append((queued.done, error))
        return staged, completions

    def _fail_or_defer(
        self, staged: StagedWrites, completions: list[_Completion], error: Unavailable
    ) -> None:
        if not self.defers_writes or not isinstance(error, DiskFull):
            _fail_all(completions, error)
            return
        log.warning("store_write_deferred", reason=str(error), nodes=len(staged.after))
        unwritten = self._unwritten | staged.after
        self._finish(staged, completions)
        self._unwritten = unwritten

    def _finish(self, staged: StagedWrites, completions: list[_Completion]) -> None:
        if staged.after:
            self._unwritten = {}
        self.tree.apply(staged)
        for event in staged.events:
            for session in self._sessions.values():
                for watcher, fired in session.watches.take(event):
                    session.call_soon(partial(session.notify, watcher, fired))
        for done, result in completions:
            _complete(done, result)


_Completion = tuple["asyncio.Future[list[OpResult]]", list[OpResult] | StoreError]


def _complete(done: asyncio.Future[list[OpResult]], result: list[OpResult] | StoreError) -> None:
    if done.done():  # its caller was cancelled; the write is committed
        return
    if isinstance(result, StoreError):
        done.set_exception(result)
    else:
        done.set_result(result)


def _fail_all(completions: list[_Completion], error: Unavailable) -> None:
    """Fail all writes of a failed transaction: results staged on top of it may be wrong too."""
    for done, _ in completions:
        _complete(done, Unavailable(error.path, error.detail))


class EmbeddedStore:
    """A session with an ``EmbeddedEnsemble``; implements ``Store``."""

    def __init__(self, ensemble: EmbeddedEnsemble, session_id: int, call_soon: CallSoon) -> None:
        self._ensemble = ensemble
        self.call_soon = call_soon
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
        return self._get_node(path)

    async def get_many(self, paths: Iterable[str]) -> list[Node | None]:
        self._require_alive()
        return [self._nodes.get(path) for path in paths]

    async def exists(self, path: str) -> Stat | None:
        self._require_alive()
        check_path(path)
        node = self._nodes.get(path)
        return None if node is None else node[1]

    async def children(self, path: str) -> list[str]:
        self._get_node(path)
        return self._ensemble.tree.names_under(path)

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> str:
        result = await self._write(CreateOp(path, data, ephemeral, sequence))
        assert isinstance(result, str)
        return result

    async def set(self, path: str, data: bytes, version: int = MATCH_ANY_VERSION) -> Stat:
        result = await self._write(SetDataOp(path, data, version))
        assert isinstance(result, Stat)
        return result

    async def delete(self, path: str, version: int = MATCH_ANY_VERSION) -> None:
        await self._write(DeleteOp(path, version))

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        self._require_alive()
        return await self._ensemble.write(self._session_id, ops, is_multi=True)

    async def ensure_path(self, path: str) -> None:
        self._require_alive()
        check_path(path)
        for prefix in prefixes_of(path):
            if prefix not in self._nodes:
                try:
                    await self.create(prefix)
                except NodeExists:
                    continue  # created by another session

    async def watch_data(self, path: str, watcher: Watcher) -> Node:
        node = self._get_node(path)
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
        """Reject calls and drop watches from now on; return the expiry callbacks."""
        self._is_alive = False
        self.watches.clear()
        callbacks, self._on_expired = self._on_expired, []
        return callbacks

    def notify(self, watcher: Watcher, event: WatchedEvent) -> None:
        """Call a watcher, unless the session has ended since the change."""
        if self._is_alive:
            watcher(event)

    async def _write(self, op: Op) -> OpResult:
        self._require_alive()
        return (await self._ensemble.write(self._session_id, (op,), is_multi=False))[0]

    def _get_node(self, path: str) -> Node:
        self._require_alive()
        node = self._nodes.get(path)
        if node is None:
            check_path(path)
            raise NoNode(path)
        return node

    def _require_alive(self) -> None:
        if not self._is_alive:
            raise SessionExpired(detail=f"session {self._session_id:#x}")
