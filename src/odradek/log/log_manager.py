"""The log directories of a broker, online and offline.

A directory fails alone. Once failed, at startup or later, this process never uses it again: iteration and
lookups skip it, and ``failed`` has the reason. Only a directory that is locked by another broker and a log
that exists in two directories prevent startup: the broker would serve data of another broker, or would have
to pick one of the logs arbitrarily.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from odradek.log.directory.directory_lock import DirectoryInUse
from odradek.log.directory.log_directory import ConfigOf, LogDirectory
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.segments.segment_format import DirectoryKind
from odradek.model.errors import BrokerError, StorageError
from odradek.model.ids import TopicId, TopicPartition
from odradek.ports.entropy import Entropy
from odradek.ports.files import FileSystem
from odradek.telemetry import events

events_log = events.logger("log_manager")


class LogManager:
    """Created by ``open``. ``on_failure`` is called with directories that fail after startup."""

    def __init__(self, opened: Sequence[LogDirectory] = ()) -> None:
        self.paths = [directory.path for directory in opened]
        """All configured paths, in the order of ``log.dirs``."""
        self.failed: dict[str, StorageError] = {}
        self.on_failure: Callable[[LogDirectory], None] = lambda _: None
        self._online: list[LogDirectory] = []
        for directory in opened:
            self._add(directory)

    @classmethod
    def open(cls, files: FileSystem, paths: Sequence[str], entropy: Entropy) -> LogManager:
        """Lock the usable directories. Raises ``StorageError`` if the first is unusable or one is in use.

        Existing directories are locked first, so that no directory is created if one of them is in use.
        """
        log_manager = cls()
        log_manager.paths = list(map(files.absolute, paths))
        for path in log_manager.paths:
            if log_manager.paths.count(path) > 1:
                raise StorageError(f"log.dirs contains {path} twice")
        try:
            for path in sorted(log_manager.paths, key=lambda path: not files.exists(path)):
                log_manager._open_directory(files, path, entropy)
                log_manager._check_first()
            log_manager._online.sort(key=lambda directory: log_manager.paths.index(directory.path))
        except StorageError:
            for directory in log_manager:
                directory.abandon()
            raise
        return log_manager

    def _open_directory(self, files: FileSystem, path: str, entropy: Entropy) -> None:
        try:
            self._add(LogDirectory.open(files, path, entropy, len(self.paths)))
        except DirectoryInUse:
            raise
        except StorageError as failure:
            self.failed[path] = failure

    def _add(self, directory: LogDirectory) -> None:
        directory.on_failure = self._note_failure
        self._online.append(directory)

    # Startup.

    async def load(self, config_of: ConfigOf, now_ms: int, *, threads: int = 1) -> None:
        """Load all logs. A directory that cannot be loaded goes offline, if there is another."""

        async def load_directory(directory: LogDirectory) -> None:
            try:
                await directory.load(config_of, now_ms, threads=threads)
            except StorageError as failure:
                directory.fail(failure)

        loading = list(self)
        await asyncio.gather(*(load_directory(directory) for directory in loading))
        for directory in loading:
            if directory.failure is not None:
                directory.abandon()
        self.require_one()
        self._check_duplicate_logs()
        await self._promote_future_logs()

    async def _promote_future_logs(self) -> None:
        """Promote future logs whose current log was deleted before a crash.

        The current log is deleted only once the future log is complete. While a directory is offline, it may
        contain the current log.
        """
        for directory in () if self.failed else self:
            for topic_partition, future in list(directory.future.items()):
                if self.find(topic_partition) is None and self.find_unusable(topic_partition) is None:
                    try:
                        future.rename_directory(DirectoryKind.CURRENT)
                        directory.promote_future(topic_partition)
                        await directory.sync_directory()
                    except (BrokerError, StorageError) as error:
                        # An empty log must not be created in its place.
                        directory.fail(StorageError(str(error)))
                        directory.abandon()
                        break
                    events_log.info("future_log_promoted", partition=topic_partition, path=directory.path)
        self.require_one()

    def _check_first(self) -> None:
        """Raise ``StorageError`` if the first directory, which contains the store, is unusable."""
        first = self.paths[0]
        if first in self.failed:
            raise StorageError(
                f"{self.failed[first]}. It is the first of log.dirs, which contains the cluster's state: the "
                "broker cannot start without it"
            )

    def require_one(self) -> None:
        """Raise ``StorageError`` if no directory is online."""
        if self._online:
            return
        reasons = [str(failure) for failure in self.failed.values()]
        if len(reasons) == 1:
            raise StorageError(reasons[0])
        raise StorageError(f"all of log.dirs are unusable: {'; '.join(reasons)}")

    def _check_duplicate_logs(self) -> None:
        paths: dict[TopicPartition, str] = {}
        for directory in self:
            for log in directory:
                other = paths.setdefault(log.topic_partition, directory.path)
                if other != directory.path:
                    raise StorageError(
                        f"{log.topic_partition} has a log in {other} and one in {directory.path}: a "
                        "directory failed while the log was moved. Delete one of the two, preferably the one "
                        "on the failed disk"
                    )

    # Lookups.

    def __iter__(self) -> Iterator[LogDirectory]:
        return iter(tuple(self._online))

    def __len__(self) -> int:
        return len(self._online)

    def find(self, topic_partition: TopicPartition) -> tuple[LogDirectory, Log] | None:
        for directory in self._online:
            log = directory.get(topic_partition)
            if log is not None:
                return directory, log
        return None

    def find_unusable(self, topic_partition: TopicPartition) -> LogDirectory | None:
        """Return the directory with a log of this partition that cannot be opened."""
        return next((each for each in self._online if topic_partition in each.unusable), None)

    @property
    def largest_producer_id(self) -> int:
        """Largest producer id in any log; -1 if there is none."""
        return max((log.producers.max_producer_id for directory in self for log in directory), default=-1)

    def find_directory(self, path: str) -> LogDirectory | None:
        return next((directory for directory in self._online if directory.path == path), None)

    async def create(
        self,
        topic_partition: TopicPartition,
        config: LogConfig,
        topic_id: TopicId | None,
        *,
        is_new: bool,
        preferred: str | None = None,
    ) -> Log:
        """Create a log in the preferred directory or the one with the fewest logs; on failure in the next.

        The log of an existing partition may be in a failed directory: a new log would reuse its offsets.
        """
        if self.failed and not is_new:
            raise StorageError(
                f"no log of {topic_partition} found, and {', '.join(self.failed)} cannot be read"
            )
        holder = self.find_unusable(topic_partition)
        if holder is not None:
            raise holder.unusable[topic_partition]
        failure = StorageError("all of log.dirs are unusable")
        for directory in sorted(self, key=lambda each: (each.path != preferred, each.log_count)):
            try:
                return await directory.create(topic_partition, config, topic_id)
            except StorageError as error:
                failure = error
        raise failure

    # Failures.

    def _note_failure(self, directory: LogDirectory) -> None:
        assert directory.failure is not None
        self._online.remove(directory)
        self.failed[directory.path] = directory.failure
        self.on_failure(directory)
