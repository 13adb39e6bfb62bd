"""The file system contract on real files and files in memory, and tests specific to one of them."""

import errno
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import odradek
from odradek.system.files import RealFileSystem
from odradek.testing.contracts.file_system_contract import FileContract, FileSystemContract
from odradek.testing.files import MemoryFileSystem


class SeededEntropy:
    """Seeded entropy."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def token(self, size_bytes: int) -> bytes:
        return self._random.randbytes(size_bytes)

    def below(self, limit: int) -> int:
        return self._random.randrange(limit)

    def uuid(self) -> bytes:
        return self.token(16)


class TestRealFiles(FileContract, FileSystemContract):
    @pytest.fixture
    def files(self) -> Iterator[RealFileSystem]:
        files = RealFileSystem(threads_max=2)
        yield files
        files.close()

    @pytest.fixture
    def directory(self, tmp_path: Path) -> str:
        return str(tmp_path)


class TestMemoryFiles(FileContract, FileSystemContract):
    @pytest.fixture
    def files(self) -> MemoryFileSystem:
        return MemoryFileSystem()

    @pytest.fixture
    def directory(self, files: MemoryFileSystem) -> str:
        files.make_directories("/data")
        return "/data"


_LOCK_ELSEWHERE = """
import sys
from odradek.system.files import RealFileSystem
try:
    RealFileSystem().lock(sys.argv[1])
except BlockingIOError:
    print("refused")
else:
    print("taken")
"""


def _lock_in_another_process(path: str) -> str:
    command = [sys.executable, "-c", _LOCK_ELSEWHERE, path]
    source = str(Path(odradek.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source}
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return run.stdout.strip()


def test_lock_excludes_other_processes(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    lock = RealFileSystem().lock(path)
    assert _lock_in_another_process(path) == "refused"
    lock.release()
    assert _lock_in_another_process(path) == "taken"


def test_descriptor_is_closed_with_last_reference(tmp_path: Path) -> None:
    descriptors = Path("/proc/self/fd")
    file = RealFileSystem().open(str(tmp_path / "a"), create=True)
    before = len(list(descriptors.iterdir()))
    del file
    assert len(list(descriptors.iterdir())) == before - 1


def test_crash_keeps_synced_data() -> None:
    for seed in range(50):
        files = MemoryFileSystem()
        file = files.open("/a", create=True)
        file.append(b"kept")
        file.sync()
        files.sync_dir("/")
        file.append(b"perhaps")
        files.crash(SeededEntropy(seed))
        content = files.read_whole("/a")
        assert content.startswith(b"kept")
        assert len(content) <= len(b"keptperhaps")


def test_crash_may_lose_or_tear_unsynced_writes() -> None:
    seen = set()
    for seed in range(400):
        files = MemoryFileSystem()
        file = files.open("/a", create=True)
        files.sync_dir("/")
        file.append(b"abc")
        files.crash(SeededEntropy(seed))
        seen.add(files.read_whole("/a"))
    assert {b"", b"a", b"ab", b"abc", b"\0\0\0", b"ab\x9c"} <= seen


def test_crash_may_undo_unsynced_truncation() -> None:
    sizes = set()
    for seed in range(30):
        files = MemoryFileSystem()
        files.write_whole("/a", b"abc")
        files.open("/a").truncate(1)
        files.crash(SeededEntropy(seed))
        sizes.add(files.size_of("/a"))
    assert sizes == {1, 3}


def test_names_are_durable_after_directory_sync() -> None:
    outcomes = set()
    for seed in range(60):
        files = MemoryFileSystem()
        files.write_whole("/old", b"abc")
        files.rename("/old", "/new")
        files.open("/other", create=True).sync()
        files.crash(SeededEntropy(seed))
        outcomes.add(tuple(files.list_names("/")))
    assert outcomes == {("old",), ("new",), ("new", "other")}

    files = MemoryFileSystem()
    files.write_whole("/old", b"abc")
    files.rename("/old", "/new")
    files.sync_dir("/")
    files.crash(SeededEntropy(1))
    assert files.list_names("/") == ["new"]


def test_renamed_directory_keeps_files_after_crash() -> None:
    for seed in range(30):
        files = MemoryFileSystem()
        files.make_directories("/old")
        files.sync_dir("/")
        files.open("/old/file", create=True).sync()
        files.rename("/old", "/new")
        files.sync_dir("/")
        files.crash(SeededEntropy(seed))
        assert files.list_names("/") == ["new"]
        assert files.list_names("/new") in ([], ["file"])

    files = MemoryFileSystem()
    files.make_directories("/old")
    files.open("/old/file", create=True).sync()
    files.rename("/old", "/new")
    files.sync_dir("/")
    files.sync_dir("/new")
    files.crash(SeededEntropy(1))
    assert files.list_names("/new") == ["file"]


def test_directory_made_under_the_name_of_a_renamed_one_keeps_its_files() -> None:
    for seed in range(30):
        files = MemoryFileSystem()
        files.make_directories("/d")
        files.write_whole("/d/old", b"old")
        files.sync_dir("/")
        files.open("/d/unsynced", create=True)
        files.rename("/d", "/deleted")
        files.make_directories("/d")
        files.write_whole("/d/new", b"new")
        if seed % 2:
            files.sync_dir("/")
        files.crash(SeededEntropy(seed))
        if "deleted" in files.list_names("/"):
            assert files.list_names("/deleted") in (["old"], ["old", "unsynced"])
            assert not files.exists("/d") or files.list_names("/d") == ["new"]
        else:
            assert files.list_names("/d") in (["old"], ["old", "unsynced"])
        if seed % 2:
            assert files.list_names("/") == ["d", "deleted"]


def test_crash_loses_files_of_unsynced_directory() -> None:
    lost = 0
    for seed in range(20):
        files = MemoryFileSystem()
        files.make_directories("/d")
        files.write_whole("/d/a", b"abc")
        files.crash(SeededEntropy(seed))
        assert files.exists("/d") == files.exists("/d/a")
        lost += not files.exists("/d")
    assert lost


def test_crash_invalidates_open_files_and_locks() -> None:
    files = MemoryFileSystem()
    file = files.open("/a", create=True)
    files.lock("/.lock")
    files.crash(SeededEntropy(3))
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.append(b"abc")
    files.lock("/.lock")


def test_injected_write_and_sync_failures() -> None:
    files = MemoryFileSystem()
    file = files.open("/a.log", create=True)
    files.fail_next_write(errno.ENOSPC, written=2, name_end=".log")
    files.open("/a.index", create=True).append(b"fine")
    with pytest.raises(OSError, match="No space left"):
        file.append(b"abc")
    assert files.read_whole("/a.log") == b"ab"
    file.append(b"c")
    files.fail_next_sync(errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.sync()


def test_modification_times_come_from_clock() -> None:
    now = 5
    files = MemoryFileSystem(lambda: now)
    file = files.open("/a", create=True)
    now = 9
    file.append(b"abc")
    now = 11
    assert files.modified_ms("/a") == 9
