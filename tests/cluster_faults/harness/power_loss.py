"""A file system that loses what was not synced, as when power is lost: ext4 on a loop device, shut down.

``EXT4_IOC_SHUTDOWN`` without a flush of the journal stops all writing at once. After the next mount the file
system has what was written to its image before: what was synced, and what the kernel wrote back by itself.
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import tempfile
import time
from pathlib import Path

IOC_SHUTDOWN = 0x8004587D
"""``_IOR('X', 125, __u32)``, of ext4 and other file systems."""
NO_LOG_FLUSH = 2
DISK_BYTES = 512 << 20
"""The image is sparse: only what is written takes space."""
COMMIT_SECONDS = 3600
"""Longer than a test: only a sync, not time, commits the journal."""
RELEASE_SECONDS_MAX = 30.0


class LosingDisk:
    """A file system in an image, mounted at ``directory`` in a new directory ``home``.

    ``home`` is a shared mount. A process that begins meanwhile with mounts of its own, as those in a network
    namespace do, has a copy of all mounts; only in a shared one it loses the file system when we unmount it.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._image = home.with_name(f"{home.name}.image")
        self.directory = home / "mounted"
        with self._image.open("wb") as file:
            file.truncate(DISK_BYTES)
        _run("mkfs.ext4", "-q", "-F", str(self._image))
        home.mkdir()
        _run("mount", "--bind", str(home), str(home))
        _run("mount", "--make-shared", str(home))
        self.directory.mkdir()
        self.mount()
        (self.directory / "lost+found").rmdir()  # no name of a partition

    def mount(self) -> None:
        options = f"loop,commit={COMMIT_SECONDS},noatime"
        _run("mount", "-t", "ext4", "-o", options, str(self._image), str(self.directory))

    def drop_unsynced(self) -> None:
        """Stop all writing: what is not in the image yet is lost, and every further write fails."""
        descriptor = os.open(self.directory, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(descriptor)

    def unmount(self) -> None:
        """Unmount, and wait until nothing uses the image any more."""
        deadline = time.monotonic() + RELEASE_SECONDS_MAX
        _run("umount", str(self.directory))
        while _run("losetup", "-j", str(self._image)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._image} must be released within {RELEASE_SECONDS_MAX} s")
            time.sleep(0.01)

    def remount(self) -> None:
        """Mount again what is left after a loss of power."""
        self.unmount()
        self.mount()

    def close(self) -> None:
        self.unmount()
        _run("umount", str(self._home))
        self._image.unlink()


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def why_no_power_loss() -> str | None:
    """Return why no file system can lose what was not synced here; None if one can."""
    if os.geteuid():
        return "a file system can only be mounted by root"
    with tempfile.TemporaryDirectory() as name:
        try:
            disk = LosingDisk(Path(name) / "disk")
            try:
                disk.drop_unsynced()
            finally:
                disk.close()
        except subprocess.CalledProcessError as error:
            return f"no file system in an image here: {error.stderr.strip()}"
        except OSError as error:
            return f"no file system in an image here: {error}"
    return None
