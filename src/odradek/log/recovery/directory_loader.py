"""The logs in a log directory: which there are, and loading them on threads."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from odradek.log.disk_health import SINGLE_LOG_ERRORS
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.recovery.load_progress import LoadState
from odradek.log.recovery.log_loader import LogLoadContext, RecoveryResult, open_log
from odradek.log.segments.segment_format import DirectoryKind, parse_directory_name
from odradek.model.errors import BrokerError, StorageError
from odradek.model.ids import TopicPartition
from odradek.ports.files import FileSystem


class ListedLog(NamedTuple):
    topic_partition: TopicPartition
    kind: DirectoryKind
    path: str


class DirectoryListing(NamedTuple):
    logs: list[ListedLog]
    deleted: list[tuple[TopicPartition, str]]
    """Paths of logs whose deletion has begun."""
    strays: list[str]
    unknown: list[str]
    """Names that do not belong to a log."""


def list_directory(files: FileSystem, directory: str) -> DirectoryListing:
    """Sort the names in a log directory by what they are. Blocks."""
    listing = DirectoryListing([], [], [], [])
    for name in files.list_names(directory):
        parsed, path = parse_directory_name(name), f"{directory}/{name}"
        if parsed is None or not files.is_directory(path):
            listing.unknown.append(name)
        elif parsed.kind is DirectoryKind.DELETE:
            listing.deleted.append((parsed.topic_partition, path))
        elif parsed.kind is DirectoryKind.STRAY:
            listing.strays.append(path)
        else:
            listing.logs.append(ListedLog(parsed.topic_partition, parsed.kind, path))
    return listing


class LogToLoad(NamedTuple):
    """A log to be loaded."""

    path: str
    kind: DirectoryKind
    topic_partition: TopicPartition
    config: LogConfig
    context: LogLoadContext


async def load_logs(
    files: FileSystem, work: deque[LogToLoad], loading: LoadState, threads: int
) -> dict[TopicPartition, LogToLoad]:
    """Load logs on several threads; return those that could not be opened while others could."""
    unopened: dict[TopicPartition, LogToLoad] = {}
    for running in [files.offload(lambda: _load_logs(work, loading, unopened)) for _ in range(threads)]:
        await running
    return unopened


def _load_logs(work: deque[LogToLoad], loading: LoadState, unopened: dict[TopicPartition, LogToLoad]) -> None:
    """Load logs until none is left; runs on several threads."""
    while True:
        try:
            entry = work.popleft()
        except IndexError:
            return
        recovered = RecoveryResult()
        loading.started.append(recovered)
        try:
            log = open_listed_log(entry, recovered)
        except OSError as error:
            loading.failures.append(StorageError(f"cannot open the log in {entry.path}: {error}"))
            continue
        except StorageError as error:
            unopened[entry.topic_partition] = entry
            loading.unusable.append((entry.topic_partition, error))
            continue
        if recovered.scanned_segments or recovered.problem is not None:
            loading.recovered.append((entry.topic_partition, recovered))
        loading.loaded.append((entry.kind, log))


def open_listed_log(entry: LogToLoad, recovered: RecoveryResult) -> Log:
    """Open a log. Raises ``StorageError`` if only this log is affected, otherwise ``OSError``. Blocks."""
    try:
        return open_log(entry.topic_partition, entry.path, entry.config, entry.context, recovered)
    except OSError as error:
        if error.errno in SINGLE_LOG_ERRORS:
            raise StorageError(f"cannot open the log in {entry.path}: {error}") from error
        raise
    except (StorageError, BrokerError) as error:
        raise StorageError(f"cannot open the log in {entry.path}: {error}") from error
