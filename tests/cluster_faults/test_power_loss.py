"""A file system that loses power: what was synced is there, what was not is gone."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster_faults.harness.power_loss import LosingDisk, why_no_power_loss

SIZE = 100_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LosingDisk]:
    if reason := why_no_power_loss():
        pytest.skip(reason)
    disk = LosingDisk(tmp_path / "disk")
    yield disk
    disk.close()


def append(path: Path, data: bytes, *, is_synced: bool) -> None:
    with path.open("ab") as file:
        file.write(data)
        file.flush()
        if is_synced:
            os.fsync(file.fileno())


def sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def lose_power(disk: LosingDisk) -> None:
    disk.drop_unsynced()
    disk.remount()


def test_what_was_not_synced_is_lost(disk: LosingDisk) -> None:
    log, new = disk.directory / "log", disk.directory / "new"
    append(log, b"s" * SIZE, is_synced=True)
    sync_directory(disk.directory)
    append(log, b"u" * SIZE, is_synced=False)
    append(new, b"u" * SIZE, is_synced=False)
    assert log.stat().st_size == 2 * SIZE
    lose_power(disk)
    assert log.read_bytes() == b"s" * SIZE
    assert not new.exists()


def test_rename_that_was_not_synced_is_lost(disk: LosingDisk) -> None:
    path, other = disk.directory / "path", disk.directory / "other"
    append(path, b"old", is_synced=True)
    append(other, b"new", is_synced=True)
    sync_directory(disk.directory)
    other.rename(path)
    lose_power(disk)
    assert path.read_bytes() == b"old"
    other.rename(path)
    sync_directory(disk.directory)
    lose_power(disk)
    assert path.read_bytes() == b"new"


def test_processes_with_mounts_of_their_own_do_not_keep_the_disk(disk: LosingDisk) -> None:
    with subprocess.Popen(["unshare", "--mount", "--propagation", "slave", "sleep", "60"]) as process:
        try:
            wait_for_own_mounts(process.pid)
            lose_power(disk)
        finally:
            process.kill()


def wait_for_own_mounts(pid: int) -> None:
    while os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt"):
        assert os.path.exists(f"/proc/{pid}")
        time.sleep(0.01)


def test_nothing_is_written_after_the_loss(disk: LosingDisk) -> None:
    append(disk.directory / "log", b"x", is_synced=True)
    disk.drop_unsynced()
    with pytest.raises(OSError, match="Input/output error"):
        append(disk.directory / "log", b"y", is_synced=True)
