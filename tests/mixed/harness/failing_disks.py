"""Log directories that fail while a broker uses them, and heal."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Protocol

from tests.mixed.harness.tally import TALLY

IMAGE_BYTES = 64 << 20
EXT4_IOC_SHUTDOWN = 0x8004587D
"""Ends all access to a file system, as if its device were gone."""
WITHOUT_LOG_FLUSH = struct.pack("I", 2)


class Disk(Protocol):
    """``path`` is a log directory. ``heal`` and ``remove`` need a broker that does not run."""

    path: Path

    def fail(self) -> None: ...
    def heal(self) -> None: ...
    def remove(self) -> None: ...


class VanishingDirectory:
    """A directory in whose place is a file when it fails: open files stay, new ones cannot be created."""

    def __init__(self, home: Path) -> None:
        self.path = home / "vanishing"
        self._aside = home / "vanished"
        self.path.mkdir(parents=True)

    def fail(self) -> None:
        TALLY.faults["failed disks"] += 1
        self.path.rename(self._aside)
        self.path.write_text("not a directory")

    def heal(self) -> None:
        if self._aside.exists():
            self.path.unlink()
            self._aside.rename(self.path)

    def remove(self) -> None:
        self.heal()
        shutil.rmtree(self.path)


class FailingFileSystem:
    """An ext4 file system of its own: after a failure every access to it has an input/output error.

    After healing it has what its journal has, like a disk after a power failure. Needs root.
    """

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self._image, self._mount_point = home / "image", home / "mounted"
        self._mount_point.mkdir()
        with self._image.open("wb") as image:
            image.truncate(IMAGE_BYTES)
        subprocess.run(["mkfs.ext4", "-q", str(self._image)], check=True)
        self._mount()
        self.path = self._mount_point / "logs"  # beside lost+found
        self.path.mkdir()

    @staticmethod
    def is_available() -> bool:
        tools = ("mkfs.ext4", "mount", "umount")
        return os.geteuid() == 0 and all(map(shutil.which, tools)) and Path("/dev/loop-control").exists()

    def fail(self) -> None:
        TALLY.faults["failed disks"] += 1
        descriptor = os.open(self._mount_point, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, EXT4_IOC_SHUTDOWN, WITHOUT_LOG_FLUSH)
        finally:
            os.close(descriptor)

    def heal(self) -> None:
        """Mount a copy: a mount namespace made meanwhile may keep the failed file system alive."""
        self._unmount()
        healed = self._image.with_name(f"{self._image.name}-healed")
        shutil.copyfile(self._image, healed)
        self._image.unlink()
        self._image = healed
        self._mount()

    def remove(self) -> None:
        self._unmount()
        self._image.unlink()

    def _mount(self) -> None:
        command = ["mount", "-o", "loop", str(self._image), str(self._mount_point)]
        subprocess.run(command, check=True)

    def _unmount(self) -> None:
        subprocess.run(["umount", str(self._mount_point)], check=True)
