"""The tree of nodes in memory, and writes staged on top of it. Pure.

``NodeTree`` holds the committed nodes. ``StagedWrites`` holds writes on top that are not committed: each
write is checked against the result of the writes before it, and adds its effects to ``after`` (to be made
durable) and ``events``. ``NodeTree.apply`` commits them. A write that fails leaves ``StagedWrites``
unchanged.

Numbers follow ZooKeeper: all operations of a write share a zxid; a sequence number is the count of children
ever created under the parent; ``cversion`` counts children created and deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from odradek.store.layout.node_paths import check_path, parent_of
from odradek.store.port import (
    MATCH_ANY_VERSION,
    BadPath,
    BadVersion,
    CheckOp,
    CreateOp,
    DeleteOp,
    NoChildrenForEphemerals,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    OpResult,
    SetDataOp,
    Stat,
    StoreError,
    TooLarge,
    WatchedEvent,
    WatchedEventType,
)

DATA_BYTES_MAX: Final = 1 << 20
"""ZooKeeper's limit of a request."""


class NodeTree:
    """Committed nodes by path, the child names of each, and the ephemeral paths of each session."""

    __slots__ = ("_names", "ephemerals", "nodes", "zxid")

    def __init__(self, nodes: Iterable[tuple[str, Node]] = (), zxid: int = 0) -> None:
        self.zxid = zxid
        self.nodes: dict[str, Node] = {"/": (b"", Stat(0, 0, 0, 0, 0, 0, 0, 0, 0))}
        self.ephemerals: dict[int, set[str]] = {}
        # Dicts as sets that keep their order: a simulation repeats under any hash seed.
        self._names: dict[str, dict[str, None]] = {}
        for path, node in nodes:
            self._put(path, node)

    def names_under(self, path: str) -> list[str]:
        return list(self._names.get(path, ()))

    def apply(self, staged: StagedWrites) -> None:
        """Commit staged writes."""
        for path, node in staged.after.items():
            if node is None:
                self._remove(path)
            else:
                self._put(path, node)
        self.zxid = staged.zxid

    def _put(self, path: str, node: Node) -> None:
        before = self.nodes.get(path)
        if before is not None:
            self._remove_owner(path, before)
        else:
            self._names.setdefault(parent_of(path), {})[path[path.rindex("/") + 1 :]] = None
        if node[1].ephemeral_owner:
            self.ephemerals.setdefault(node[1].ephemeral_owner, set()).add(path)
        self.nodes[path] = node

    def _remove(self, path: str) -> None:
        node = self.nodes.pop(path, None)
        if node is None:  # created and deleted within the same transaction
            return
        self._remove_owner(path, node)
        self._names.pop(path, None)
        names = self._names.get(parent_of(path))
        if names is not None:  # the parent may have been removed before its child
            names.pop(path[path.rindex("/") + 1 :], None)
            if not names:
                del self._names[parent_of(path)]

    def _remove_owner(self, path: str, node: Node) -> None:
        paths = self.ephemerals.get(node[1].ephemeral_owner)
        if paths is not None:
            paths.discard(path)
            if not paths:
                del self.ephemerals[node[1].ephemeral_owner]


class StagedWrites:
    """Checked writes that are not yet committed."""

    __slots__ = ("_tree", "after", "events", "zxid")

    def __init__(self, tree: NodeTree) -> None:
        self._tree = tree
        self.zxid = tree.zxid
        self.after: dict[str, Node | None] = {}
        self.events: list[WatchedEvent] = []

    def write(self, ops: Sequence[Op], session_id: int, now_ms: int, *, is_multi: bool) -> list[OpResult]:
        """Stage all operations as one write, or raise the error of the first that fails and stage none."""
        write = _PendingWrite(self, session_id, self.zxid + 1, now_ms)
        results: list[OpResult] = []
        for index, op in enumerate(ops):
            try:
                results.append(write.apply_op(op))
            except StoreError as error:
                if is_multi:
                    raise type(error)(error.path, error.detail, index) from None
                raise
        self._add(write)
        return results

    def end_session(self, session_id: int, now_ms: int) -> None:
        """Stage the deletion of all ephemeral nodes of a session as one write."""
        paths = set(self._tree.ephemerals.get(session_id, ()))
        paths.update(self.after)
        write = _PendingWrite(self, session_id, self.zxid + 1, now_ms)
        for path in sorted(paths):
            node = self.node(path)
            if node is not None and node[1].ephemeral_owner == session_id:
                write.apply_op(DeleteOp(path))
        self._add(write)

    def node(self, path: str) -> Node | None:
        return self.after[path] if path in self.after else self._tree.nodes.get(path)

    def _add(self, write: _PendingWrite) -> None:
        if write.after:
            self.after.update(write.after)
            self.events.extend(write.events)
            self.zxid = write.zxid


class _PendingWrite:
    """One write being checked: a layer over the staged writes."""

    __slots__ = ("_now_ms", "_session_id", "_staged", "after", "events", "zxid")

    def __init__(self, staged: StagedWrites, session_id: int, zxid: int, now_ms: int) -> None:
        self._staged = staged
        self._session_id = session_id
        self._now_ms = now_ms
        self.zxid = zxid
        self.after: dict[str, Node | None] = {}
        self.events: list[WatchedEvent] = []

    def apply_op(self, op: Op) -> OpResult:
        check_path(op.path + "0" if isinstance(op, CreateOp) and op.sequence else op.path)
        if isinstance(op, CreateOp):
            return self._create(op)
        if isinstance(op, SetDataOp):
            return self._set(op)
        if isinstance(op, DeleteOp):
            self._delete(op)
        else:
            self._require(op)
        return None

    def _node(self, path: str) -> Node | None:
        return self.after[path] if path in self.after else self._staged.node(path)

    def _require(self, op: SetDataOp | DeleteOp | CheckOp) -> Node:
        node = self._node(op.path)
        if node is None:
            raise NoNode(op.path)
        if op.version not in (MATCH_ANY_VERSION, node[1].version):
            raise BadVersion(op.path, f"expected version {op.version}, got {node[1].version}")
        return node

    def _create(self, op: CreateOp) -> str:
        _check_size(op.path, op.data)
        if op.path == "/":
            raise NodeExists(op.path)
        parent_path = parent_of(op.path)
        parent = self._node(parent_path)
        if parent is None:
            raise NoNode(op.path, "its parent does not exist")
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

    def _set(self, op: SetDataOp) -> Stat:
        _check_size(op.path, op.data)
        s = self._require(op)[1]
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

    def _delete(self, op: DeleteOp) -> None:
        if op.path == "/":
            raise BadPath(op.path, "the root cannot be deleted")
        if self._require(op)[1].num_children:
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
        raise TooLarge(path, f"data must be at most {DATA_BYTES_MAX} bytes, got {len(data)}")
