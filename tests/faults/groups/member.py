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
from typing import Any, cast

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


class OwnedPartitions:
    """Owned partitions, and the offsets to commit."""

    def __init__(self, journal: Any) -> None:
        self._journal = journal
        self.generation = -1
        self._assigned_ns: dict[int, int] = {}
        """Time of assignment by partition."""
        self._next: dict[int, int] = {}
        self._due = time.monotonic() + COMMIT_SECONDS
        self.unpositioned: set[int] = set()
        """Partitions assigned and not yet read from."""

    def assign(self, generation: int, partitions: Iterable[int], *, is_more: bool = False) -> None:
        """Add assigned partitions, or replace the owned ones."""
        assigned_ns = dict.fromkeys(partitions, time.monotonic_ns())
        self._assigned_ns = self._assigned_ns | assigned_ns if is_more else assigned_ns
        self._drop(assigned_ns)
        self.generation = generation
        self.unpositioned |= set(assigned_ns)
        self._journal.owned(generation, self._assigned_ns)

    def revoke(self, partitions: Iterable[int]) -> None:
        revoked = set(partitions)
        for partition in revoked:
            self._assigned_ns.pop(partition, None)
        self._drop(revoked)
        self.unpositioned -= revoked
        self._journal.freed(revoked)

    def _drop(self, partitions: Collection[int]) -> None:
        self._next = {partition: at for partition, at in self._next.items() if partition not in partitions}

    def add_processed(self, records: Sequence[tuple[int, int]]) -> None:
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

    def retry_commit(self, offsets: dict[int, int], asked_ns: int) -> None:
        """Retry a failed commit, except for partitions revoked or reassigned since."""
        retried = {
            partition: offset
            for partition, offset in offsets.items()
            if self._assigned_ns.get(partition, asked_ns) < asked_ns
        }
        self._next = retried | self._next


class Generations(logging.Handler):
    """The generation joined by librdkafka, which only its log has."""

    JOINED = re.compile(r"JoinGroup response: GenerationId (\d+),")

    def __init__(self) -> None:
        super().__init__()
        self.newest = -1

    def emit(self, record: logging.LogRecord) -> None:
        if match := self.JOINED.search(record.getMessage()):
            self.newest = int(match.group(1))


def run_confluent(membership: Membership, journal: Any, stopping: Stopping) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    owned_partitions, generations = OwnedPartitions(journal), Generations()
    log = logging.Logger("librdkafka", logging.DEBUG)
    log.addHandler(generations)

    def commit(offsets: dict[int, int]) -> None:
        if not offsets:
            return
        asked_ns = time.monotonic_ns()
        offsets_to_commit = [
            TopicPartition(membership.topic, partition, offset) for partition, offset in offsets.items()
        ]
        try:
            done = consumer.commit(offsets=offsets_to_commit, asynchronous=False)
        except KafkaException as error:
            journal.refused(repr(error))
            owned_partitions.retry_commit(offsets, asked_ns)
            return
        journal.committed(
            asked_ns, {offset.partition: offset.offset for offset in done if offset.error is None}
        )

    def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
        is_more = membership.assignor == COOPERATIVE
        owned_partitions.assign(
            generations.newest, [partition.partition for partition in partitions], is_more=is_more
        )

    def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
        commit(owned_partitions.uncommitted())
        owned_partitions.revoke(partition.partition for partition in partitions)

    def lost(_: Consumer, partitions: list[TopicPartition]) -> None:
        owned_partitions.revoke(partition.partition for partition in partitions)

    settings: dict[str, Any] = {
        "bootstrap.servers": membership.bootstrap,
        "group.id": membership.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "max.poll.interval.ms": POLL_INTERVAL_MAX_MS,
        "partition.assignment.strategy": membership.assignor,
        "reconnect.backoff.max.ms": 500,
        "debug": "cgrp",
    }
    consumer = Consumer(settings, logger=log)
    consumer.subscribe([membership.topic], on_assign=assigned, on_revoke=revoked, on_lost=lost)
    while not stopping.is_set:
        messages = consumer.consume(RECORDS_MAX, POLL_MS / 1000)
        records = [
            (cast(int, message.partition()), cast(int, message.offset()))
            for message in messages
            if message.error() is None
        ]
        owned_partitions.add_processed(records)
        commit(owned_partitions.due())
    consumer.close()


class KafkaPython:
    """A kafka-python consumer that resets its positions itself.

    The client does so only for partitions it did not own before. A partition that is assigned to it again
    some generations later continues at its old position, whatever others have committed meanwhile
    (kafka-python 3.0, with any broker). So in a new generation all partitions are treated as newly
    assigned.
    """

    def __init__(self, membership: Membership, journal: Any) -> None:
        from kafka import ConsumerRebalanceListener, KafkaConsumer
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
        from kafka.coordinator.assignors.range import RangePartitionAssignor
        from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

        assignors = {
            "range": RangePartitionAssignor,
            "roundrobin": RoundRobinPartitionAssignor,
            COOPERATIVE: CooperativeStickyAssignor,
        }
        owned_partitions = OwnedPartitions(journal)

        class Listener(ConsumerRebalanceListener):
            def on_partitions_assigned(self, assigned: Any) -> None:
                """Not called if the member owned all of them before."""

            def on_partitions_revoked(self, revoked: Any) -> None:
                # This client cannot commit here; the next owner reads the last records again.
                owned_partitions.revoke(partition.partition for partition in revoked)

        self._topic = membership.topic
        self._journal = journal
        self._owned_partitions = owned_partitions
        self._consumer = KafkaConsumer(
            bootstrap_servers=membership.bootstrap,
            group_id=membership.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            max_poll_interval_ms=POLL_INTERVAL_MAX_MS,
            max_poll_records=RECORDS_MAX,
            partition_assignment_strategy=[assignors[membership.assignor]],
        )
        self._consumer.subscribe([membership.topic], listener=Listener())

    def run(self, stopping: Stopping) -> None:
        while not stopping.is_set:
            polled = self._poll()
            self._check_generation()
            records = [(record.partition, record.offset) for batch in polled.values() for record in batch]
            # Records polled with a new assignment may be from an outdated position.
            self._owned_partitions.add_processed(
                [record for record in records if record[0] not in self._owned_partitions.unpositioned]
            )
            self._find_positions()
            self._commit(self._owned_partitions.due())
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

    def _check_generation(self) -> None:
        from kafka.structs import MemberState

        metadata = self._consumer.group_metadata()
        if (
            metadata.state == MemberState.STABLE
            and metadata.generation_id != self._owned_partitions.generation
        ):
            owned = [partition.partition for partition in self._consumer.assignment()]
            self._owned_partitions.assign(metadata.generation_id, owned)

    def _find_positions(self) -> None:
        from kafka import TopicPartition
        from kafka.errors import KafkaError

        try:
            for partition in sorted(self._owned_partitions.unpositioned):
                topic_partition = TopicPartition(self._topic, partition)
                committed = self._consumer.committed(topic_partition)
                if committed is None:
                    self._consumer.seek_to_beginning(topic_partition)
                else:
                    self._consumer.seek(topic_partition, committed)
                self._owned_partitions.unpositioned.discard(partition)
        except KafkaError as error:
            self._journal.refused(repr(error))

    def _commit(self, offsets: dict[int, int]) -> None:
        from kafka import OffsetAndMetadata, TopicPartition
        from kafka.errors import KafkaError

        if not offsets:
            return
        asked_ns = time.monotonic_ns()
        offsets_to_commit = {
            TopicPartition(self._topic, partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        try:
            self._consumer.commit(offsets_to_commit)
        except KafkaError as error:
            self._journal.refused(repr(error))
            self._owned_partitions.retry_commit(offsets, asked_ns)
            return
        self._journal.committed(asked_ns, offsets)


async def run_aiokafka(membership: Membership, journal: Any, stopping: Stopping) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.errors import KafkaError
    from tests.support.aiokafka_consumer import stop_consumer

    owned_partitions = OwnedPartitions(journal)

    async def commit(offsets: dict[int, int]) -> None:
        if not offsets:
            return
        asked_ns = time.monotonic_ns()
        try:
            await consumer.commit(
                {TopicPartition(membership.topic, partition): offset for partition, offset in offsets.items()}
            )
        except KafkaError as error:
            journal.refused(repr(error))
            owned_partitions.retry_commit(offsets, asked_ns)
            return
        journal.committed(asked_ns, offsets)

    class Listener(ConsumerRebalanceListener):
        async def on_partitions_assigned(self, assigned: Any) -> None:
            owned_partitions.assign(
                consumer._coordinator.generation, [partition.partition for partition in assigned]
            )

        async def on_partitions_revoked(self, revoked: Any) -> None:
            await commit(owned_partitions.uncommitted())
            owned_partitions.revoke(partition.partition for partition in revoked)

    assignors = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
    consumer = AIOKafkaConsumer(
        bootstrap_servers=membership.bootstrap,
        group_id=membership.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        max_poll_interval_ms=POLL_INTERVAL_MAX_MS,
        partition_assignment_strategy=[assignors[membership.assignor]],
    )
    consumer.subscribe([membership.topic], listener=Listener())
    await consumer.start()
    while not stopping.is_set:
        polled = await consumer.getmany(timeout_ms=POLL_MS, max_records=RECORDS_MAX)
        records = [(record.partition, record.offset) for batch in polled.values() for record in batch]
        owned_partitions.add_processed(records)
        await commit(owned_partitions.due())
    await stop_consumer(consumer)


def main(client: str, bootstrap: str, group: str, topic: str, assignor: str, path: str) -> None:
    from tests.faults.groups.journal import Writer

    membership, journal, stopping = Membership(bootstrap, group, topic, assignor), Writer(path), Stopping()
    if client == "confluent":
        run_confluent(membership, journal, stopping)
    elif client == "kafka_python":
        KafkaPython(membership, journal).run(stopping)
    else:
        asyncio.run(run_aiokafka(membership, journal, stopping))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main(*sys.argv[1:])
