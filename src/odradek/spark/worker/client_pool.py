"""Pool of this process's clients, reused from task to task: a Spark worker outlives many micro-batches.

A client is identified by its class and settings. It is created on first use, in the process that uses it: a
client from before a fork belongs to the parent. The pool is bounded; the least recently used client is closed
first, and idle ones when another is requested. After an error a client is discarded. Tasks of one worker run
one after another, so no client is closed while in use.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from odradek.client.environment import system_environment
from odradek.model.client_errors import ClientError

if TYPE_CHECKING:
    # Imported on use: a process needs one or two of these, and Spark starts a process for every query.
    from odradek.client.blocking.admin import Admin
    from odradek.client.blocking.producer import Producer
    from odradek.client.blocking.range_consumer import RangeConsumer

CLIENTS_MAX: Final = 8
"""Clients in the pool; a pipeline needs one or two of each class."""
IDLE_MAX_MS: Final = 5 * 60 * 1000
"""Idle time after which a client is closed."""
CLOSE_TIMEOUT_S: Final = 5.0
"""Time to close a client: it has nothing left to do, and a task waits."""


class Closable(Protocol):
    def close(self, timeout_s: float | None = None) -> None: ...


T = TypeVar("T", bound=Closable)


@dataclass(slots=True)
class _Entry:
    client: Any
    used_ms: int


@dataclass(slots=True)
class ClientPool:
    """Clients by class and settings, least recently used first."""

    now_ms: Callable[[], int]
    clients_max: int = CLIENTS_MAX
    idle_max_ms: int = IDLE_MAX_MS
    _process_id: int = field(default_factory=os.getpid)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _entries: OrderedDict[tuple[object, ...], _Entry] = field(default_factory=OrderedDict)
    _parent_entries: list[_Entry] = field(default_factory=list)
    """References to the parent's clients, never dropped: their finalizers would act on shared resources."""

    def get(self, create: Callable[[Mapping[str, str]], T], settings: Mapping[str, str]) -> T:
        """Return the client of this class with these settings; create it if there is none."""
        self._reset_after_fork()
        key = (create, frozenset(settings.items()))
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                entry = self._entries[key] = _Entry(create(dict(settings)), 0)
            entry.used_ms = self.now_ms()
            self._entries.move_to_end(key)
            surplus = self._take_surplus()
        _close(surplus)
        client: T = entry.client
        return client

    def discard(self, client: Closable) -> None:
        """Close a client and remove it from the pool."""
        self._reset_after_fork()
        with self._lock:
            keys = [key for key, entry in self._entries.items() if entry.client is client]
            discarded = [self._entries.pop(key).client for key in keys]
        _close(discarded)

    def _take_surplus(self) -> list[Closable]:
        """Remove idle and surplus clients; the most recently used one always stays."""
        oldest_ms = self.now_ms() - self.idle_max_ms
        surplus = []
        while len(self._entries) > 1:
            key, entry = next(iter(self._entries.items()))
            if len(self._entries) <= self.clients_max and entry.used_ms > oldest_ms:
                break
            del self._entries[key]
            surplus.append(entry.client)
        return surplus

    def _reset_after_fork(self) -> None:
        """In a forked child, start with an empty pool and a new lock: the parent may hold the old one."""
        if self._process_id != os.getpid():
            self._parent_entries.extend(self._entries.values())
            self._entries = OrderedDict()
            self._lock = threading.Lock()
            self._process_id = os.getpid()


def _close(clients: Iterable[Closable]) -> None:
    for client in clients:
        try:
            client.close(CLOSE_TIMEOUT_S)
        except ClientError:
            # Expected after an error; the caller needs another client, not the reason.
            continue


_pool: Final = ClientPool(system_environment().clock.monotonic_ms)


def get_consumer(settings: Mapping[str, str]) -> RangeConsumer:
    """Return this process's consumer with these settings."""
    from odradek.client.blocking.range_consumer import RangeConsumer

    return _pool.get(RangeConsumer, settings)


def get_admin(settings: Mapping[str, str]) -> Admin:
    """Return this process's admin client with these settings."""
    from odradek.client.blocking.admin import Admin

    return _pool.get(Admin, settings)


def get_producer(settings: Mapping[str, str]) -> Producer:
    """Return this process's producer with these settings."""
    from odradek.client.blocking.producer import Producer

    return _pool.get(Producer, settings)


def discard(client: Closable) -> None:
    """Close a client after an error and remove it from the pool."""
    _pool.discard(client)
