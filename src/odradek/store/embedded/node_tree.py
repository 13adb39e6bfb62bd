"""The tree of nodes in memory, and changes to it planned before they are made. Pure.

``Tree`` is what has been committed. ``Staged`` is a tree with writes on top that are not: each write is
judged against what the writes before it will have left, and leaves its effects in ``after`` (the durable form
takes them from there) and ``events``. ``Tree.apply`` makes them so. A write that fails leaves a ``Staged`` as
it was.

Numbers follow ZooKeeper: all operations of a write share a zxid; a sequence number is the count of children
ever created under the parent; ``cversion`` counts children created and deleted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from odradek.store.port import (
    MATCH_ANY_VERSION,
    BadPath,
    BadVersion,
    Check,
    Create,
    Delete,
    NoChildrenForEphemerals,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    OpResult,
    SetData,
    Stat,
    StoreError,
    WatchedEvent,
    WatchedEventType,
)

PATH_CHARS_MAX: Final = 4096
DATA_BYTES_MAX: Final = 1 << 20
"""ZooKeeper's own bound for a request; what is written here must fit there too."""

_BAD_PARTS: Final = frozenset({"", ".", ".."})
_BAD_CHARS: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")


def check_path(path: str) -> None:
    """Refuse what ZooKeeper would refuse."""
    if path == "/":
        return
    if not path.startswith("/"):
        raise BadPath(path[:PATH_CHARS_MAX], "does not begin with a slash")
    if len(path) > PATH_CHARS_MAX:
        raise BadPath(path[:80] + "…", f"longer than {PATH_CHARS_MAX} characters")
    if _BAD_CHARS.search(path):
        raise BadPath(repr(path), "has characters that cannot be printed")
    if not _BAD_PARTS.isdisjoint(path[1:].split("/")):
        raise BadPath(path, "has an empty, '.' or '..' part")


def parent_of(path: str) -> str:
    return path[: path.rindex("/")] or "/"


class Tree:
    """Committed nodes by path, the names under each, and the ephemeral paths of each session."""

    __slots__ = ("_names", "ephemerals", "nodes", "zxid")

    def __init__(self, nodes: Iterable[tuple[str, Node]] = (), zxid: int = 0) -> None:
        self.zxid = zxid
        self.nodes: dict[str, Node] = {"/": (b"", Stat(0, 0, 0, 0, 0, 0, 0, 0, 0))}
        self.ephemerals: dict[int, set[str]] = {}
        self._names: dict[str, set[str]] = {}
        for path, node in nodes:
            self._put(path, node)

    def names_under(self, path: str) -> list[str]:
        return list(self._names.get(path, ()))

    def apply(self, staged: Staged) -> None:
        """Make staged writes the committed state."""
        for path, node in staged.after.items():
            if node is None:
                self._drop(path)
            else:
                self._put(path, node)
        self.zxid = staged.zxid

    def _put(self, path: str, node: Node) -> None:
        before = self.nodes.get(path)
        if before is not None:
            self._forget_owner(path, before)
        else:
            self._names.setdefault(parent_of(path), set()).add(path[path.rindex("/") + 1 :])
        if node[1].ephemeral_owner:
            self.ephemerals.setdefault(node[1].ephemeral_owner, set()).add(path)
        self.nodes[path] = node

    def _drop(self, path: str) -> None:
        node = self.nodes.pop(path, None)
        if node is None:  # made and deleted within the same transaction
            return
        self._forget_owner(path, node)
        self._names.pop(path, None)
        names = self._names.get(parent_of(path))
        if names is not None:  # the parent may have been dropped before its child
            names.discard(path[path.rindex("/") + 1 :])
            if not names:
                del self._names[parent_of(path)]

    def _forget_owner(self, path: str, node: Node) -> None:
        owned = self.ephemerals.get(node[1].ephemeral_owner)
        if owned is not None:
            owned.discard(path)
            if not owned:
                del self.ephemerals[node[1].ephemeral_owner]


class Staged:
    """Writes judged and not yet committed."""

    __slots__ = ("_tree", "after", "events", "zxid")

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.zxid = tree.zxid
        self.after: dict[str, Node | None] = {}
        self.events: list[WatchedEvent] = []

    def write(self, ops: Sequence[Op], session_id: int, now_ms: int, *, is_multi: bool) -> list[OpResult]:
        """Stage all operations as one write, or raise the first one's error and stage none."""
        draft = _Write(self, session_id, self.zxid + 1, now_ms)
        results: list[OpResult] = []
        for index, op in enumerate(ops):
            try:
                results.append(draft.do(op))
            except StoreError as refused:
                if is_multi:
                    raise type(refused)(refused.path, refused.detail, index) from None
                raise
        self._take(draft)
        return results

    def end_session(self, session_id: int, now_ms: int) -> None:
        """Stage the deletion of all ephemeral nodes of a session as one write."""
        paths = set(self._tree.ephemerals.get(session_id, ()))
        paths.update(self.after)
        draft = _Write(self, session_id, self.zxid + 1, now_ms)
        for path in sorted(paths):
            node = self.node(path)
            if node is not None and node[1].ephemeral_owner == session_id:
                draft.do(Delete(path))
        self._take(draft)

    def node(self, path: str) -> Node | None:
        return self.after[path] if path in self.after else self._tree.nodes.get(path)

    def _take(self, draft: _Write) -> None:
        if draft.after:
            self.after.update(draft.after)
            self.events.extend(draft.events)
            self.zxid = draft.zxid


class _Write:
    """One write in the making: its own layer over what is staged."""

    __slots__ = ("_now_ms", "_session_id", "_staged", "after", "events", "zxid")

    def __init__(self, staged: Staged, session_id: int, zxid: int, now_ms: int) -> None:
        self._staged = staged
        self._session_id = session_id
        self._now_ms = now_ms
        self.zxid = zxid
        self.after: dict[str, Node | None] = {}
        self.events: list[WatchedEvent] = []

    def do(self, op: Op) -> OpResult:
        check_path(op.path + "0" if isinstance(op, Create) and op.sequence else op.path)
        if isinstance(op, Create):
            return self._create(op)
        if isinstance(op, SetData):
            return self._set(op)
        if isinstance(op, Delete):
            self._delete(op)
        else:
            self._expect(op)
        return None

    def _node(self, path: str) -> Node | None:
        return self.after[path] if path in self.after else self._staged.node(path)

    def _expect(self, op: SetData | Delete | Check) -> Node:
        node = self._node(op.path)
        if node is None:
            raise NoNode(op.path)
        if op.version not in (MATCH_ANY_VERSION, node[1].version):
            raise BadVersion(op.path, f"expected version {op.version}, it has {node[1].version}")
        return node

    def _create(self, op: Create) -> str:
        _check_size(op.path, op.data)
        if op.path == "/":
            raise NodeExists(op.path)
        parent_path = parent_of(op.path)
        parent = self._node(parent_path)
        if parent is None:
            raise NoNode(op.path, "its parent is not there")
        if parent[1].ephemeral_owner:
            raise NoChildrenForEphemerals(op.path)
        path = op.path
        if op.sequence:
            path = f"{path}{(parent[1].cversion + parent[1].num_children) // 2:010d}"
        if self._node(path) is not None:
            raise NodeExists(path)
        owner = self._session_id if op.ephemeral else 0
        zxid, now_ms = self.zxid, self._now_ms
        self.after[path] = (bytes(op.data), Stat(zxid, zxid, zxid, 0, 0, owner, 0, now_ms, now_ms))
        self._count_child(parent_path, parent, 1)
        self.events.append(WatchedEvent(WatchedEventType.CREATED, path))
        return path

    def _set(self, op: SetData) -> Stat:
        _check_size(op.path, op.data)
        s = self._expect(op)[1]
        stat = Stat(
            s.czxid,
            self.zxid,
            s.pzxid,
            s.version + 1,
            s.cversion,
            s.ephemeral_owner,
            s.num_children,
            s.ctime_ms,
            self._now_ms,
        )
        self.after[op.path] = (bytes(op.data), stat)
        self.events.append(WatchedEvent(WatchedEventType.CHANGED, op.path))
        return stat

    def _delete(self, op: Delete) -> None:
        if op.path == "/":
            raise BadPath(op.path, "the root cannot be deleted")
        if self._expect(op)[1].num_children:
            raise NotEmpty(op.path)
        self.after[op.path] = None
        parent_path = parent_of(op.path)
        parent = self._node(parent_path)
        assert parent is not None, f"{op.path} has no parent"
        self._count_child(parent_path, parent, -1)
        self.events.append(WatchedEvent(WatchedEventType.DELETED, op.path))

    def _count_child(self, path: str, node: Node, change: int) -> None:
        data, s = node
        self.after[path] = (
            data,
            Stat(
                s.czxid,
                s.mzxid,
                self.zxid,
                s.version,
                s.cversion + 1,
                s.ephemeral_owner,
                s.num_children + change,
                s.ctime_ms,
                s.mtime_ms,
            ),
        )


def _check_size(path: str, data: bytes) -> None:
    if len(data) > DATA_BYTES_MAX:
        raise StoreError(path, f"{len(data)} bytes are more than a node may hold ({DATA_BYTES_MAX})")
