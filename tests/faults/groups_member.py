"""One consumer in a process of its own: ``groups_member.py CLIENT BOOTSTRAP GROUP TOPIC ASSIGNOR JOURNAL``.

It reads, writes down what it saw, and then commits; partitions that are taken away are committed first.
SIGTERM lets it leave the group in order. CLIENT is confluent, kafka_python or aiokafka.
"""

from __future__ import annotations

import asyncio
import logging
import re
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SESSION_MS = 2_500
HEARTBEAT_MS = 300
POLL_INTERVAL_MAX_MS = 20_000
POLL_MS = 150
COMMIT_SECONDS = 0.3
RECORDS_MAX = 200
COOPERATIVE = "cooperative-sticky"


@dataclass(frozen=True)
class Membership:
    bootstrap: str
    group: str
    topic: str
    assignor: str


class Stopping:
    """Whether SIGTERM came."""

    def __init__(self) -> None:
        self.is_set = False
        signal.signal(signal.SIGTERM, self._set)

    def _set(self, *_: object) -> None:
        self.is_set = True


class Place:
    """What the member owns, and what of it is to be committed."""

    def __init__(self, journal: Any, assignor: str) -> None:
        self._journal = journal
        self._is_cooperative = assignor == COOPERATIVE
        self._owned: set[int] = set()
        self.unplaced: set[int] = set()
        """Partitions given and not yet read from; only a client that does not find its position asks."""
        self._next: dict[int, int] = {}
        self._due = time.monotonic() + COMMIT_SECONDS

    def gain(self, generation: int, partitions: Iterable[int]) -> None:
        """Partitions are given: all of them, or with cooperation those that are new."""
        given = set(partitions)
        self._owned = self._owned | given if self._is_cooperative else given
        self._drop(given)
        self.unplaced |= given
        self._journal.owned(generation, self._owned)

    def lose(self, partitions: Iterable[int]) -> None:
        gone = set(partitions)
        self._owned -= gone
        self._drop(gone)
        self.unplaced -= gone
        self._journal.freed(gone)

    def _drop(self, partitions: set[int]) -> None:
        self._next = {partition: at for partition, at in self._next.items() if partition not in partitions}

    def saw(self, records: Sequence[tuple[int, int]]) -> None:
        if records:
            self._journal.seen(records)
            self._next |= {partition: offset + 1 for partition, offset in records}

    def uncommitted(self) -> dict[int, int]:
        """All that has not been committed."""
        self._due = time.monotonic() + COMMIT_SECONDS
        taken, self._next = self._next, {}
        return taken

    def due(self) -> dict[int, int]:
        return self.uncommitted() if time.monotonic() >= self._due else {}

    def give_back(self, offsets: dict[int, int]) -> None:
        """A commit was refused: it is made again, unless its partitions are taken away or given anew."""
        self._next = offsets | self._next


class Generations(logging.Handler):
    """The generation librdkafka has joined, which it tells nobody but its own log."""

    TOLD = re.compile(r"JoinGroup response: GenerationId (\d+),")

    def __init__(self) -> None:
        super().__init__()
        self.newest = -1

    def emit(self, record: logging.LogRecord) -> None:
        if found := self.TOLD.search(record.getMessage()):
            self.newest = int(found.group(1))


def run_confluent(to: Membership, journal: Any, stopping: Stopping) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    place, generations = Place(journal, to.assignor), Generations()
    log = logging.Logger("librdkafka", logging.DEBUG)
    log.addHandler(generations)

    def commit(offsets: dict[int, int]) -> None:
        if not offsets:
            return
        asked_ns = time.monotonic_ns()
        wanted = [TopicPartition(to.topic, partition, offset) for partition, offset in offsets.items()]
        try:
            done = consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as error:
            journal.refused(repr(error))
            place.give_back(offsets)
            return
        journal.committed(asked_ns, {one.partition: one.offset for one in done if one.error is None})

    def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
        place.gain(generations.newest, [one.partition for one in partitions])

    def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
        commit(place.uncommitted())
        place.lose(one.partition for one in partitions)

    def lost(_: Consumer, partitions: list[TopicPartition]) -> None:
        place.lose(one.partition for one in partitions)

    settings: dict[str, Any] = {
        "bootstrap.servers": to.bootstrap,
        "group.id": to.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "max.poll.interval.ms": POLL_INTERVAL_MAX_MS,
        "partition.assignment.strategy": to.assignor,
        "reconnect.backoff.max.ms": 500,
        "debug": "cgrp",
    }
    consumer = Consumer(settings, logger=log)
    consumer.subscribe([to.topic], on_assign=assigned, on_revoke=revoked, on_lost=lost)
    while not stopping.is_set:
        messages = consumer.consume(RECORDS_MAX, POLL_MS / 1000)
        records = [(one.partition(), one.offset()) for one in messages if one.error() is None]
        place.saw(records)
        commit(place.due())
    consumer.close()


def run_kafka_python(to: Membership, journal: Any, stopping: Stopping) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.errors import KafkaError

    place = Place(journal, to.assignor)

    def commit(offsets: dict[int, int]) -> None:
        if not offsets:
            return
        asked_ns = time.monotonic_ns()
        wanted = {
            TopicPartition(to.topic, partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        try:
            consumer.commit(wanted)
        except KafkaError as error:
            journal.refused(repr(error))
            place.give_back(offsets)
            return
        journal.committed(asked_ns, offsets)

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: Any) -> None:
            place.gain(consumer.group_metadata().generation_id, [one.partition for one in assigned])

        def on_partitions_revoked(self, revoked: Any) -> None:
            # This client commits nothing from here; the next owner sees the last records once more.
            place.lose(one.partition for one in revoked)

    def find_positions() -> None:
        """Go to the committed offsets of what was given.

        The client does so itself for partitions it did not have before. With one that it was told to give up,
        and that it is given again some generations later, it goes on at its old position, whatever others
        have committed meanwhile (kafka-python 3.0, with any broker).
        """
        try:
            for partition in sorted(place.unplaced):
                one = TopicPartition(to.topic, partition)
                committed = consumer.committed(one)
                if committed is None:
                    consumer.seek_to_beginning(one)
                else:
                    consumer.seek(one, committed)
                place.unplaced.discard(partition)
        except KafkaError as error:
            journal.refused(repr(error))

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        COOPERATIVE: CooperativeStickyAssignor,
    }
    consumer = KafkaConsumer(
        bootstrap_servers=to.bootstrap,
        group_id=to.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        max_poll_interval_ms=POLL_INTERVAL_MAX_MS,
        max_poll_records=RECORDS_MAX,
        partition_assignment_strategy=[assignors[to.assignor]],
    )
    consumer.subscribe([to.topic], listener=Listener())
    while not stopping.is_set:
        polled = consumer.poll(timeout_ms=POLL_MS)
        # What came with a new assignment came from a position that is not to be trusted.
        records = [
            (one.partition, one.offset)
            for batch in polled.values()
            for one in batch
            if one.partition not in place.unplaced
        ]
        place.saw(records)
        find_positions()
        commit(place.due())
    consumer.close()


async def run_aiokafka(to: Membership, journal: Any, stopping: Stopping) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.errors import KafkaError

    place = Place(journal, to.assignor)

    async def commit(offsets: dict[int, int]) -> None:
        if not offsets:
            return
        asked_ns = time.monotonic_ns()
        try:
            await consumer.commit(
                {TopicPartition(to.topic, partition): offset for partition, offset in offsets.items()}
            )
        except KafkaError as error:
            journal.refused(repr(error))
            place.give_back(offsets)
            return
        journal.committed(asked_ns, offsets)

    class Listener(ConsumerRebalanceListener):
        async def on_partitions_assigned(self, assigned: Any) -> None:
            place.gain(consumer._coordinator.generation, [one.partition for one in assigned])

        async def on_partitions_revoked(self, revoked: Any) -> None:
            await commit(place.uncommitted())
            place.lose(one.partition for one in revoked)

    assignors = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
    consumer = AIOKafkaConsumer(
        bootstrap_servers=to.bootstrap,
        group_id=to.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        max_poll_interval_ms=POLL_INTERVAL_MAX_MS,
        partition_assignment_strategy=[assignors[to.assignor]],
    )
    consumer.subscribe([to.topic], listener=Listener())
    await consumer.start()
    while not stopping.is_set:
        polled = await consumer.getmany(timeout_ms=POLL_MS, max_records=RECORDS_MAX)
        records = [(one.partition, one.offset) for batch in polled.values() for one in batch]
        place.saw(records)
        await commit(place.due())
    await consumer.stop()


def main(client: str, bootstrap: str, group: str, topic: str, assignor: str, path: str) -> None:
    from tests.faults.groups_journal import Writer

    to, journal, stopping = Membership(bootstrap, group, topic, assignor), Writer(path), Stopping()
    if client == "confluent":
        run_confluent(to, journal, stopping)
    elif client == "kafka_python":
        run_kafka_python(to, journal, stopping)
    else:
        asyncio.run(run_aiokafka(to, journal, stopping))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main(*sys.argv[1:])
