"""ZooKeeper's requests for the operations of the store port, and the values of their responses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from kazoo.protocol.serialization import CheckVersion, Create, Delete, SetData
from kazoo.protocol.states import EventType

from odradek.store.layout.node_paths import check_path
from odradek.store.port import (
    BadPath,
    CreateOp,
    DeleteOp,
    NodeExists,
    Op,
    OpResult,
    SetDataOp,
    Stat,
    TooLarge,
    WatchedEventType,
)
from odradek.store.zookeeper.acls import default_acls
from odradek.store.zookeeper.watches import ArmedPaths

REQUEST_BYTES_MAX: Final = 0xFFFFF
"""ZooKeeper's default ``jute.maxbuffer``. The server closes the connection of a larger request."""

_OP_OVERHEAD_BYTES: Final = 128
"""Upper bound of what an operation needs besides path and data: headers, lengths, two ACLs."""

_WATCH_BYTES_MAX: Final = 128 * 1024
"""Size of a ``SetWatches`` request above which the next is begun, as in ZooKeeper's own client."""

_EPHEMERAL: Final = 1
_SEQUENCE: Final = 2

EVENT_TYPES: Final = {
    EventType.CREATED: WatchedEventType.CREATED,
    EventType.CHANGED: WatchedEventType.CHANGED,
    EventType.DELETED: WatchedEventType.DELETED,
    EventType.CHILD: WatchedEventType.CHILDREN,
}


class Chroot:
    """Converts between the paths of a session and those of the server."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        """``path`` is empty or has no trailing slash."""
        self.path = path

    def add(self, path: str) -> str:
        return self.path if self.path and path == "/" else self.path + path

    def remove(self, server_path: str) -> str:
        return server_path.removeprefix(self.path) or "/"


def encode_op(op: Op, chroot: Chroot, sets_acl: bool) -> Any:
    """Return the request for a write; raises the error of one that the server must not see."""
    check_path(op.path + "0" if isinstance(op, CreateOp) and op.sequence else op.path)
    path = chroot.add(op.path)
    if isinstance(op, CreateOp):
        if op.path == "/":
            raise NodeExists(op.path)
        flags = (_EPHEMERAL if op.ephemeral else 0) | (_SEQUENCE if op.sequence else 0)
        # Kafka parses empty data, but takes a node without data for one that was never written.
        return Create(path, bytes(op.data) or None, default_acls(op.path, sets_acl), flags)
    if isinstance(op, SetDataOp):
        return SetData(path, bytes(op.data), op.version)
    if isinstance(op, DeleteOp):
        if op.path == "/":
            raise BadPath(op.path, "the root cannot be deleted")
        return Delete(path, op.version)
    return CheckVersion(path, op.version)


def check_size(ops: Sequence[Op], chroot: Chroot) -> None:
    """Raise ``TooLarge`` for a write that the server would answer by closing the connection."""
    size = 0
    for op in ops:
        data = op.data if isinstance(op, CreateOp | SetDataOp) else b""
        size += len(data) + len(op.path.encode()) + len(chroot.path.encode()) + _OP_OVERHEAD_BYTES
    if size > REQUEST_BYTES_MAX:
        raise TooLarge(
            ops[0].path, f"a write must be at most {REQUEST_BYTES_MAX} bytes, got {size} (jute.maxbuffer)"
        )


def decode_op_result(op: Op, value: Any, chroot: Chroot) -> OpResult:
    if isinstance(op, CreateOp):
        return chroot.remove(value)
    return decode_stat(value) if isinstance(op, SetDataOp) else None


def decode_stat(stat: Any) -> Stat:
    return Stat(
        czxid=stat.czxid,
        mzxid=stat.mzxid,
        pzxid=stat.pzxid,
        version=stat.version,
        cversion=stat.cversion,
        ephemeral_owner=stat.ephemeralOwner,
        num_children=stat.numChildren,
        ctime_ms=stat.ctime,
        mtime_ms=stat.mtime,
    )


def split_watches(armed: ArmedPaths, chroot: Chroot) -> Iterator[ArmedPaths]:
    """Yield the watches in portions that fit into a request each, with paths of the server."""
    labelled = ((kind, chroot.add(path)) for kind, paths in enumerate(armed) for path in paths)
    while True:
        portion = ArmedPaths([], [], [])
        size = 0
        for kind, path in labelled:
            portion[kind].append(path)
            size += len(path.encode()) + 4
            if size >= _WATCH_BYTES_MAX:
                break
        if not size:
            return
        yield portion
