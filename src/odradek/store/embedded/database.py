"""The database of the embedded store: one SQLite file, or memory.

Layout. ``PRAGMA user_version`` is the layout version (1). Table ``node`` has one row per node: path, data
and the fields of its Stat. Table ``counter`` holds ``zxid`` (of the last write) and ``opened`` (how often
the file was opened and written; session ids derive from it, so that no id with persistent effects is
reused).

Opening an existing file writes nothing; its first write increments ``opened``.

Each call of ``write`` is one transaction, synced once (write-ahead log, ``synchronous=FULL``). The file is
locked while it is open; a second process fails to open it. Calls may come from any thread, one at a time.

Only the owner can read the file (mode 0600), because SCRAM credentials are in it. SQLite gives its log the
same mode.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from odradek.store.embedded.node_tree import NodeTree
from odradek.store.port import Node, Stat, StoreError, Unavailable

MEMORY: Final = ":memory:"
LAYOUT_VERSION: Final = 1
PRIVATE: Final = 0o600
OTHERS: Final = 0o077

_TABLES: Final = """
CREATE TABLE node (
    path TEXT PRIMARY KEY, data BLOB NOT NULL,
    czxid INTEGER NOT NULL, mzxid INTEGER NOT NULL, pzxid INTEGER NOT NULL,
    version INTEGER NOT NULL, cversion INTEGER NOT NULL, ephemeral_owner INTEGER NOT NULL,
    num_children INTEGER NOT NULL, ctime_ms INTEGER NOT NULL, mtime_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO counter VALUES ('zxid', 0), ('opened', 0);
"""


class DiskFull(Unavailable):
    """Raised when the disk is full; earlier writes are kept."""


class Database:
    """An open database. ``opened`` includes this opening."""

    __slots__ = ("_connection", "_is_opening_counted", "opened", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._is_opening_counted = False
        try:
            if path != MEMORY:
                _make_private(path)
            self._connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        except (sqlite3.Error, OSError) as error:
            raise Unavailable(path, f"cannot be opened: {error}") from error
        try:
            self.opened = self._prepare()
        except sqlite3.Error as error:
            self._connection.close()
            raise _open_error(path, error) from error
        except StoreError:
            self._connection.close()
            raise

    def _prepare(self) -> int:
        run = self._connection.execute
        # With a write-ahead log the first read takes the lock, which is held until the file is closed.
        run("PRAGMA locking_mode=EXCLUSIVE")
        run("PRAGMA synchronous=FULL")
        layout = run("PRAGMA user_version").fetchone()[0]
        if layout > LAYOUT_VERSION:
            raise StoreError(
                self.path,
                f"layout version must be <= {LAYOUT_VERSION}, got {layout}: written by a newer version",
            )
        if layout == 0:
            self._create_tables()
        return int(run("SELECT value FROM counter WHERE name = 'opened'").fetchone()[0]) + 1

    def _create_tables(self) -> None:
        run = self._connection.execute
        run("PRAGMA journal_mode=WAL")
        run("BEGIN IMMEDIATE")
        for statement in _TABLES.split(";"):
            run(statement)
        run(f"PRAGMA user_version={LAYOUT_VERSION}")
        run("COMMIT")

    def load(self) -> NodeTree:
        """Load the tree as last written."""
        try:
            rows = self._connection.execute("SELECT * FROM node").fetchall()
            zxid = self._connection.execute("SELECT value FROM counter WHERE name = 'zxid'").fetchone()[0]
        except sqlite3.Error as error:
            raise Unavailable(self.path, f"cannot be read: {error}") from error
        return NodeTree(((row[0], (bytes(row[1]), Stat(*row[2:]))) for row in rows), zxid)

    def write(self, after: Mapping[str, Node | None], zxid: int) -> None:
        """Write nodes (None deletes one) in one transaction. Waits for the disk."""
        run = self._connection.execute
        try:
            run("BEGIN IMMEDIATE")
            self._connection.executemany(
                "INSERT OR REPLACE INTO node VALUES (?,?,?,?,?,?,?,?,?,?,?)",
                ((path, node[0], *node[1]) for path, node in after.items() if node is not None),
            )
            self._connection.executemany(
                "DELETE FROM node WHERE path = ?", ((path,) for path, node in after.items() if node is None)
            )
            run("UPDATE counter SET value = ? WHERE name = 'zxid'", (zxid,))
            if not self._is_opening_counted:
                run("UPDATE counter SET value = ? WHERE name = 'opened'", (self.opened,))
            run("COMMIT")
            self._is_opening_counted = True
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.rollback()
            kind = DiskFull if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL else Unavailable
            raise kind(self.path, f"cannot be written: {error}") from error

    def close(self) -> None:
        self._connection.close()


def _make_private(path: str) -> None:
    """Create the file, or take away the rights of others to it and its log.

    An existing file is not opened: closing it would end the locks that this process has on it.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, PRIVATE))
    for name in (path, f"{path}-wal"):
        with suppress(FileNotFoundError):
            status = os.stat(name)
            is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
            if is_own and status.st_mode & OTHERS:
                os.chmod(name, PRIVATE)


def _open_error(path: str, error: sqlite3.Error) -> StoreError:
    if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Unavailable(
            path,
            "in use by another process. Only one broker can use an embedded store: stop the other broker, "
            "use other log.dirs for this one, or set zookeeper.connect to run several",
        )
    if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return Unavailable(path, f"is corrupt or not a store: {error}")
    return Unavailable(path, f"cannot be opened: {error}")
