"""The offset checkpoints of one log directory: files with an offset per log, written whole.

The offsets of logs that cannot be used stay as they were at the start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping

from odradek.log.checkpoints import encode_offsets, read_offsets
from odradek.model.errors import StorageError
from odradek.model.ids import TopicPartition
from odradek.ports.files import FileSystem


class OffsetCheckpoints:
    def __init__(self, files: FileSystem, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._lock = asyncio.Lock()
        self._contents: dict[str, Collection[TopicPartition]] = {}
        self._at_start: dict[str, Mapping[TopicPartition, int]] = {}
        self.problems: list[str] = []
        """Checkpoints that could not be read."""

    def read(self, name: str) -> dict[TopicPartition, int]:
        """Read a checkpoint at the start; one that cannot be read counts as empty. Blocks."""
        try:
            offsets = read_offsets(self._files, f"{self._directory}/{name}")
        except StorageError as error:
            self.problems.append(str(error))
            return {}
        self._contents[name] = self._at_start[name] = offsets
        return offsets

    async def write(
        self,
        name: str,
        offsets: Mapping[TopicPartition, int],
        unusable: Collection[TopicPartition],
        check: Callable[[], None],
    ) -> None:
        """Write a checkpoint, after those before it. ``check`` is called when it is this one's turn."""
        before = self._at_start.get(name, {})
        kept = {partition: before[partition] for partition in unusable if partition in before}
        offsets = kept | dict(offsets)
        data = encode_offsets(offsets)
        async with self._lock:
            check()
            await self._files.offload(lambda: self._files.write_whole(f"{self._directory}/{name}", data))
        self._contents[name] = offsets.keys()

    def contains(self, name: str, topic_partition: TopicPartition) -> bool:
        """Return whether a checkpoint on disk has an offset of this log."""
        return topic_partition in self._contents.get(name, ())
