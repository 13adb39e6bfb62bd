"""The watches of one session. Pure.

As in ZooKeeper, a node's creation, change and deletion fire its data watches (``watch_exists`` sets one
too); a deletion also fires its child watches; a creation or deletion also fires the parent's child watches,
as ``CHILDREN``.
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek.store.layout.node_paths import parent_of
from odradek.store.port import WatchedEvent, WatchedEventType, Watcher

_ByPath = dict[str, dict[Watcher, None]]


class Watches:
    __slots__ = ("_children", "_data")

    def __init__(self) -> None:
        self._data: _ByPath = {}
        self._children: _ByPath = {}

    def watch_data(self, path: str, watcher: Watcher) -> None:
        self._data.setdefault(path, {})[watcher] = None

    def watch_children(self, path: str, watcher: Watcher) -> None:
        self._children.setdefault(path, {})[watcher] = None

    def clear(self) -> None:
        self._data.clear()
        self._children.clear()

    def take(self, event: WatchedEvent) -> Iterator[tuple[Watcher, WatchedEvent]]:
        """Remove and yield the watchers that a change fires, each with its event."""
        watchers = self._data.pop(event.path, {})
        if event.kind is WatchedEventType.DELETED:
            watchers |= self._children.pop(event.path, {})
        for watcher in watchers:
            yield watcher, event
        if event.kind is not WatchedEventType.CHANGED:
            parent = parent_of(event.path)
            for watcher in self._children.pop(parent, ()):
                yield watcher, WatchedEvent(WatchedEventType.CHILDREN, parent)
