"""The port for the cluster's truth: a small tree of nodes with ZooKeeper's semantics.

A ``Store`` is one session. What holds for every implementation:

- Writes of a session take effect in the order they are called; a finished write is durable.
- A ``multi`` is all or nothing; its error says which operation failed (``StoreError.op_index``).
- A watch is a read with a promise: "this is how it is, and I will tell you once when it no longer is". It is
  registered together with the read, so no change can fall between; it fires once; the callback gets an
  ``WatchedEvent`` on the event loop, after the change can be read, never inside a writer's call. Watches of
  one session fire in the order of the changes. Registering the same callback twice for a path counts once.
- Ephemeral nodes vanish with the session that made them, when it is closed or expires.
- A session that has ended does not come back: each call raises ``SessionExpired``; open a new one.

A path is absolute, has no empty, ``.`` or ``..`` part and no slash at the end. Children come in no order.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

MATCH_ANY_VERSION: Final = -1
"""In a conditional write: whatever version the node has."""


class Stat(NamedTuple):
    """What a store knows about a node beside its data. Times are wall milliseconds."""

    czxid: int
    mzxid: int
    pzxid: int
    version: int
    cversion: int
    ephemeral_owner: int
    num_children: int
    ctime_ms: int
    mtime_ms: int


Node = tuple[bytes, Stat]


class StoreError(Exception):
    """What the store refuses or cannot do. ``path`` is the node; ``op_index`` its place in a multi."""

    what: str = "the store failed"

    def __init__(self, path: str = "", detail: str = "", op_index: int | None = None) -> None:
        where = f" {path}" if path else ""
        place = "" if op_index is None else f" (operation {op_index} of a multi)"
        super().__init__(f"{self.what}:{where}{place}{': ' + detail if detail else ''}")
        self.path = path
        self.detail = detail
        self.op_index = op_index


class NoNode(StoreError):
    what = "no such node"


class NodeExists(StoreError):
    what = "node exists already"


class BadVersion(StoreError):
    what = "node has another version"


class NotEmpty(StoreError):
    what = "node has children"


class NoChildrenForEphemerals(StoreError):
    what = "an ephemeral node cannot have children"


class BadPath(StoreError):
    what = "not a path"


class BadPayload(StoreError):
    what = "node holds what it must not"


class SessionExpired(StoreError):
    what = "the session with the store has ended"


class Unavailable(StoreError):
    """The store could not be reached or its disk failed: a write may or may not have happened."""

    what = "the store is not available"


class Create:
    __slots__ = ("data", "ephemeral", "path", "sequence")

    def __init__(self, path: str, data: bytes = b"", ephemeral: bool = False, sequence: bool = False) -> None:
        self.path = path
        self.data = data
        self.ephemeral = ephemeral
        self.sequence = sequence


class SetData:
    __slots__ = ("data", "path", "version")

    def __init__(self, path: str, data: bytes, version: int = MATCH_ANY_VERSION) -> None:
        self.path = path
        self.data = data
        self.version = version


class Delete:
    __slots__ = ("path", "version")

    def __init__(self, path: str, version: int = MATCH_ANY_VERSION) -> None:
        self.path = path
        self.version = version


class Check:
    """Changes nothing; fails unless the node is there with this version."""

    __slots__ = ("path", "version")

    def __init__(self, path: str, version: int = MATCH_ANY_VERSION) -> None:
        self.path = path
        self.version = version


Op = Create | SetData | Delete | Check

OpResult = str | Stat | None
"""Of a Create the path made, of a SetData the new Stat, of a Delete or Check nothing."""


class WatchedEventType(enum.Enum):
    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN = "children"


class WatchedEvent(NamedTuple):
    kind: WatchedEventType
    path: str


Watcher = Callable[[WatchedEvent], None]


class Store(Protocol):
    """One session with the store."""

    @property
    def session_id(self) -> int: ...

    def on_expired(self, callback: Callable[[], None]) -> None:
        """Call this once, on the event loop, if the session ends other than by ``close``."""
        ...

    async def get(self, path: str) -> Node:
        """Data and Stat; ``NoNode``."""
        ...

    async def get_many(self, paths: Iterable[str]) -> list[Node | None]:
        """As ``get`` for each, all under way at once; None where there is no node. Not one snapshot."""
        ...

    async def exists(self, path: str) -> Stat | None: ...

    async def children(self, path: str) -> list[str]:
        """Names (not paths) of the children, in no order; ``NoNode``."""
        ...

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> str:
        """Make a node; give its path, which for a sequence node ends with ten digits that only grow.

        ``NodeExists``; ``NoNode`` if the parent is not there; ``NoChildrenForEphemerals``.
        """
        ...

    async def set(self, path: str, data: bytes, version: int = MATCH_ANY_VERSION) -> Stat:
        """``NoNode``; ``BadVersion``."""
        ...

    async def delete(self, path: str, version: int = MATCH_ANY_VERSION) -> None:
        """``NoNode``; ``BadVersion``; ``NotEmpty``."""
        ...

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        """Do all in order or none; raise the first failing operation's own error, with its ``op_index``."""
        ...

    async def ensure_path(self, path: str) -> None:
        """Make the persistent, empty nodes of this path that are not there yet."""
        ...

    async def watch_data(self, path: str, watcher: Watcher) -> Node:
        """``get``, and one event when the node is changed or deleted. ``NoNode`` leaves no watch."""
        ...

    async def watch_exists(self, path: str, watcher: Watcher) -> Stat | None:
        """``exists``, and one event when the node is created, changed or deleted."""
        ...

    async def watch_children(self, path: str, watcher: Watcher) -> list[str]:
        """``children``, and one event when a child comes or goes, or the node itself is deleted."""
        ...

    async def close(self) -> None:
        """End the session; its ephemeral nodes and watches are gone on return. A second call does nothing."""
        ...
