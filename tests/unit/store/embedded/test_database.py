"""The database of the embedded store: a full disk, a closed database, who can read the file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

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


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        database = Database(str(tmp_path / "store"))
        database.write({"/a": (b"credential", STAT)}, 1)
        assert {path.name: mode_of(path) for path in tmp_path.iterdir()} == {
            "store": 0o600,
            "store-wal": 0o600,
        }
        database.close()
    finally:
        os.umask(before)


def test_rights_of_others_are_taken_away_from_an_older_file(tmp_path: Path) -> None:
    path = tmp_path / "store"
    Database(str(path)).close()
    path.chmod(0o644)
    Database(str(path)).close()
    assert mode_of(path) == 0o600


def test_path_that_cannot_be_opened_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be opened"):
        Database(str(tmp_path))
    assert mode_of(tmp_path) == 0o700
