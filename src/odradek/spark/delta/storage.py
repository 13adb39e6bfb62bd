"""Storage of a table: its path, its file system, and opening it with delta-rs.

Invariant: a local path is absolute before it leaves the driver, because executors have their own working
directory. Storage errors become errors that name the path and what to do.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import unquote, urlsplit

import pyarrow.fs
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, DeltaProtocolError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler

from odradek.spark.delta.errors import StorageFailed, TableNotFound, TableOptionError, TableUnsupported

_FULL: Final = ("no space left", "storagefull", "quota exceeded", "disk quota")
_FORBIDDEN: Final = (
    "permission denied",
    "accessdenied",
    "forbidden",
    "unauthorized",
    "status 403",
    "status 401",
)


def absolute_path(path: str) -> str:
    """Return an absolute local path, or the URI unchanged."""
    parts = urlsplit(path)
    if parts.scheme == "file":
        return os.path.abspath(unquote(parts.path))
    return path if "://" in path else os.path.abspath(path)


def is_local(path: str) -> bool:
    return "://" not in path


def file_system(path: str, storage_options: dict[str, str]) -> pyarrow.fs.FileSystem:
    """Return a file system whose root is the table."""
    if is_local(path):
        return pyarrow.fs.SubTreeFileSystem(path, pyarrow.fs.LocalFileSystem())
    with storage_errors(path):
        return pyarrow.fs.PyFileSystem(DeltaStorageHandler(path, storage_options or None))


def open_table(path: str, storage_options: dict[str, str], version: int | None = None) -> DeltaTable:
    """Open the table at its latest version, or at ``version``."""
    if is_local(path) and os.path.isfile(path):
        raise TableOptionError(f"the path of a table must be a directory, got the file {path}")
    with storage_errors(path):
        return DeltaTable(path, version=version, storage_options=storage_options or None)


def find_table(path: str, storage_options: dict[str, str]) -> DeltaTable | None:
    """Open the table; None if it does not exist yet."""
    try:
        return open_table(path, storage_options)
    except TableNotFound:
        return None


@contextmanager
def storage_errors(path: str) -> Iterator[None]:
    """Translate errors of the storage and of delta-rs into TableError."""
    try:
        yield
    except TableNotFoundError as error:
        raise TableNotFound(_not_found(path, str(error))) from error
    except DeltaProtocolError as error:
        raise TableUnsupported(f"the table at {path} uses an unsupported Delta feature: {error}") from error
    except OSError as error:
        raise StorageFailed(storage_error_message(path, error)) from error
    except DeltaError as error:
        if is_full(error) or is_forbidden(error):
            raise StorageFailed(storage_error_message(path, error)) from error
        raise


def _not_found(path: str, reason: str) -> str:
    if "unknown scheme" in reason.lower():
        return f"the path of a table must be a local path or a supported URI, got {path}: {reason}"
    if is_local(path) and not os.path.exists(path):
        return f"{path} does not exist: check the path, or write the table first"
    return f"{path} is not a Delta table, because it has no _delta_log with versions: check the path"


def is_full(error: BaseException) -> bool:
    text = str(error).lower()
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or any(
        sign in text for sign in _FULL
    )


def is_forbidden(error: BaseException) -> bool:
    text = str(error).lower()
    is_denied = getattr(error, "errno", None) in (errno.EACCES, errno.EPERM, errno.EROFS)
    return is_denied or any(sign in text for sign in _FORBIDDEN)


def storage_error_message(path: str, error: BaseException) -> str:
    """Return the message for a storage error."""
    if is_full(error):
        return (
            f"the storage of the table at {path} is full ({error}): nothing of this batch was committed; free"
            " space (vacuum removes files that no version needs), then restart the query with the same"
            " checkpoint"
        )
    if is_forbidden(error):
        return f"access to the table at {path} denied ({error}): check its owner or the storage.* options"
    return (
        f"the storage of the table at {path} is unreachable or failed ({error}): check the path and the"
        " storage.* options"
    )
