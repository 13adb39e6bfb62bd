"""Files of a stopped broker that a transfer reads and changes: locks, ``meta.properties``, the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from odradek.broker.start_checks import store_path
from odradek.log.directory.directory_lock import lock_directory
from odradek.ports.files import FileSystem
from odradek.store import meta_properties
from odradek.store.embedded.ensemble import ADOPTED_SUFFIX
from odradek.store.transfer.transfer_mark import TransferMark
from odradek.store.transfer.transfer_plan import LogDirsIdentity, TransferRefused

NEW_SUFFIX: Final = ".new"
"""Added to the name of a store that a release has not completed."""
_SIDE_FILES: Final = ("-wal", "-shm", "-journal")
_ADOPTED_MAX: Final = 1000


@contextmanager
def locked(files: FileSystem, log_dirs: Sequence[str]) -> Iterator[None]:
    """Hold the locks of log directories, as a running broker does; raises ``DirectoryInUse`` if one runs."""
    for log_dir in log_dirs:
        if not files.is_directory(log_dir):
            raise TransferRefused(f"{log_dir} must be the log directory of a broker, got no directory")
    with ExitStack() as stack:
        for log_dir in log_dirs:
            stack.callback(lock_directory(files, log_dir).release)
        yield


def read_identity(files: FileSystem, log_dirs: Sequence[str]) -> LogDirsIdentity:
    """Return the ids of all log directories; raises ``StorageError`` if their cluster ids differ."""
    properties = meta_properties.read_all(files, log_dirs)
    if not properties:
        raise TransferRefused(f"{', '.join(log_dirs)} must have meta.properties: no broker has used it")
    broker_ids = frozenset(meta.broker_id for meta in properties.values() if meta.broker_id is not None)
    clusters = {
        path: meta_properties.MetaProperties(None, meta.cluster_id) for path, meta in properties.items()
    }
    return LogDirsIdentity(meta_properties.agree(clusters).cluster_id, broker_ids)


def has_store(files: FileSystem, log_dirs: Sequence[str]) -> bool:
    return files.exists(store_path(log_dirs))


def was_adopted(files: FileSystem, log_dirs: Sequence[str]) -> bool:
    """Return whether the store was carried over, and none is there now."""
    return not has_store(files, log_dirs) and files.exists(store_path(log_dirs) + ADOPTED_SUFFIX)


def complete_adoption(files: FileSystem, log_dirs: Sequence[str], mark: TransferMark, now_ms: int) -> str:
    """Write the new broker id, then put the closed store aside; return its new name.

    In this order: a crash between leaves the marked store in place, and no broker starts on it.
    """
    meta_properties.write_all(files, log_dirs, mark.new_broker_id, mark.cluster_id, now_ms)
    store = store_path(log_dirs)
    _check_closed(files, store)
    adopted = _unused_name(files, store + ADOPTED_SUFFIX)
    files.rename(store, adopted)
    files.sync_dir(log_dirs[0])
    return adopted


def new_store_path(files: FileSystem, log_dirs: Sequence[str]) -> str:
    """Return the path of a store to write, without the rest of an earlier attempt."""
    path = store_path(log_dirs) + NEW_SUFFIX
    for name in (path, *(path + suffix for suffix in _SIDE_FILES)):
        if files.exists(name):
            files.remove(name)
    return path


def complete_release(files: FileSystem, log_dirs: Sequence[str]) -> None:
    """Put the new, closed store into place."""
    _check_closed(files, store_path(log_dirs) + NEW_SUFFIX)
    files.rename(store_path(log_dirs) + NEW_SUFFIX, store_path(log_dirs))
    files.sync_dir(log_dirs[0])


def _check_closed(files: FileSystem, store: str) -> None:
    """Refuse to rename a store without its write-ahead log, which SQLite would apply to another store."""
    for suffix in _SIDE_FILES:
        if files.exists(store + suffix):
            raise TransferRefused(
                f"{store} must be complete, but {store + suffix} exists: perhaps the disk is full. Free some "
                "space, and repeat this command"
            )


def _unused_name(files: FileSystem, name: str) -> str:
    """Return the name, or one with a number if it is taken by an earlier adoption."""
    names = [name, *(f"{name}.{number}" for number in range(2, _ADOPTED_MAX))]
    for candidate in names:
        if not files.exists(candidate):
            return candidate
    raise TransferRefused(f"{name} and {_ADOPTED_MAX - 2} more exist; remove some of them")
