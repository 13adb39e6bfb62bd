"""The data directories of a broker: those that serve, and those that failed.

Each fails alone. One that failed, at the start or later, is never used again by this process: iteration and
every search pass it over, and ``failed`` says why. Only a directory that another broker holds, and a log that
is in two directories, stop the start: there the broker would serve what is not its own, or choose blindly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.log_directory import ConfigOf, DirectoryInUse, LogDirectory
from odradek.log.segments.segment_format import DirectoryKind
from odradek.model.errors import BrokerError, StorageError
from odradek.model.ids import TopicId, TopicPartition
from odradek.ports.entropy import Entropy
from odradek.ports.files import FileSystem
from odradek.telemetry import events

events_log = events.logger("directories")


class LogManager:
    """Made by ``open``. ``on_failure`` is told of directories that fail after the start."""

    def __init__(self, opened: Sequence[LogDirectory] = ()) -> None:
        self.paths = [directory.path for directory in opened]
        """All of them, in the order of ``log.dirs``."""
        self.failed: dict[str, StorageError] = {}
        self.on_failure: Callable[[LogDirectory], None] = lambda _: None
        self._serving: list[LogDirectory] = []
        for directory in opened:
            self._take(directory)

    @classmethod
    def open(cls, files: FileSystem, paths: Sequence[str], entropy: Entropy) -> LogManager:
        """Lock those that can be used. ``StorageError`` if the first cannot, or another broker holds one.

        Those that are there are locked first, so that a refusal by one of them finds no other one made.
        """
        directories = cls()
        directories.paths = list(map(files.absolute, paths))
        for path in directories.paths:
            if directories.paths.count(path) > 1:
                raise StorageError(f"log.dirs has {path} twice")
        try:
            for path in sorted(directories.paths, key=lambda one: not files.exists(one)):
                directories._open_one(files, path, entropy)
                directories._require_first()
            directories._serving.sort(key=lambda one: directories.paths.index(one.path))
        except StorageError:
            for directory in directories:
                directory.abandon()
            raise
        return directories

    def _open_one(self, files: FileSystem, path: str, entropy: Entropy) -> None:
        try:
            self._take(LogDirectory.open(files, path, entropy))
        except DirectoryInUse:
            raise
        except StorageError as failure:
            self.failed[path] = failure

    def _take(self, directory: LogDirectory) -> None:
        directory.on_failure = self._note_failure
        self._serving.append(directory)

    # Start.

    async def load(self, config_of: ConfigOf, now_ms: int, *, threads: int = 1) -> None:
        """Open all logs. A directory that cannot be loaded is left out, if there is another."""

        async def one(directory: LogDirectory) -> None:
            try:
                await directory.load(config_of, now_ms, threads=threads)
            except StorageError as failure:
                directory.fail(failure)

        loading = list(self)
        await asyncio.gather(*(one(directory) for directory in loading))
        for directory in loading:
            if directory.failure is not None:
                directory.abandon()
        self.require_one()
        self._require_single_logs()
        await self._finish_moves()

    async def _finish_moves(self) -> None:
        """Let a log that was moved be the partition's where a crash came before its last rename.

        The old log is given up only once the new one has everything, so the new one alone is all there is.
        While a directory is missing nobody knows whether it is alone.
        """
        for directory in () if self.failed else self:
            for topic_partition, future in list(directory.future.items()):
                if self.find(topic_partition) is None and self.find_unusable(topic_partition) is None:
                    try:
                        future.rename_directory(DirectoryKind.CURRENT)
                        directory.promote_future(topic_partition)
                        await directory.sync_directory()
                    except (BrokerError, StorageError) as refused:
                        # An empty log must not be begun in its place.
                        directory.fail(StorageError(str(refused)))
                        directory.abandon()
                        break
                    events_log.info("move_finished", partition=topic_partition, path=directory.path)
        self.require_one()

    def _require_first(self) -> None:
        """``StorageError`` if the first directory cannot be used: a store elsewhere would know no topic."""
        first = self.paths[0]
        if first in self.failed:
            raise StorageError(
                f"{self.failed[first]}. It is the first of log.dirs, which holds the cluster's state: the "
                "broker cannot start without it"
            )

    def require_one(self) -> None:
        """``StorageError`` if no directory is left."""
        if self._serving:
            return
        reasons = [str(failure) for failure in self.failed.values()]
        if len(reasons) == 1:
            raise StorageError(reasons[0])
        raise StorageError(f"none of log.dirs can be used: {'; '.join(reasons)}")

    def _require_single_logs(self) -> None:
        found: dict[TopicPartition, str] = {}
        for directory in self:
            for log in directory:
                other = found.setdefault(log.topic_partition, directory.path)
                if other != directory.path:
                    raise StorageError(
                        f"{log.topic_partition} has a log in {other} and one in {directory.path}: a "
                        "directory failed while it was moved. Delete one of the two, best the one on the "
                        "failed disk"
                    )

    # What serves.

    def __iter__(self) -> Iterator[LogDirectory]:
        return iter(tuple(self._serving))

    def __len__(self) -> int:
        return len(self._serving)

    def find(self, topic_partition: TopicPartition) -> tuple[LogDirectory, Log] | None:
        for directory in self._serving:
            log = directory.get(topic_partition)
            if log is not None:
                return directory, log
        return None

    def find_unusable(self, topic_partition: TopicPartition) -> LogDirectory | None:
        """The directory that has a log of this partition which cannot be opened."""
        return next((one for one in self._serving if topic_partition in one.unusable), None)

    @property
    def largest_producer_id(self) -> int:
        """The largest producer id that any log remembers; -1 if there is none."""
        return max((log.producers.max_producer_id for directory in self for log in directory), default=-1)

    def find_directory(self, path: str) -> LogDirectory | None:
        return next((directory for directory in self._serving if directory.path == path), None)

    async def create(
        self,
        topic_partition: TopicPartition,
        config: LogConfig,
        topic_id: TopicId | None,
        *,
        is_new: bool,
        preferred: str | None = None,
    ) -> Log:
        """Begin a log in the preferred directory, else where fewest are; if that fails, in the next best.

        A partition that is not new may have its log in a directory that failed: an empty one beside it would
        give its offsets to other records.
        """
        if self.failed and not is_new:
            raise StorageError(
                f"no log of {topic_partition} was found, and {', '.join(self.failed)} cannot be read"
            )
        holder = self.find_unusable(topic_partition)
        if holder is not None:
            raise holder.unusable[topic_partition]
        refusal = StorageError("no directory is left")
        for directory in sorted(self, key=lambda one: (one.path != preferred, one.log_count)):
            try:
                return await directory.create(topic_partition, config, topic_id)
            except StorageError as error:
                refusal = error
        raise refusal

    # Failures.

    def _note_failure(self, directory: LogDirectory) -> None:
        assert directory.failure is not None
        self._serving.remove(directory)
        self.failed[directory.path] = directory.failure
        self.on_failure(directory)
