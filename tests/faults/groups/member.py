"""One consumer process: ``member.py CLIENT BOOTSTRAP GROUP TOPIC ASSIGNOR JOURNAL``.

It reads, writes its journal, then commits; revoked partitions are committed first. On SIGTERM it leaves the
group. CLIENT is confluent, kafka_python or aiokafka.
"""

from __future__ import annotations

import asyncio
import logging
import re
import signal
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
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
    """SIGTERM handling."""

    def __init__(self) -> None:
        self.is_set = False
        signal.signal(signal.SIGTERM, self._set)

    def _set(self, *_: object) -> None:
        self.is_set = True


class Place:
    """Owned partitions, and the offsets to commit."""

    def __init__(self, journal: Any) -> None:
        self._journal = journal
        self.generation = -1
        self._given_ns: dict[int, int] = {}
        """Time of assignment by partition."""
        self._next: dict[int, int] = {}
        self._due = time.monotonic() + COMMIT_SECONDS
        self.unplaced: set[int] = set()
        """Partitions assigned and not yet read from."""

    def gain(self, generation: int, partitions: Iterable[int], *, is_more: bool = False) -> None:
        """Add assigned partitions, or replace the owned ones."""
        given = dict.fromkeys(partitions, time.monotonic_ns())
        self._given_ns = self._given_ns | given if is_more else given
        self._drop(given)
        self.generation = generation
        self.unplaced |= set(given)
        self._journal.owned(generation, self._given_ns)

    def lose(self, partitions: Iterable[int]) -> None:
        gone = set(partitions)
        for partition in gone:
            self._given_ns.pop(partition, None)
        self._drop(gone)
        self.unplaced -= gone
        self._journal.freed(gone)

    def _drop(self, partitions: Collection[int]) -> None:
        self._next = {partition: at for partition, at in self._next.items() if partition not in partitions}

    def saw(self, records: Sequence[tuple[int, int]]) -> None:
        if records:
            self._journal.seen(records)
            self._next |= {partition: offset + 1 for partition, offset in records}

    def uncommitted(self) -> dict[int, int]:
        """Return the uncommitted offsets."""
        self._due = time.monotonic() + COMMIT_SECONDS
        taken, self._next = self._next, {}
        return taken

    def due(self) -> dict[int, int]:
        return self.uncommitted() if time.monotonic() >= self._due else {}

    def give_back(self, offsets: dict[int, int], asked_ns: int) -> None:
        """Retry a failed commit, except for partitions revoked or reassigned since."""
        kept = {
            partition: offset
            for partition, offset in offsets.items()
            if self._given_ns.get(partition, asked_ns) < asked_ns
        }
        self._next = kept | self._next


class Generations(logging.Handler):
    """The generation joined by librdkafka, which only its log has."""

    TOLD = re.compile(r"JoinGroup response: GenerationId (\d+),")

    def __init__(self) -> None:
        super().__init__()
        self.newest = -1

    def emit(self, record: logging.LogRecord) -> None:
        if found := self.TOLD.search(record.getMessage()):
            self.newest = int(found.group(1))


def run_confluent(to: Membership, journal: Any, stopping: Stopping) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    place, generations = Place(journal), Generations()
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
            place.give_back(offsets, asked_ns)
            return
        journal.committed(asked_ns, {one.partition: one.offset for one in done if one.error is None})

    def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
        is_more = to.assignor == COOPERATIVE
        place.gain(generations.newest, [partition.partition for partition in partitions], is_more=is_more)

    def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
        commit(place.uncommitted())
        place.lose(partition.partition for partition in partitions)

    def lost(_: Consumer, partitions: list[TopicPartition]) -> None:
        place.lose(partition.partition for partition in partitions)

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
        records = [(message.partition(), message.offset()) for message in messages if message.error() is None]
        place.saw(records)
        commit(place.due())
    consumer.close()


class KafkaPython:
    """A kafka-python consumer that resets its positions itself.

    The client does so only for partitions it did not own before. A partition that is assigned to it again
    some generations later continues at its old position, whatever others have committed meanwhile
    (kafka-python 3.0, with any broker). So in a new generation all partitions are treated as newly
    assigned.
    """

    def __init__(self, to: Membership, journal: Any) -> None:
        from kafka import ConsumerRebalanceListener, KafkaConsumer
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
        from kafka.coordinator.assignors.range import RangePartitionAssignor
        from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

        assignors = {
            "range": RangePartitionAssignor,
            "roundrobin": RoundRobinPartitionAssignor,
            COOPERATIVE: CooperativeStickyAssignor,
        }
        place = Place(journal)

        class Listener(ConsumerRebalanceListener):
            def on_partitions_assigned(self, assigned: Any) -> None:
                """Not called if the member owned all of them before."""

            def on_partitions_revoked(self, revoked: Any) -> None:
                # This client cannot commit here; the next owner reads the last records again.
                place.lose(one.partition for one in revoked)

        self._topic = to.topic
        self._journal = journal
        self._place = place
        self._consumer = KafkaConsumer(
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
        self._consumer.subscribe([to.topic], listener=Listener())

    def run(self, stopping: Stopping) -> None:
        while not stopping.is_set:
            polled = self._poll()
            self._look_around()
            records = [(one.partition, one.offset) for batch in polled.values() for one in batch]
            # Records polled with a new assignment may be from an outdated position.
            self._place.saw([record for record in records if record[0] not in self._place.unplaced])
            self._find_positions()
            self._commit(self._place.due())
        self._consumer.close()

    def _poll(self) -> dict[Any, list[Any]]:
        """Return nothing while the broker is down, as other clients do."""
        from kafka.errors import KafkaConnectionError

        try:
            polled: dict[Any, list[Any]] = self._consumer.poll(timeout_ms=POLL_MS)
        except KafkaConnectionError as error:
            self._journal.refused(repr(error))
            time.sleep(POLL_MS / 1000)
            return {}
        return polled

    def _look_around(self) -> None:
        from kafka.structs import MemberState

        known = self._consumer.group_metadata()
        if known.state == MemberState.STABLE and known.generation_id != self._place.generation:
            owned = [one.partition for one in self._consumer.assignment()]
            self._place.gain(known.generation_id, owned)

    def _find_positions(self) -> None:
        from kafka import TopicPartition
        from kafka.errors import KafkaError

        try:
            for partition in sorted(self._place.unplaced):
                one = TopicPartition(self._topic, partition)
                committed = self._consumer.committed(one)
                if committed is None:
                    self._consumer.seek_to_beginning(one)
                else:
                    self._consumer.seek(one, committed)
                self._place.unplaced.discard(partition)
        except KafkaError as error:
            self._journal.refused(repr(error))

    def _commit(self, offsets: dict[int, int]) -> None:
        from kafka import OffsetAndMetadata, TopicPartition
        from kafka.errors import KafkaError

        if not offsets:
            return
        asked_ns = time.monotonic_ns()
        wanted = {
            TopicPartition(self._topic, partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        try:
            self._consumer.commit(wanted)
        except KafkaError as error:
            self._journal.refused(repr(error))
            self._place.give_back(offsets, asked_ns)
            return
        self._journal.committed(asked_ns, offsets)


async def run_aiokafka(to: Membership, journal: Any, stopping: Stopping) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.errors import KafkaError
    from tests.support.aiokafka_consumer import stop_consumer

    place = Place(journal)

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
            place.give_back(offsets, asked_ns)
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
    await stop_consumer(consumer)


def main(client: str, bootstrap: str, group: str, topic: str, assignor: str, path: str) -> None:
    from tests.faults.groups.journal import Writer

    to, journal, stopping = Membership(bootstrap, group, topic, assignor), Writer(path), Stopping()
    if client == "confluent":
        run_confluent(to, journal, stopping)
    elif client == "kafka_python":
        KafkaPython(to, journal).run(stopping)
    else:
        asyncio.run(run_aiokafka(to, journal, stopping))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main(*sys.argv[1:])
