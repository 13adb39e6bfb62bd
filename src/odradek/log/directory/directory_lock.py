"""Creation and lock of a log directory: one broker at a time uses it."""

from __future__ import annotations

from contextlib import suppress

from odradek.log.checkpoints import LOCK_FILE
from odradek.model.errors import StorageError
from odradek.ports.files import FileLock, FileSystem


class DirectoryInUse(StorageError):
    """Raised when another broker has locked the directory."""


def lock_directory(files: FileSystem, path: str) -> FileLock:
    """Create the directory if it does not exist, and lock it."""
    try:
        _create_durable_directory(files, path)
        return files.lock(f"{path}/{LOCK_FILE}")
    except BlockingIOError as error:
        raise DirectoryInUse(f"{path} is in use by another broker: its {LOCK_FILE} is locked") from error
    except OSError as error:
        raise unusable_directory(path, error) from error


def unusable_directory(path: str, error: OSError) -> StorageError:
    """Return the error for a path that cannot be used as a log directory."""
    # The text of an OSError would repeat the path, or a parent of it.
    reason = error.strerror or str(error)
    if error.filename is not None and str(error.filename) != path:
        reason += f" ({error.filename})"
    return StorageError(f"{path} cannot be used as a data directory: {reason}")


def _create_durable_directory(files: FileSystem, path: str) -> None:
    """Create a directory and sync its parents, so that it survives a power loss."""
    parent = path
    missing = []
    while not files.exists(parent):
        missing.append(parent)
        parent = parent.rpartition("/")[0] or "/"
    files.make_directories(path)
    for created in reversed(missing):
        with suppress(PermissionError):  # a directory without read permission cannot be opened for the sync
            files.sync_dir(created.rpartition("/")[0] or "/")
