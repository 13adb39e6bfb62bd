"""The database of the embedded store: a full disk, a closed database."""

from __future__ import annotations

import pytest

from odradek.store.embedded.database import MEMORY, Database, DiskFull
from odradek.store.port import Stat, Unavailable

STAT = Stat(1, 1, 1, 0, 0, 0, 0, 5, 5)


def test_full_disk_rejects_the_whole_write() -> None:
    database = Database(MEMORY)
    database.write({"/a": (b"kept", STAT)}, 1)
    pages = database._connection.execute("PRAGMA page_count").fetchone()[0]
    database._connection.execute(f"PRAGMA max_page_count={pages + 2}")
    with pytest.raises(DiskFull, match="full"):
        database.write({"/b": (b"small", STAT), "/c": (bytes(100_000), STAT), "/a": None}, 2)
    tree = database.load()
    assert tree.zxid == 1
    assert tree.nodes["/a"] == (b"kept", STAT)
    assert "/b" not in tree.nodes
    database._connection.execute("PRAGMA max_page_count=1000000")
    database.write({"/c": (bytes(100_000), STAT)}, 2)
    assert set(database.load().nodes) == {"/", "/a", "/c"}
    database.close()


def test_closed_database_is_unavailable() -> None:
    database = Database(MEMORY)
    database.close()
    with pytest.raises(Unavailable, match="read"):
        database.load()
