"""The watches of one session with ZooKeeper. Pure.

The server keeps a data watch and a child watch per node and connection; this registry maps them to the
callbacks. After a reconnect the server has none of them: ``armed`` lists what to set again, by the state of
the node that each watch was set on.
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.store.port import WatchedEvent, WatchedEventType, Watcher

_ByPath = dict[str, dict[Watcher, None]]


class ArmedPaths(NamedTuple):
    """Paths with watches: of nodes that existed, of nodes that did not, and on children."""

    data: list[str]
    missing: list[str]
    children: list[str]


class WatchRegistry:
    __slots__ = ("_children", "_data", "_missing")

    def __init__(self) -> None:
        self._data: _ByPath = {}
        self._missing: _ByPath = {}
        self._children: _ByPath = {}

    def add_data(self, path: str, watcher: Watcher) -> None:
        self._data.setdefault(path, {})[watcher] = None

    def add_missing(self, path: str, watcher: Watcher) -> None:
        """Add a watch on a node that does not exist."""
        self._missing.setdefault(path, {})[watcher] = None

    def add_children(self, path: str, watcher: Watcher) -> None:
        self._children.setdefault(path, {})[watcher] = None

    def take(self, event: WatchedEvent) -> list[Watcher]:
        """Remove and return the callbacks that an event of the server fires, each once."""
        if event.kind is WatchedEventType.CHILDREN:
            return list(self._children.pop(event.path, {}))
        watchers = self._data.pop(event.path, {}) | self._missing.pop(event.path, {})
        if event.kind is WatchedEventType.DELETED:
            watchers |= self._children.pop(event.path, {})
        return list(watchers)

    def armed(self) -> ArmedPaths:
        return ArmedPaths(list(self._data), list(self._missing), list(self._children))

    def clear(self) -> None:
        self._data.clear()
        self._missing.clear()
        self._children.clear()
