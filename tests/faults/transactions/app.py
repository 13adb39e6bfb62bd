"""A consume-transform-produce process: ``app.py CLIENT BOOTSTRAP NUMBER PACE``.

It initialises its producer first, which aborts the transaction of an earlier instance; then it reads inputs
from the committed offset, and writes two entries for each, and the offset, in one transaction. Sometimes it
aborts one and reads the same inputs again. Any failure ends it, with status 3 if it was fenced and 4
otherwise; a timeout ends it with 5. SIGTERM ends it between two transactions with status 0. CLIENT is
confluent, kafka_python or aiokafka; NUMBER is its input partition.

The broker is down often and briefly. By default clients reconnect with increasing backoff, up to 10 s
(librdkafka) or 30 s (kafka-python), and librdkafka drops all brokers once none is left, after which offset
commits of a transaction wait for ever. Both is configured otherwise here, because it dominated the run
time.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

ROOT = Path(__file__).resolve().parents[3]
FENCED, FAILED, STUCK = 3, 4, 5
INPUTS = "inputs"
SIZE_MAX = 4
SESSION_MS = 10_000
TRANSACTION_MS = 10_000
POLL_SECONDS = 0.1
STEP_SECONDS_MAX = 15.0
READ_SECONDS_MAX = 30.0
BEGIN_SECONDS_MAX = 25.0
"""Timeout until the first inputs. kafka-python sometimes sends nothing more after a FindCoordinator or
SyncGroup response, if the broker was down meanwhile; only a restart helps."""
RECONNECT_MS_MAX = 300
ABORTED_SHARE = 0.1
FENCING = ("fenced", "invalid_producer_epoch", "invalidproducerepoch")


@dataclass
class Work:
    """Identity and progress of this instance."""

    bootstrap: str
    client: str
    number: int
    pace_seconds: float
    stopping: bool = False
    deadline: float = field(default_factory=lambda: time.monotonic() + BEGIN_SECONDS_MAX)
    _names: Iterator[int] = field(default_factory=itertools.count)
    _rng: random.Random = field(default_factory=lambda: random.Random(os.getpid()))

    @property
    def client_id(self) -> str:
        return f"app-{self.client}"

    @property
    def group(self) -> str:
        return f"group-{self.client}"

    @property
    def aborts(self) -> bool:
        return self._rng.random() < ABORTED_SHARE

    def has_read(self) -> None:
        """Start the timeout of a transaction."""
        self.deadline = time.monotonic() + STEP_SECONDS_MAX

    def has_ended(self) -> None:
        """Start the timeout of the next inputs."""
        self.deadline = time.monotonic() + READ_SECONDS_MAX

    def watch(self) -> None:
        """End the process after a timeout, or when its parent is gone."""
        parent = os.getppid()
        while time.monotonic() < self.deadline and os.getppid() == parent:
            time.sleep(0.1)
        end("a transaction did not end, or no inputs came", STUCK)

    def values(self, offsets: list[int], aborts: bool) -> list[bytes]:
        from tests.faults.transactions.checker import TO_BE_ABORTED, Entry

        name = f"{self.client}-{os.getpid()}-{time.time_ns()}-{next(self._names)}"
        name += TO_BE_ABORTED if aborts else ""
        return [Entry(self.number, offset, name, len(offsets)).value() for offset in offsets]


def run_confluent(work: Work) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition

    common = {
        "bootstrap.servers": work.bootstrap,
        "client.id": work.client_id,
        "reconnect.backoff.max.ms": RECONNECT_MS_MAX,
        "metadata.recovery.strategy": "none",
        "log_level": 2,
    }
    producer = Producer(
        {
            **common,
            "transactional.id": work.group,
            "transaction.timeout.ms": TRANSACTION_MS,
            "linger.ms": 0,
        }
    )
    producer.init_transactions(BEGIN_SECONDS_MAX)
    consumer = Consumer(
        {
            **common,
            "group.id": work.group,
            "group.instance.id": work.client,
            "session.timeout.ms": SESSION_MS,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([f"{INPUTS}-{work.client}"])
    while not work.stopping:
        messages = consumer.consume(SIZE_MAX, POLL_SECONDS)
        for message in messages:
            if message.error() is not None:
                raise RuntimeError(str(message.error()))
        if not messages:
            continue
        work.has_read()
        aborts, topic = work.aborts, cast(str, messages[0].topic())
        offsets = [cast(int, message.offset()) for message in messages]
        producer.begin_transaction()
        for value in work.values(offsets, aborts):
            producer.produce("debits", value, partition=0)
            producer.produce("credits", value, partition=work.number % 2)
        topic_partition = TopicPartition(topic, 0, offsets[-1] + 1)
        producer.send_offsets_to_transaction(
            [topic_partition], consumer.consumer_group_metadata(), STEP_SECONDS_MAX
        )
        if aborts:
            # librdkafka drops a batch without a response, and gives its sequence numbers to the
            # next one of the same epoch: any broker, Kafka too, then rejects that as a duplicate.
            if producer.flush(STEP_SECONDS_MAX):
                raise RuntimeError("entries without an answer before an abort")
            producer.abort_transaction(STEP_SECONDS_MAX)
            consumer.seek(TopicPartition(topic, 0, offsets[0]))
        else:
            producer.commit_transaction(STEP_SECONDS_MAX)
        work.has_ended()
        time.sleep(work.pace_seconds)


def run_kafka_python(work: Work) -> None:
    from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition

    producer = KafkaProducer(
        bootstrap_servers=work.bootstrap,
        client_id=work.client_id,
        reconnect_backoff_max_ms=RECONNECT_MS_MAX,
        transactional_id=work.group,
        transaction_timeout_ms=TRANSACTION_MS,
    )
    producer.init_transactions()
    consumer = KafkaConsumer(
        bootstrap_servers=work.bootstrap,
        client_id=work.client_id,
        reconnect_backoff_max_ms=RECONNECT_MS_MAX,
        group_id=work.group,
        group_instance_id=work.client,
        session_timeout_ms=SESSION_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    consumer.subscribe([f"{INPUTS}-{work.client}"])
    topic_partition = TopicPartition(f"{INPUTS}-{work.client}", 0)
    while not work.stopping:
        polled = consumer.poll(timeout_ms=int(POLL_SECONDS * 1000), max_records=SIZE_MAX)
        records = polled.get(topic_partition, [])
        if not records:
            continue
        work.has_read()
        aborts = work.aborts
        producer.begin_transaction()
        for value in work.values([record.offset for record in records], aborts):
            producer.send("debits", value, partition=0)
            producer.send("credits", value, partition=work.number % 2)
        offsets = {topic_partition: OffsetAndMetadata(records[-1].offset + 1, "", -1)}
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        if aborts:
            producer.abort_transaction()
            consumer.seek(topic_partition, records[0].offset)
        else:
            producer.commit_transaction()
        work.has_ended()
        time.sleep(work.pace_seconds)


async def run_aiokafka(work: Work) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    producer = AIOKafkaProducer(
        bootstrap_servers=work.bootstrap,
        client_id=work.client_id,
        transactional_id=work.group,
        transaction_timeout_ms=TRANSACTION_MS,
    )
    await producer.start()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=work.bootstrap,
        client_id=work.client_id,
        group_id=work.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    topic_partition = TopicPartition(f"{INPUTS}-{work.client}", 0)
    consumer.assign([topic_partition])
    await consumer.start()
    while not work.stopping:
        polled = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000), max_records=SIZE_MAX)
        records = polled.get(topic_partition, [])
        if not records:
            continue
        work.has_read()
        aborts = work.aborts
        await producer.begin_transaction()
        for value in work.values([record.offset for record in records], aborts):
            await producer.send("debits", value, partition=0)
            await producer.send("credits", value, partition=work.number % 2)
        await producer.send_offsets_to_transaction({topic_partition: records[-1].offset + 1}, work.group)
        if aborts:
            await producer.abort_transaction()
            consumer.seek(topic_partition, records[0].offset)
        else:
            await producer.commit_transaction()
        work.has_ended()
        await asyncio.sleep(work.pace_seconds)


def failures_of(client: str) -> type[Exception]:
    """Return the exception type of a client."""
    if client == "confluent":
        from confluent_kafka import KafkaException

        return KafkaException
    if client == "kafka_python":
        from kafka.errors import KafkaError

        return KafkaError
    from aiokafka.errors import KafkaError as AiokafkaError

    return AiokafkaError


def main(client: str, bootstrap: str, number: str, pace: str) -> None:
    work = Work(bootstrap, client, int(number), float(pace))

    def stop(*_: object) -> None:
        work.stopping = True

    signal.signal(signal.SIGTERM, stop)
    threading.Thread(target=work.watch, daemon=True).start()
    try:
        if client == "confluent":
            run_confluent(work)
        elif client == "kafka_python":
            run_kafka_python(work)
        else:
            asyncio.run(run_aiokafka(work))
    except (failures_of(client), RuntimeError, AssertionError) as failure:
        is_fenced = any(word in repr(failure).lower() for word in FENCING)
        end(repr(failure), FENCED if is_fenced else FAILED)
    end("asked to", 0)


def end(reason: str, status: int) -> None:
    """Exit immediately, without client shutdown, as after a kill."""
    print(f"ends: {reason}", file=sys.stderr, flush=True)
    os._exit(status)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main(*sys.argv[1:])
