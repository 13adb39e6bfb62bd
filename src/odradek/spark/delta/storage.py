"""Where a table lies: its path, the file system of its files, and the table as delta-rs opens it.

Invariant: a local path is absolute before it leaves the driver, for executors have a working directory of
their own. Failures of the storage become errors that name the path and what to do.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
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


def resolved(path: str) -> str:
    """An absolute local path, or the URI as it is."""
    parts = urlsplit(path)
    if parts.scheme == "file":
        return os.path.abspath(unquote(parts.path))
    return path if "://" in path else os.path.abspath(path)


def is_local(path: str) -> bool:
    return "://" not in path


def file_system(path: str, storage_options: dict[str, str]) -> Any:
    """A file system whose root is the table."""
    if is_local(path):
        return pyarrow.fs.SubTreeFileSystem(path, pyarrow.fs.LocalFileSystem())
    with told(path):
        return pyarrow.fs.PyFileSystem(DeltaStorageHandler(path, storage_options or None))


def open_table(path: str, storage_options: dict[str, str], version: int | None = None) -> DeltaTable:
    """The table at its newest version, or at the one given."""
    if is_local(path) and os.path.isfile(path):
        raise TableOptionError(f"{path} is a file, and a table is a folder: give another path")
    with told(path):
        return DeltaTable(path, version=version, storage_options=storage_options or None)


def find_table(path: str, storage_options: dict[str, str]) -> DeltaTable | None:
    """The table, or None where there is none yet."""
    try:
        return open_table(path, storage_options)
    except TableNotFound:
        return None


@contextmanager
def told(path: str) -> Iterator[None]:
    """Tell failures of the storage and of delta-rs in words that help."""
    try:
        yield
    except TableNotFoundError as error:
        raise TableNotFound(_not_found(path, str(error))) from error
    except DeltaProtocolError as error:
        raise TableUnsupported(
            f"the table at {path} uses a feature of Delta that cannot be honoured here: {error}"
        ) from error
    except OSError as error:
        raise StorageFailed(storage_words(path, error)) from error
    except DeltaError as error:
        if is_full(error) or is_forbidden(error):
            raise StorageFailed(storage_words(path, error)) from error
        raise


def _not_found(path: str, reason: str) -> str:
    if "unknown scheme" in reason.lower():
        return f"{path} is no place that can hold a table: {reason}"
    if is_local(path) and not os.path.exists(path):
        return f"there is nothing at {path}: check the path, or write the table first"
    return f"{path} is not a Delta table, for it has no _delta_log with versions: check the path"


def is_full(error: BaseException) -> bool:
    text = str(error).lower()
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or any(
        word in text for word in _FULL
    )


def is_forbidden(error: BaseException) -> bool:
    text = str(error).lower()
    is_refused = getattr(error, "errno", None) in (errno.EACCES, errno.EPERM, errno.EROFS)
    return is_refused or any(word in text for word in _FORBIDDEN)


def storage_words(path: str, error: BaseException) -> str:
    """What to do about a failure of the storage."""
    if is_full(error):
        return (
            f"the storage of the table at {path} is full ({error}): nothing of this batch was committed; free"
            " space (vacuum removes files that no version needs), then start the query again with the same"
            " checkpoint"
        )
    if is_forbidden(error):
        return f"no permission for the table at {path} ({error}): check its owner or the storage.* options"
    return (
        f"the storage of the table at {path} cannot be reached or does not answer as it should ({error}):"
        " check the path and the storage.* options"
    )
