"""The port for cluster state: a tree of nodes with ZooKeeper's semantics.

A ``Store`` is one session. Guarantees of every implementation:

- Writes of a session take effect in call order; a completed write is durable.
- A ``multi`` is atomic; its error says which operation failed (``StoreError.op_index``).
- A watch is set together with a read, so no change can fall between. It fires once: the callback gets a
  ``WatchedEvent`` on the event loop, after the change can be read, never inside a writer's call. Watches of
  one session fire in the order of the changes. Setting the same callback twice for a path counts once.
- Ephemeral nodes are deleted when the session that created them is closed or expires.
- An ended session stays ended: each call raises ``SessionExpired``; open a new one.

A path is absolute, and has no empty, ``.`` or ``..`` part and no trailing slash. Children are unordered.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

MATCH_ANY_VERSION: Final = -1
"""Expected version of a conditional write that matches any version."""


class Stat(NamedTuple):
    """Metadata of a node, as in ZooKeeper. Times are wall milliseconds."""

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
    """Base of store errors. ``path`` is the node; ``op_index`` the operation's index in a multi."""

    what: str = "store error"

    def __init__(self, path: str = "", detail: str = "", op_index: int | None = None) -> None:
        node = f" {path}" if path else ""
        operation = "" if op_index is None else f" (operation {op_index} of a multi)"
        super().__init__(f"{self.what}:{node}{operation}{': ' + detail if detail else ''}")
        self.path = path
        self.detail = detail
        self.op_index = op_index


class NoNode(StoreError):
    what = "node does not exist"


class NodeExists(StoreError):
    what = "node exists"


class BadVersion(StoreError):
    what = "version conflict"


class NotEmpty(StoreError):
    what = "node has children"


class NoChildrenForEphemerals(StoreError):
    what = "ephemeral nodes cannot have children"


class BadPath(StoreError):
    what = "invalid path"


class BadPayload(StoreError):
    what = "invalid node data"


class TooLarge(StoreError):
    what = "write is too large"


class SessionExpired(StoreError):
    what = "session has ended"


class Unavailable(StoreError):
    """Raised when the store cannot be reached or its disk failed: a write may or may not have happened."""

    what = "store is unavailable"


class CreateOp:
    __slots__ = ("data", "ephemeral", "path", "sequence")

    def __init__(self, path: str, data: bytes = b"", ephemeral: bool = False, sequence: bool = False) -> None:
        self.path = path
        self.data = data
        self.ephemeral = ephemeral
        self.sequence = sequence


class SetDataOp:
    __slots__ = ("data", "path", "version")

    def __init__(self, path: str, data: bytes, version: int = MATCH_ANY_VERSION) -> None:
        self.path = path
        self.data = data
        self.version = version


class DeleteOp:
    __slots__ = ("path", "version")

    def __init__(self, path: str, version: int = MATCH_ANY_VERSION) -> None:
        self.path = path
        self.version = version


class CheckOp:
    """Fails the multi unless the node exists with this version."""

    __slots__ = ("path", "version")

    def __init__(self, path: str, version: int = MATCH_ANY_VERSION) -> None:
        self.path = path
        self.version = version


Op = CreateOp | SetDataOp | DeleteOp | CheckOp

OpResult = str | Stat | None
"""The path created by a CreateOp, the new Stat of a SetDataOp; None for a DeleteOp or CheckOp."""


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
        """Call back once, on the event loop, if the session ends other than by ``close``."""
        ...

    async def get(self, path: str) -> Node:
        """Return data and Stat; raises ``NoNode``."""
        ...

    async def get_many(self, paths: Iterable[str]) -> list[Node | None]:
        """Get several nodes concurrently; None where there is no node. Not one snapshot."""
        ...

    async def exists(self, path: str) -> Stat | None: ...

    async def children(self, path: str) -> list[str]:
        """Return the names (not paths) of the children, unordered; raises ``NoNode``."""
        ...

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> str:
        """Create a node; return its path, which for a sequence node ends with ten increasing digits.

        Raises ``NodeExists``, ``NoNode`` if the parent does not exist, ``NoChildrenForEphemerals``.
        """
        ...

    async def set(self, path: str, data: bytes, version: int = MATCH_ANY_VERSION) -> Stat:
        """Replace a node's data; raises ``NoNode``, ``BadVersion``."""
        ...

    async def delete(self, path: str, version: int = MATCH_ANY_VERSION) -> None:
        """Delete a node; raises ``NoNode``, ``BadVersion``, ``NotEmpty``."""
        ...

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        """Run all operations or none; raises the error of the first that fails, with ``op_index``."""
        ...

    async def ensure_path(self, path: str) -> None:
        """Create the missing nodes of this path, persistent and empty."""
        ...

    async def watch_data(self, path: str, watcher: Watcher) -> Node:
        """Like ``get``; fires once when the node is changed or deleted. ``NoNode`` leaves no watch."""
        ...

    async def watch_exists(self, path: str, watcher: Watcher) -> Stat | None:
        """Like ``exists``; fires once when the node is created, changed or deleted."""
        ...

    async def watch_children(self, path: str, watcher: Watcher) -> list[str]:
        """Like ``children``; fires once when a child is created or deleted, or the node itself is deleted."""
        ...

    async def close(self) -> None:
        """End the session, with its ephemeral nodes and watches. A second call does nothing."""
        ...


class StoreProvider(Protocol):
    """Owner of the session. After an expiry ``store`` is a new session, so callers must not keep it."""

    @property
    def store(self) -> Store: ...
