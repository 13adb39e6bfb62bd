"""ZooKeeper's transaction log: every write of every session, in order, and the tree that results.

The log shows what a client cannot: the operations of a multi together, nodes that exist for a moment only,
and which session wrote. The server flushes a transaction before it answers, so a read after an answer has it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

FILE_HEADER = struct.Struct(">4siq")
ENTRY = struct.Struct(">qi")
HEADER = struct.Struct(">qiqqi")
INT = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Write:
    """One operation. ``version`` is that of the node after it; of a check, the expected one."""

    zxid: int
    time_ms: int
    session: int
    operation: str
    path: str
    version: int
    data: bytes | None


@dataclass(frozen=True, slots=True)
class Znode:
    data: bytes | None
    version: int
    czxid: int
    owner: int
    """Session of an ephemeral node, else 0."""


class Tree:
    """The nodes after a number of writes, by path."""

    def __init__(self) -> None:
        self.nodes: dict[str, Znode] = {}

    def apply(self, write: Write) -> None:
        match write.operation:
            case "create" | "create-ephemeral":
                owner = write.session if write.operation == "create-ephemeral" else 0
                self.nodes[write.path] = Znode(write.data, 0, write.zxid, owner)
            case "set":
                before = self.nodes[write.path]
                self.nodes[write.path] = Znode(write.data, write.version, before.czxid, before.owner)
            case "delete":
                del self.nodes[write.path]


def read_writes(directory: Path) -> tuple[list[Write], Tree]:
    """Return all writes so far, with the deletions of a closed session, and the resulting tree."""
    writes: list[Write] = []
    tree = Tree()
    for path in sorted(directory.glob("version-2/log.*"), key=lambda path: int(path.suffix[1:], 16)):
        for write in _read_file(path.read_bytes()):
            for each in _close(write, tree) if write.operation == "close" else [write]:
                tree.apply(each)
                writes.append(each)
    return writes, tree


def _close(write: Write, tree: Tree) -> Iterator[Write]:
    """Yield the deletions of the session's ephemeral nodes."""
    for path, node in sorted(tree.nodes.items()):
        if node.owner == write.session:
            yield Write(write.zxid, write.time_ms, write.session, "delete", path, -1, None)


def _read_file(data: bytes) -> Iterator[Write]:
    position = FILE_HEADER.size
    while position + ENTRY.size <= len(data):
        _, length = ENTRY.unpack_from(data, position)
        position += ENTRY.size
        if length == 0 or position + length >= len(data):  # preallocated, or still being written
            return
        session, _, zxid, time_ms, kind = HEADER.unpack_from(data, position)
        fields = _Fields(data[position + HEADER.size : position + length])
        for operation, path, version, content in _read_operations(kind, fields):
            yield Write(zxid, time_ms, session, operation, path, version, content)
        position += length + 1  # and a byte that ends the entry


def _read_operations(kind: int, fields: _Fields) -> Iterable[tuple[str, str, int, bytes | None]]:
    """Yield operation, path, version and data; the numbers are those of ZooDefs.OpCode."""
    match kind:
        case 1 | 15:
            yield fields.read_create()
        case 2:
            yield "delete", fields.read_text(), -1, None
        case 5:
            path, content, version = fields.read_text(), fields.read_buffer(), fields.read_int()
            yield "set", path, version, content
        case 13:
            # The server logs the version that a write would result in.
            yield "check", fields.read_text(), fields.read_int() - 1, None
        case 14:
            parts = [(fields.read_int(), fields.read_buffer() or b"") for _ in range(fields.read_int())]
            # The log of a failed multi has the operations before the one that failed.
            if not any(part == -1 for part, _ in parts):
                for part, data in parts:
                    yield from _read_operations(part, _Fields(data))
        case -11:
            yield "close", "", -1, None
        case -1 | -10:
            return
        case _:
            raise ValueError(f"transaction type must be one that Kafka causes, got {kind}")


class _Fields:
    """Reader of ZooKeeper's serialization."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def read_int(self) -> int:
        (value,) = INT.unpack_from(self._data, self._position)
        self._position += 4
        return int(value)

    def read_buffer(self) -> bytes | None:
        """Return the bytes; None for null, which Kafka writes to nodes without content."""
        size = self.read_int()
        if size < 0:
            return None
        self._position += size
        return self._data[self._position - size : self._position]

    def read_text(self) -> str:
        return (self.read_buffer() or b"").decode()

    def read_create(self) -> tuple[str, str, int, bytes | None]:
        path, content = self.read_text(), self.read_buffer()
        for _ in range(self.read_int()):  # access control: permissions, scheme, id
            self.read_int(), self.read_text(), self.read_text()
        is_ephemeral = self._data[self._position] != 0
        return "create-ephemeral" if is_ephemeral else "create", path, 0, content
