"""One session with ZooKeeper; implements ``Store``.

A lost connection does not end the session: kazoo connects again, watches are armed again with the last zxid
before the loss, so that none misses a change, and waiting requests go on. A ``sync`` goes ahead of them,
because a write whose result is unknown may not have reached the new server yet.

The session ends when the server says that it expired, or with ``close``, and stays ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from kazoo.protocol.serialization import Exists, GetChildren, GetData, Sync, Transaction

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
from odradek.store.zookeeper.client import IN_FLIGHT_LIMIT, MultiRead, SetWatches, ZooKeeperClient
from odradek.store.zookeeper.errors import Unsupported, find_failed_op, store_error
from odradek.store.zookeeper.options import ZooKeeperOptions
from odradek.store.zookeeper.request_queue import RequestQueue
from odradek.store.zookeeper.requests import (
    EVENT_TYPES,
    Chroot,
    check_size,
    decode_op_result,
    decode_stat,
    encode_op,
    split_watches,
)
from odradek.store.zookeeper.watches import WatchRegistry
from odradek.telemetry import events

_CLOSE_TIMEOUT_S: Final = 30.0
"""Bound of the wait for kazoo's thread, which may be connecting or resolving a name."""

PATHS_PER_READ: Final = 50
"""Nodes that one request reads. Partition states are small, but a node may have a megabyte."""

log = events.logger("store")


class ZooKeeperStore:
    """A session. ``open`` must have returned before any other call."""

    def __init__(self, options: ZooKeeperOptions) -> None:
        self._loop = asyncio.get_running_loop()
        self._options = options
        self._chroot = Chroot(options.connect.chroot)
        self._client = ZooKeeperClient(options, self)
        self._requests = RequestQueue(
            self._client.send,
            min(options.in_flight_max, IN_FLIGHT_LIMIT),
            options.session_timeout_ms / 1000,
        )
        self._watches = WatchRegistry()
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._is_alive = True
        self._knows_multi_read = True
        self._on_expired: list[Callable[[], None]] = []
        self._session_id = 0
        # Changes after this zxid fire the watches that are armed on the next connection.
        self._watched_zxid = 0
        self._are_watches_armed = True

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def is_alive(self) -> bool:
        return self._is_alive

    @property
    def is_connected(self) -> bool:
        return self._requests.is_connected

    @property
    def id_and_password(self) -> tuple[int, bytes]:
        """The key with which another client can take the session over."""
        assert self._client.session is not None, "open has not returned"
        return self._client.session

    async def open(self) -> None:
        """Connect, and create the chroot if it is missing; raises ``Unavailable`` without a connection."""
        self._client.start()
        timeout_ms = self._options.connection_timeout_ms
        try:
            await asyncio.wait_for(self._opened, timeout_ms / 1000)
            await self._create_missing(prefixes_of(self._chroot.path or "/"), Chroot(""))
        except BaseException as error:
            self._stop()
            self._client.release()
            if isinstance(error, TimeoutError):
                problem = self._client.problem or "no response"
                raise Unavailable(
                    self._options.connect.hosts,
                    f"no session with ZooKeeper within zookeeper.connection.timeout.ms={timeout_ms}: "
                    f"{problem}. Start ZooKeeper there, or correct zookeeper.connect",
                ) from None
            raise

    def on_expired(self, callback: Callable[[], None]) -> None:
        self._on_expired.append(callback)

    async def get(self, path: str) -> Node:
        return _node(await self._read(GetData, path))

    async def get_many(self, paths: Iterable[str]) -> list[Node | None]:
        self._require_alive()
        requested = list(paths)
        for path in requested:
            check_path(path)
        if len(requested) > PATHS_PER_READ and self._knows_multi_read:
            try:
                return await self._get_portions(requested)
            except Unsupported:  # before 3.6; such a server also closes the connection
                self._knows_multi_read = False
                with suppress(Unavailable):
                    return await self._get_each(requested)
        return await self._get_each(requested)

    async def _get_each(self, paths: Sequence[str]) -> list[Node | None]:
        futures = [self._read(GetData, path) for path in paths]
        return [None if value is None else _node(value) for value in await _gather(futures, NoNode)]

    async def _get_portions(self, paths: Sequence[str]) -> list[Node | None]:
        portions = [paths[first : first + PATHS_PER_READ] for first in range(0, len(paths), PATHS_PER_READ)]
        # The first one alone: it shows whether the server knows the request.
        results = [await self._read_portion(portions[0])]
        results += await asyncio.gather(*map(self._read_portion, portions[1:]))
        return [node for portion in results for node in portion]

    async def _read_portion(self, paths: Sequence[str]) -> list[Node | None]:
        request = MultiRead([self._chroot.add(path) for path in paths])
        nodes: list[Node | None] = []
        for path, value in zip(paths, await self._requests.submit(request, paths[0]), strict=True):
            error = store_error(value, path) if isinstance(value, Exception) else None
            if error is not None and not isinstance(error, NoNode):
                raise error
            nodes.append(None if error is not None else _node(value))
        return nodes

    async def exists(self, path: str) -> Stat | None:
        stat = await self._read(Exists, path)
        return None if stat is None else decode_stat(stat)

    async def children(self, path: str) -> list[str]:
        names: list[str] = await self._read(GetChildren, path)
        return names

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
        if not ops:
            return []
        bodies = []
        for index, op in enumerate(ops):
            try:
                bodies.append(encode_op(op, self._chroot, self._options.sets_acl))
            except StoreError as error:
                raise type(error)(error.path, error.detail, index) from None
        check_size(ops, self._chroot)
        results = await self._requests.submit(Transaction(bodies), ops[0].path)
        failed = find_failed_op(results)
        if failed is not None:
            raise store_error(results[failed], ops[failed].path, failed)
        return [decode_op_result(op, value, self._chroot) for op, value in zip(ops, results, strict=True)]

    async def ensure_path(self, path: str) -> None:
        self._require_alive()
        check_path(path)
        await self._create_missing(prefixes_of(path), self._chroot)

    async def watch_data(self, path: str, watcher: Watcher) -> Node:
        def register(_: object) -> None:
            self._watches.add_data(path, watcher)

        return _node(await self._read(GetData, path, register))

    async def watch_exists(self, path: str, watcher: Watcher) -> Stat | None:
        def register(stat: object) -> None:
            add = self._watches.add_missing if stat is None else self._watches.add_data
            add(path, watcher)

        stat = await self._read(Exists, path, register)
        return None if stat is None else decode_stat(stat)

    async def watch_children(self, path: str, watcher: Watcher) -> list[str]:
        def register(_: object) -> None:
            self._watches.add_children(path, watcher)

        names: list[str] = await self._read(GetChildren, path, register)
        return names

    async def close(self) -> None:
        if self._is_alive:
            self._stop()
            await self._requests.drain()
            await asyncio.wait([self._client.release()], timeout=_CLOSE_TIMEOUT_S)
            self._requests.end(self._ended_error())

    # SessionListener

    def on_connected(self) -> None:
        self._session_id = self.id_and_password[0]
        if self._opened.done():
            log.info("zookeeper_reconnected", session=f"{self._session_id:#x}")
            self._arm_watches()
            self._client.send(Sync(self._chroot.add("/")), _ignore)
        else:
            self._opened.set_result(None)
        self._requests.connect()

    def on_disconnected(self, last_zxid: int) -> None:
        if self._are_watches_armed:
            self._watched_zxid = last_zxid
        if self._is_alive:
            log.warning(
                "zookeeper_connection_lost", session=f"{self._session_id:#x}", reason=self._client.problem
            )
        self._requests.disconnect()

    def on_ended(self) -> None:
        if not self._is_alive:  # closed by us
            return
        log.warning("zookeeper_session_expired", session=f"{self._session_id:#x}")
        callbacks = self._stop()
        self._requests.end(self._ended_error())
        for callback in callbacks:
            self._loop.call_soon(callback)
        self._client.release()

    def _stop(self) -> list[Callable[[], None]]:
        """Reject calls and drop watches from now on; return the expiry callbacks."""
        self._is_alive = False
        self._watches.clear()
        callbacks, self._on_expired = self._on_expired, []
        return callbacks

    def _arm_watches(self) -> None:
        """Set all watches on a new connection, ahead of any other request."""
        portions = list(split_watches(self._watches.armed(), self._chroot))
        self._are_watches_armed = not portions
        for portion in portions:
            # Responses are in order: the last one confirms all.
            self._client.send(SetWatches(self._watched_zxid, *portion), self._confirm_watches)

    def _confirm_watches(self, _: object, exception: Exception | None) -> None:
        if exception is None:
            self._are_watches_armed = True

    def _fire(self, kazoo_event: Any) -> None:
        """Call the watchers of a server's event. kazoo calls this on the loop."""
        kind = EVENT_TYPES.get(kazoo_event.type)
        if kind is None:
            return
        event = WatchedEvent(kind, self._chroot.remove(kazoo_event.path))
        for watcher in self._watches.take(event):
            self._loop.call_soon(self._notify, watcher, event)

    def _notify(self, watcher: Watcher, event: WatchedEvent) -> None:
        if self._is_alive:
            watcher(event)

    def _read(
        self, request_type: Any, path: str, register: Callable[[object], None] | None = None
    ) -> asyncio.Future[Any]:
        """Send a read; ``register`` makes it set a watch, and adds the callback when the response arrives."""
        self._require_alive()
        check_path(path)
        watcher = None if register is None else self._fire
        return self._requests.submit(request_type(self._chroot.add(path), watcher), path, register)

    async def _write(self, op: Op) -> OpResult:
        self._require_alive()
        body = encode_op(op, self._chroot, self._options.sets_acl)
        check_size((op,), self._chroot)
        return decode_op_result(op, await self._requests.submit(body, op.path), self._chroot)

    async def _create_missing(self, paths: Sequence[str], chroot: Chroot) -> None:
        """Create the nodes of a path that are missing, top down and without waiting for each.

        An existing one is not created: its parent may belong to somebody else.
        """
        server_paths = [chroot.add(path) for path in paths]
        reads = [self._requests.submit(Exists(path, None), path) for path in server_paths]
        stats = await _gather(reads, NoNode)
        missing = [path for path, stat in zip(paths, stats, strict=True) if stat is None]
        writes = [encode_op(CreateOp(path), chroot, self._options.sets_acl) for path in missing]
        await _gather(
            [self._requests.submit(write, path) for write, path in zip(writes, missing, strict=True)],
            NodeExists,  # created by another session meanwhile
        )

    def _require_alive(self) -> None:
        if not self._is_alive:
            raise self._ended_error()

    def _ended_error(self) -> SessionExpired:
        return SessionExpired(detail=f"session {self._session_id:#x}")


async def _gather(futures: Sequence[asyncio.Future[Any]], expected: type[StoreError]) -> list[Any]:
    """Wait for all responses; raise the first error that is not expected. An expected one becomes None."""
    results = await asyncio.gather(*futures, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, expected):
            raise result
    return [None if isinstance(result, BaseException) else result for result in results]


def _node(value: Any) -> Node:
    data, stat = value
    return data or b"", decode_stat(stat)  # other clients may create nodes without data


def _ignore(_value: object, _exception: Exception | None) -> None:
    """Take no notice of a response."""
