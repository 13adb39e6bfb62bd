"""Many members of a group in one process: ``group_members.py BOOTSTRAP GROUP TOPIC DIRECTORY FIRST COUNT``.

Each member is an asyncio consumer of ours with a journal of its own (``tests/faults/groups/journal.py``),
and notes the member id and generation under which it may commit. SIGTERM ends all of them in order.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import odradek.aio
from odradek import ClientError, TopicPartition

ROOT = Path(__file__).resolve().parents[3]
SESSION_MS = 10_000
FETCH_WAIT_MS = 4_000
"""Members have few records: short waits would keep the brokers busy with empty fetches."""
POLL_SECONDS = 1.0
COMMIT_EVERY_SECONDS = 0.5


class Member:
    """One consumer, and what it has processed and not committed."""

    def __init__(self, number: int, directory: Path) -> None:
        from tests.faults.groups.journal import Writer

        self._journal = Writer(str(directory / f"{number}.jsonl"))
        self._notes = directory / f"{number}.membership"
        self._next: dict[TopicPartition, int] = {}
        self._consumer: Any = None

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        metadata = self._consumer.group_metadata()
        owned = sorted(partition.partition for partition in self._consumer.assignment())
        self._journal.owned(metadata.generation_id, owned)
        self._notes.write_text(json.dumps([metadata.member_id, metadata.generation_id, owned]))

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        await self._commit()
        self.on_partitions_lost(partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self._journal.freed(partition.partition for partition in partitions)
        for partition in partitions:
            self._next.pop(partition, None)

    async def run(self, bootstrap: str, group: str, topic: str, stopping: asyncio.Event) -> None:
        async with odradek.aio.Consumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            fetch_max_wait_ms=FETCH_WAIT_MS,
            partition_assignment_strategy="range",
        ) as self._consumer:
            self._consumer.subscribe([topic], listener=self)
            due = time.monotonic()
            while not stopping.is_set():
                self._process(await self._consumer.poll(POLL_SECONDS))
                if time.monotonic() > due:
                    await self._commit()
                    due = time.monotonic() + COMMIT_EVERY_SECONDS
            await self._commit()

    def _process(self, records: Any) -> None:
        if not records:
            return
        self._journal.seen((record.partition, record.offset) for record in records)
        for record in records:
            self._next[TopicPartition(record.topic, record.partition)] = record.offset + 1

    async def _commit(self) -> None:
        """Commit; what is refused is committed later, by this member or by the next owner."""
        if not self._next:
            return
        asked_ns, offsets = time.monotonic_ns(), dict(self._next)
        try:
            await self._consumer.commit(offsets)
        except ClientError as error:
            self._journal.refused(repr(error))
            return
        self._journal.committed(
            asked_ns, {partition.partition: offset for partition, offset in offsets.items()}
        )
        for partition, offset in offsets.items():
            if self._next.get(partition) == offset:
                del self._next[partition]


async def run_members(
    bootstrap: str, group: str, topic: str, directory: Path, first: int, count: int
) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    members = [Member(number, directory) for number in range(first, first + count)]
    async with asyncio.TaskGroup() as tasks:
        for member in members:
            tasks.create_task(member.run(bootstrap, group, topic, stopping))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    _, its_bootstrap, its_group, its_topic, its_directory, its_first, its_count = sys.argv
    asyncio.run(
        run_members(its_bootstrap, its_group, its_topic, Path(its_directory), int(its_first), int(its_count))
    )
