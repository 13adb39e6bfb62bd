"""A consumer group that reads and commits under faults; its member is replaced now and then."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.mixed.harness.mixed_cluster import MixedCluster
from tests.mixed.workload.gate import Gate
from tests.mixed.workload.read_journal import ReadJournal

SECONDS_MAX = 120.0
RECORDS_MAX = 500
POLL_SECONDS = 0.2


class GroupReader:
    """A group of one member in a thread, which commits after each poll that returned records."""

    def __init__(self, cluster: MixedCluster, group: str, topic: str, partitions: Sequence[int]) -> None:
        self.group = group
        self.journal = ReadJournal(partitions)
        self.failed_commits = 0
        self.gate = Gate()
        self._topic = topic
        self._settings = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 2,
        }
        self._consumer = self._join()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        self._thread.join()
        self._consumer.close()

    def replace_member(self) -> None:
        """Let the member leave, and a new one join, which goes on at the committed offsets."""
        with self.gate.closed():
            self._consumer.close()
            self._consumer = self._join()

    def wait_for_commits(self, goals: Mapping[int, int]) -> None:
        """Wait until the group has committed these offsets, one per partition."""
        deadline = time.monotonic() + SECONDS_MAX
        while self.journal.committed != goals:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.group} must commit {goals}, got {self.journal.committed}")
            time.sleep(POLL_SECONDS)

    def stored_offsets(self) -> dict[int, int]:
        """Return the committed offsets as the coordinator has them."""
        asked = [TopicPartition(self._topic, partition) for partition in self.journal.values]
        return {each.partition: each.offset for each in self._consumer.committed(asked, SECONDS_MAX)}

    def _join(self) -> Consumer:
        consumer = Consumer(self._settings)
        consumer.subscribe([self._topic])
        return consumer

    def _read(self) -> None:
        while not self._ends.is_set():
            with self.gate.step():
                self._read_some()

    def _read_some(self) -> None:
        positions: dict[int, int] = {}
        for message in self._consumer.consume(RECORDS_MAX, POLL_SECONDS):
            if message.error() is None:
                partition, offset = message.partition() or 0, message.offset() or 0
                self.journal.note_record(partition, offset, message.value() or b"")
                positions[partition] = offset + 1
        if positions:
            self._commit(positions)

    def _commit(self, positions: Mapping[int, int]) -> None:
        offsets = [TopicPartition(self._topic, partition, offset) for partition, offset in positions.items()]
        try:
            results = self._consumer.commit(offsets=offsets, asynchronous=False) or []
        except KafkaException:
            self.failed_commits += 1
            return
        stored = {each.partition: each.offset for each in results if each.error is None}
        self.failed_commits += len(stored) < len(positions)
        self.journal.note_commit(stored)
