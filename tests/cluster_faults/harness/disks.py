"""Disks of one broker that are small, or whose calls fail when told to."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Self

from tests.cluster_faults.harness.fault_cluster import FaultCluster

SPARE_BYTES = 48 << 20
"""Free space of a small disk before it is filled."""
SOURCE = Path(__file__).with_name("failing_calls.c")
VARIABLE = "FAILING_CALLS"
ORDER = struct.Struct("iiii256s64s")
HITS_AT = 12
FOR_EVER = -1
BALLAST = "ballast"
FILL_ATTEMPTS_MAX = 1_000


class Call(IntEnum):
    """Calls that can fail, as in failing_calls.c."""

    NONE = 0
    WRITE = 1
    SYNC = 2


@contextmanager
def on_small_disk(cluster: FaultCluster, broker: int) -> Iterator[Path]:
    """Restart a broker with its log directory on a tmpfs; move it back at the end. Needs root.

    A restarted broker leads nothing until it is elected.
    """
    directory = cluster.log_dirs(broker)[0]
    aside = directory.with_name(f"{directory.name}-aside")
    cluster.stop(broker)
    directory.rename(aside)
    directory.mkdir()
    try:
        with _mounted(directory, _size_bytes(aside) + SPARE_BYTES):
            shutil.copytree(aside, directory, dirs_exist_ok=True)
            try:
                cluster.start(broker)
                cluster.wait_until_in_sync()
                yield directory
            finally:
                if broker in cluster.running:
                    cluster.stop(broker)
                shutil.rmtree(aside)
                shutil.copytree(directory, aside, ignore=shutil.ignore_patterns(BALLAST))
    finally:
        directory.rmdir()
        aside.rename(directory)
    cluster.start(broker)


@contextmanager
def _mounted(directory: Path, size_bytes: int) -> Iterator[None]:
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(directory)]
    subprocess.run(command, check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def _size_bytes(directory: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in directory.rglob("*") if path.is_file())


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """Fill a disk to its last byte, until the end."""
    ballast = disk / BALLAST
    try:
        _fill(disk, ballast)
        yield
    finally:
        ballast.unlink()


def _fill(disk: Path, ballast: Path) -> None:
    """Take what is free, again and again: the broker takes some of it meanwhile."""
    with ballast.open("ab") as file:
        for _ in range(FILL_ATTEMPTS_MAX):
            space = os.statvfs(disk)
            free_bytes = space.f_bavail * space.f_frsize
            if not free_bytes:
                return
            try:
                os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, free_bytes)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
    raise TimeoutError(f"{disk} must be full after {FILL_ATTEMPTS_MAX} attempts")


def why_no_preload() -> str | None:
    """Return why no library can be loaded into a broker here; None if one can."""
    return None if shutil.which("cc") else "needs a C compiler"


def compile_library(source: Path, directory: Path) -> Path:
    """Compile a C source, unless the directory has its library."""
    library = directory / f"{source.stem}.so"
    if not library.exists():
        command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
        subprocess.run(command, check=True)
    return library


def preload(cluster: FaultCluster, broker: int, source: Path, variable: str, path: Path) -> None:
    """Restart a broker with a library made of a C source, which maps a file, if it does not have it yet."""
    environment = cluster.environments.setdefault(broker, {})
    if variable in environment:
        return
    library = compile_library(source, cluster.home)
    libraries = filter(None, [environment.get("LD_PRELOAD"), str(library)])
    environment.update({variable: str(path), "LD_PRELOAD": ":".join(libraries)})
    cluster.stop(broker)
    cluster.start(broker)
    cluster.wait_until_in_sync()


class FailingCalls:
    """The order of one process: which call fails on which files."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.exists():
            path.write_bytes(bytes(ORDER.size))

    @classmethod
    def load(cls, cluster: FaultCluster, broker: int) -> Self:
        """Restart a broker with the library, if it does not have it yet."""
        path = cluster.home / f"broker-{broker}.calls"
        calls = cls(path)
        preload(cluster, broker, SOURCE, VARIABLE, path)
        return calls

    @property
    def hits(self) -> int:
        """Return how often a call has failed since the last order."""
        with self._mapped() as order:
            return int.from_bytes(order[HITS_AT : HITS_AT + 4], "little")

    @contextmanager
    def failing(
        self, call: Call, error: int, prefix: str, suffix: str = "", times: int = FOR_EVER
    ) -> Iterator[None]:
        """Let calls on files fail with an error, or write only half of their bytes if it is 0."""
        with self._mapped() as order:
            text = os.fsencode(prefix), suffix.encode()
            order[4 : ORDER.size] = ORDER.pack(0, error, times, 0, *text)[4:]
            order[:4] = call.to_bytes(4, "little")
        try:
            yield
        finally:
            with self._mapped() as order:
                order[:4] = Call.NONE.to_bytes(4, "little")

    @contextmanager
    def _mapped(self) -> Iterator[mmap.mmap]:
        with self._path.open("r+b") as file, mmap.mmap(file.fileno(), ORDER.size) as order:
            yield order
