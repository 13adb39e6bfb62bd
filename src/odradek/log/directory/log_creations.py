"""Creation of logs: those that are requested at the same time are synced to the disk together.

A topic with many partitions would otherwise cost three syncs of the disk for each. A log that cannot be
written does not affect others; if a sync fails, all of a batch fail. Failed ones leave nothing behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from odradek.log.checkpoints import PARTITION_METADATA, encode_partition_metadata
from odradek.log.log import Log
from odradek.model.ids import TopicId
from odradek.ports.files import FileSystem

BATCH_MAX: Final = 256
"""Logs created together, by one piece of work on a thread."""


class _Creation:
    __slots__ = ("create", "done", "log", "path", "topic_id")

    def __init__(self, path: str, create: Callable[[], Log], topic_id: TopicId | None) -> None:
        self.path = path
        self.create = create
        self.topic_id = topic_id
        self.log: Log | None = None
        self.done: asyncio.Future[Log] = asyncio.get_running_loop().create_future()

    @property
    def metadata_path(self) -> str:
        return f"{self.path}/{PARTITION_METADATA}"

    @property
    def temporary_path(self) -> str:
        return f"{self.metadata_path}.tmp"


class LogCreations:
    """Creates logs in one log directory, a batch at a time."""

    def __init__(self, files: FileSystem, path: str) -> None:
        self._files = files
        self._path = path
        self._waiting: list[_Creation] = []
        self._task: asyncio.Task[None] | None = None

    async def create(self, path: str, create: Callable[[], Log], topic_id: TopicId | None) -> Log:
        """Create the log in the directory ``path``, durable with its topic id; raises ``OSError``.

        ``create`` makes the directory and its files, on a thread.
        """
        creation = _Creation(path, create, topic_id)
        self._waiting.append(creation)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        return await asyncio.shield(creation.done)

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:BATCH_MAX], self._waiting[BATCH_MAX:]
                await self._create_batch(batch)
        finally:
            self._task = None

    async def _create_batch(self, batch: Sequence[_Creation]) -> None:
        try:
            failures = await self._files.offload(lambda: self._create_together(batch))
        except Exception as error:  # noqa: BLE001 - the edge of a task
            failures = dict.fromkeys(batch, error)
        for creation in batch:
            if creation in failures:
                creation.done.set_exception(failures[creation])
            else:
                assert creation.log is not None
                creation.done.set_result(creation.log)

    def _create_together(self, batch: Sequence[_Creation]) -> dict[_Creation, Exception]:
        """Create the logs; return the errors of those that failed. Runs on a thread."""
        failures: dict[_Creation, Exception] = {}
        for creation in batch:
            try:
                self._write(creation)
            except OSError as error:
                failures[creation] = error
        written = [creation for creation in batch if creation not in failures]
        try:
            self._make_durable(written)
        except OSError as error:
            # All of them fail: a sync that succeeds after another one has failed proves nothing.
            failures.update(dict.fromkeys(written, error))
        for creation in failures:
            with suppress(OSError):
                self._files.remove_tree(creation.path)
        return failures

    def _write(self, creation: _Creation) -> None:
        creation.log = creation.create()
        if creation.topic_id is not None:
            file = self._files.open(creation.temporary_path, create=True)
            try:
                file.append(encode_partition_metadata(creation.topic_id))
            finally:
                file.close()

    def _make_durable(self, batch: Sequence[_Creation]) -> None:
        with_metadata = [creation for creation in batch if creation.topic_id is not None]
        self._files.sync_all([creation.temporary_path for creation in with_metadata])
        for creation in with_metadata:
            self._files.rename(creation.temporary_path, creation.metadata_path)
        if batch:
            self._files.sync_all([*(creation.path for creation in batch), self._path])
