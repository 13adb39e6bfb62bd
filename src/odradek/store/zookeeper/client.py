"""The kazoo client of one session. Everything that depends on kazoo's internals is in this module.

kazoo runs the connection on a thread of its own. Some of its habits do not fit a session of the store port
and are changed here:

- After an expiry kazoo opens a new session. This client stops instead.
- After a connection loss kazoo forgets all watches. This client keeps them; the session arms them again with
  a ``SetWatches`` request, which kazoo does not have.
- kazoo completes requests on one thread and calls watchers on another, in no order. Here both are callbacks
  on the event loop, in the order in which they came from the server.
- kazoo waits for a server that accepts a connection and says nothing, as one does while it starts, until the
  session has expired. Here an attempt to connect has a share of the session timeout.
"""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from kazoo.client import KazooClient
from kazoo.exceptions import EXCEPTIONS, KazooException
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import (
    GetData,
    int_struct,
    long_struct,
    multiheader_struct,
    read_buffer,
    stat_struct,
    write_string,
)
from kazoo.protocol.states import KazooState, ZnodeStat

from odradek.store.zookeeper.options import ZooKeeperOptions

Deliver = Callable[[Any, Exception | None], None]
"""Called on the event loop with the response to a request, or with the exception."""

Post = Callable[..., None]

IN_FLIGHT_LIMIT: Final = 200
"""kazoo writes a byte to a socket pair for each request; more than some 270 unread ones would block."""

_ATTEMPTS_PER_SESSION: Final = 4
"""Times that each server can be tried before the session expires, even if none responds."""

_ATTEMPT_S_MIN: Final = 1.0

_RETRY: Final = {"max_tries": -1, "delay": 0.1, "backoff": 1.5, "max_delay": 1.0}
_DROPPED: Final = "Connection dropped: "
_SOCKET_ERROR: Final = "socket connection error: "


class SessionListener(Protocol):
    """Receiver of a session's state changes, on the event loop."""

    def on_connected(self) -> None: ...

    def on_disconnected(self, last_zxid: int) -> None:
        """``last_zxid`` is that of the last response."""
        ...

    def on_ended(self) -> None:
        """Called when the session has expired, was rejected, or was closed. Nothing follows."""
        ...


class SetWatches:
    """Request that arms watches on a new connection; those with a change after ``zxid`` fire at once."""

    type = 101

    def __init__(self, zxid: int, data: list[str], missing: list[str], children: list[str]) -> None:
        self.zxid = zxid
        self._paths = (data, missing, children)

    def serialize(self) -> bytes:
        parts: list[bytes] = [long_struct.pack(self.zxid)]
        for paths in self._paths:
            parts.append(int_struct.pack(len(paths)))
            parts.extend(map(write_string, paths))
        return b"".join(parts)

    @staticmethod
    def deserialize(_buffer: bytes, _offset: int) -> None:
        return None


class MultiRead:
    """Request for the data of many nodes (ZooKeeper 3.6): each result is data and Stat, or an exception."""

    type = 22

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def serialize(self) -> bytes:
        get = multiheader_struct.pack(GetData.type, False, -1)
        parts: list[bytes] = []
        for path in self._paths:
            parts += (get, write_string(path), b"\0")
        parts.append(multiheader_struct.pack(-1, True, -1))
        return b"".join(parts)

    @staticmethod
    def deserialize(buffer: bytes, offset: int) -> list[Any]:
        results: list[Any] = []
        while True:
            kind, is_done, _error = multiheader_struct.unpack_from(buffer, offset)
            offset += multiheader_struct.size
            if is_done:
                return results
            if kind == GetData.type:
                data, offset = read_buffer(buffer, offset)
                results.append((data, ZnodeStat._make(stat_struct.unpack_from(buffer, offset))))
                offset += stat_struct.size
            else:
                results.append(EXCEPTIONS[int_struct.unpack_from(buffer, offset)[0]]())
                offset += int_struct.size


class ZooKeeperClient:
    """One session: created on ``start`` or, with ``session``, taken over from another client."""

    def __init__(
        self,
        options: ZooKeeperOptions,
        listener: SessionListener,
        session: tuple[int, bytes] | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._log = _ProblemLog()
        self._timeout_s = options.session_timeout_ms / 1000
        self._released: asyncio.Future[None] | None = None
        self.session = session
        credentials = options.credentials
        attempts = _ATTEMPTS_PER_SESSION * len(options.connect.servers)
        attempt_s = max(self._timeout_s / attempts, _ATTEMPT_S_MIN)
        self._kazoo = _SessionKazoo(
            attempt_s,
            hosts=options.connect.hosts,
            timeout=self._timeout_s,
            client_id=session,
            handler=_LoopHandler(self._post, options.tls, attempt_s),
            auth_data=None if credentials is None else [("digest", credentials.reveal())],
            connection_retry=_RETRY,
            logger=self._log,
        )
        self._kazoo.add_listener(self._change_state)

    @property
    def problem(self) -> str:
        """The reason why the last attempt to connect failed."""
        return self._log.problem

    def start(self) -> None:
        self._kazoo.start_async()

    def send(self, request: Any, deliver: Deliver) -> None:
        """Send a request of ``kazoo.protocol.serialization``. Responses keep the order of the calls."""
        self._kazoo._call(request, _Reply(self._post, deliver))

    def release(self) -> asyncio.Future[None]:
        """Close the session if it is connected, and release threads and sockets; complete when done."""
        if self._released is None:
            self._released = self._loop.create_future()
            threading.Thread(target=self._release, args=(self._released,), daemon=True).start()
        return self._released

    def _release(self, done: asyncio.Future[None]) -> None:
        with suppress(KazooException, OSError):
            self._kazoo.stop()
        if self._kazoo._connection.stop(self._timeout_s):
            self._kazoo.close()
        self._post(_complete, done)

    def _change_state(self, state: str) -> None:
        """Pass a state change to the loop. Runs on kazoo's thread, before it continues."""
        if state == KazooState.CONNECTED:
            self._post(self._connect, self._kazoo.client_id)
        elif state == KazooState.SUSPENDED:
            self._post(self._listener.on_disconnected, self._kazoo.last_zxid)
        else:
            self._kazoo._stopped.set()  # else kazoo would go on with a new session
            self._post(self._listener.on_ended)

    def _connect(self, session: tuple[int, bytes]) -> None:
        self.session = session
        self._listener.on_connected()

    def _post(self, callback: Callable[..., object], *args: object) -> None:
        with suppress(RuntimeError):  # the loop was closed without the session
            self._loop.call_soon_threadsafe(callback, *args)


class _SessionKazoo(KazooClient):  # type: ignore[misc]
    def __init__(self, attempt_s: float, **options: Any) -> None:
        super().__init__(**options)
        exchange = self._connection._invoke  # sends a request of the handshake and waits for its response

        def exchange_in_time(timeout: float, *args: Any, **keywords: Any) -> Any:
            return exchange(min(timeout, attempt_s), *args, **keywords)

        self._connection._invoke = exchange_in_time

    def _reset_watchers(self) -> None:
        """Keep the watches of a lost connection: events after ``SetWatches`` are looked up in them."""


class _Reply:
    """The result of a request, in the form that kazoo's connection expects."""

    __slots__ = ("_deliver", "_post")

    def __init__(self, post: Post, deliver: Deliver) -> None:
        self._post = post
        self._deliver = deliver

    def set(self, value: object = None) -> None:
        self._post(self._deliver, value, None)

    def set_exception(self, exception: Exception) -> None:
        self._post(self._deliver, None, exception)


class _LoopHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """Calls watchers on the event loop instead of a thread; opens connections with our TLS context."""

    def __init__(self, post: Post, tls: ssl.SSLContext | None, attempt_s: float) -> None:
        super().__init__()
        self._post = post
        self._tls = tls
        self._attempt_s = attempt_s

    def start(self) -> None:
        """Start nothing: there is no worker thread."""

    def stop(self) -> None:
        """Stop nothing."""

    def select(
        self,
        readers: list[socket.socket],
        writers: list[socket.socket],
        _: list[socket.socket],
        timeout: float | None = None,
    ) -> tuple[list[socket.socket], list[socket.socket], list[socket.socket]]:
        """Wait for sockets. kazoo's own version makes an epoll object for each call, four times a request."""
        poller = select.poll()
        for reader in readers:
            poller.register(reader, select.POLLIN)
        for writer in writers:
            poller.register(writer, select.POLLOUT)
        ready = {
            descriptor for descriptor, _event in poller.poll(None if timeout is None else timeout * 1000)
        }
        return [s for s in readers if s.fileno() in ready], [s for s in writers if s.fileno() in ready], []

    def dispatch_callback(self, callback: Any) -> None:
        self._post(callback.func, *callback.args)

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_: object
    ) -> socket.socket:
        connection = socket.create_connection(address, min(timeout, self._attempt_s))
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return (
                connection
                if self._tls is None
                else self._tls.wrap_socket(connection, server_hostname=hostname)
            )
        except BaseException:
            connection.close()
            raise


class _ProblemLog:
    """Logger of kazoo that keeps the last problem."""

    def __init__(self) -> None:
        self.problem = ""

    def warning(self, message: str, *args: object) -> None:
        text = message % args if args else message
        if not text.startswith("Transition"):
            self.problem = text.removeprefix(_DROPPED).removeprefix(_SOCKET_ERROR)

    warn = exception = warning

    def info(self, *_: object) -> None:
        """Ignore it: the session logs its own events."""

    log = debug = info


def _complete(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
