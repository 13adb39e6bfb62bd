"""Clients of this process, kept from task to task: a worker of Spark lives through many micro-batches.

A client is known by its kind and its settings. It is made when it is first asked for, in the process that
asks: one that was made before a fork belongs to the parent and is left to it. A process keeps a few; the one
that was not used for longest gives way, and those that were not used for long are closed when another is
asked for. After an error a client is thrown away with ``forget``. Tasks of one worker run one after another,
so nobody has a client taken away while it is used.
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
    # Each process needs one kind or two, and Spark starts a process for every query.
    from odradek.client.blocking.admin import Admin
    from odradek.client.blocking.producer import Producer
    from odradek.client.blocking.range_consumer import RangeConsumer

CLIENTS_MAX: Final = 8
"""Clients that a process keeps: a pipeline needs one or two of each kind."""
IDLE_MAX_MS: Final = 5 * 60 * 1000
"""A client that was not used for so long is closed."""
CLOSE_TIMEOUT_S: Final = 5.0
"""How long a client may take to close: it has nothing left to do, and a task waits."""


class Closable(Protocol):
    def close(self, timeout_s: float | None = None) -> None: ...


T = TypeVar("T", bound=Closable)


@dataclass(slots=True)
class _Kept:
    client: Any
    used_ms: int


@dataclass(slots=True)
class ClientPool:
    """Clients by kind and settings, the one that was not used for longest first."""

    now_ms: Callable[[], int]
    clients_max: int = CLIENTS_MAX
    idle_max_ms: int = IDLE_MAX_MS
    _process_id: int = field(default_factory=os.getpid)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _kept: OrderedDict[tuple[Any, ...], _Kept] = field(default_factory=OrderedDict)
    _left_to_parent: list[_Kept] = field(default_factory=list)
    """Referred to for ever: what ends with the last reference to a client is the parent's, too."""

    def get(self, make: Callable[[Mapping[str, str]], T], settings: Mapping[str, str]) -> T:
        """The client of this kind with these settings, made if there is none."""
        self._leave_behind()
        key = (make, frozenset(settings.items()))
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                kept = self._kept[key] = _Kept(make(dict(settings)), 0)
            kept.used_ms = self.now_ms()
            self._kept.move_to_end(key)
            surplus = self._take_surplus()
        _close(surplus)
        client: T = kept.client
        return client

    def forget(self, client: Closable) -> None:
        """Close a client, and make another when one like it is asked for."""
        self._leave_behind()
        with self._lock:
            found = [key for key, kept in self._kept.items() if kept.client is client]
            forgotten = [self._kept.pop(key).client for key in found]
        _close(forgotten)

    def clear(self) -> None:
        """Close all clients."""
        self._leave_behind()
        with self._lock:
            forgotten = [kept.client for kept in self._kept.values()]
            self._kept.clear()
        _close(forgotten)

    def _take_surplus(self) -> list[Any]:
        """Take out what is too old or too much; the newest stays in any case."""
        old_ms = self.now_ms() - self.idle_max_ms
        surplus = []
        while len(self._kept) > 1:
            key, kept = next(iter(self._kept.items()))
            if len(self._kept) <= self.clients_max and kept.used_ms > old_ms:
                break
            del self._kept[key]
            surplus.append(kept.client)
        return surplus

    def _leave_behind(self) -> None:
        """In a forked child, begin anew. Its lock may have been held by a thread that is not there."""
        if self._process_id != os.getpid():
            self._left_to_parent.extend(self._kept.values())
            self._kept = OrderedDict()
            self._lock = threading.Lock()
            self._process_id = os.getpid()


def _close(clients: Iterable[Closable]) -> None:
    for client in clients:
        try:
            client.close(CLOSE_TIMEOUT_S)
        except ClientError:
            # What made it unfit may hinder its end; who asked for another client has no use for why.
            continue


_pool: Final = ClientPool(system_environment().clock.monotonic_ms)


def consumer_of(settings: Mapping[str, str]) -> RangeConsumer:
    """This process's consumer with these settings."""
    from odradek.client.blocking.range_consumer import RangeConsumer

    return _pool.get(RangeConsumer, settings)


def admin_of(settings: Mapping[str, str]) -> Admin:
    """This process's admin client with these settings."""
    from odradek.client.blocking.admin import Admin

    return _pool.get(Admin, settings)


def producer_of(settings: Mapping[str, str]) -> Producer:
    """This process's producer with these settings."""
    from odradek.client.blocking.producer import Producer

    return _pool.get(Producer, settings)


def forget(client: Closable) -> None:
    """Close a client that met an error; the next who asks gets a new one."""
    _pool.forget(client)


def close_all() -> None:
    """Close all clients of this process."""
    _pool.clear()
