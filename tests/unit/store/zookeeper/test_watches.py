"""The watches of a session."""

from __future__ import annotations

import pytest

from odradek.store.port import WatchedEvent, WatchedEventType
from odradek.store.zookeeper.watches import ArmedPaths, WatchRegistry

CREATED, CHANGED = WatchedEventType.CREATED, WatchedEventType.CHANGED
DELETED, CHILDREN = WatchedEventType.DELETED, WatchedEventType.CHILDREN


def first(_: WatchedEvent) -> None: ...


def second(_: WatchedEvent) -> None: ...


def third(_: WatchedEvent) -> None: ...


@pytest.fixture
def registry() -> WatchRegistry:
    registry = WatchRegistry()
    registry.add_data("/a", first)
    registry.add_data("/a", first)
    registry.add_missing("/b", second)
    registry.add_children("/a", third)
    registry.add_children("/a", first)
    return registry


@pytest.mark.parametrize(
    ("event", "fired"),
    [
        (WatchedEvent(CHANGED, "/a"), [first]),
        (WatchedEvent(CHILDREN, "/a"), [third, first]),
        (WatchedEvent(DELETED, "/a"), [first, third]),
        (WatchedEvent(CREATED, "/b"), [second]),
        (WatchedEvent(CHANGED, "/c"), []),
    ],
)
def test_event_fires_each_callback_once(registry: WatchRegistry, event: WatchedEvent, fired: list) -> None:
    assert registry.take(event) == fired
    assert registry.take(event) == []


def test_armed_paths_are_those_not_yet_fired(registry: WatchRegistry) -> None:
    assert registry.armed() == ArmedPaths(["/a"], ["/b"], ["/a"])
    registry.take(WatchedEvent(CHANGED, "/a"))
    registry.take(WatchedEvent(CREATED, "/b"))
    assert registry.armed() == ArmedPaths([], [], ["/a"])
    registry.clear()
    assert registry.armed() == ArmedPaths([], [], [])
