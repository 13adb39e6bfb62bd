"""Our clients during broker restarts: alternately kill -9 and SIGTERM, while they send, transact and read.

Producers with a long delivery timeout get every record acknowledged; one with a short timeout fails some,
and continues with a new epoch. One producer is transactional, and is sometimes fenced. A group reads
committed records, with members that leave and join. At the end the log is read by another client, and the
history checked.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic
from tests.faults.clients.actors import TOPIC, Actor, Reader, Sender, Transactor
from tests.faults.clients.checker import check_history, never_polled
from tests.faults.clients.history import ConsumerPart, History, Log, ProducerPart
from tests.faults.fault_report import FaultReport
from tests.support.broker import Broker

PARTITIONS = 3
READERS = 2
LOAD_SECONDS_MAX = 1.5
AWAY_SECONDS_MAX = 0.5
END_SECONDS_MAX = 150
LEVELS = ("read_uncommitted", "read_committed")
IMPATIENT = {"delivery_timeout_ms": 600, "request_timeout_ms": 300}
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "log.segment.bytes": "262144"}


def play(directory: Path, kills: int, seed: int) -> FaultReport:
    """Restart a broker under load ``kills`` times."""
    report = FaultReport("restarts under our clients", seed)
    rng = random.Random(seed)
    broker = Broker(directory, SETTINGS).start()
    history = History()
    try:
        _create(broker.bootstrap)
        producers, readers = _cast(broker.bootstrap, history, rng)
        for client in (*producers, *readers):
            client.start()
        for number in range(kills):
            time.sleep(0.2 + rng.random() * LOAD_SECONDS_MAX)
            (broker.kill if number % 3 else broker.stop)()
            report.faults += 1
            time.sleep(rng.random() * AWAY_SECONDS_MAX)
            broker.start()
        time.sleep(LOAD_SECONDS_MAX)
        _wait_for(lambda: all(_has_written(part) for part in history.producers))
        _end(producers, report)
        written, committed = (_log(broker.bootstrap, level) for level in LEVELS)
        _wait_for(lambda: not list(never_polled(history, committed)))
        _end(readers, report)
    finally:
        if broker.is_running:
            broker.kill_if_running()
    for violation in check_history(history, written, committed):
        report.violate(violation)
    _count(report, history, written, committed)
    return report


def _create(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)


def _cast(bootstrap: str, history: History, rng: random.Random) -> tuple[list[Actor], list[Reader]]:
    """Create the actors, and their parts of the history."""
    names = ("patient", "other", "impatient", "transactor")
    history.producers = [ProducerPart(name) for name in names]
    history.consumers = [ConsumerPart(f"reader{number}") for number in range(READERS)]
    patient, other, impatient, transactor = history.producers

    def own() -> random.Random:
        return random.Random(rng.random())

    producers: list[Actor] = [
        Sender(bootstrap, patient, PARTITIONS, own()),
        Sender(bootstrap, other, PARTITIONS, own(), compression_type="lz4"),
        Sender(bootstrap, impatient, PARTITIONS, own(), **IMPATIENT),
        Transactor(bootstrap, transactor, PARTITIONS, own()),
    ]
    return producers, [Reader(bootstrap, part, own()) for part in history.consumers]


def _end(actors: list[Actor] | list[Reader], report: FaultReport) -> None:
    for actor in actors:
        actor.stop()
    for actor in actors:
        actor.join(END_SECONDS_MAX)
        report.check(not actor.is_alive(), f"{actor.name} has not come to its end")


def _wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + END_SECONDS_MAX
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)


def _log(bootstrap: str, isolation_level: str) -> Log:
    """Read the log with another client."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "judge",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation_level,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    records: dict[int, list[tuple[int, str]]] = {number: [] for number in range(PARTITIONS)}
    at_end: set[int] = set()
    deadline = time.monotonic() + END_SECONDS_MAX
    while len(at_end) < PARTITIONS and time.monotonic() < deadline:
        for message in consumer.consume(500, 1.0):
            partition = cast(int, message.partition())
            if message.error() is None:
                offset, value = cast(int, message.offset()), cast(bytes, message.value())
                records[partition].append((offset, value.decode()))
            else:
                at_end.add(partition)
    consumer.close()
    return records


def _count(report: FaultReport, history: History, written: Log, committed: Log) -> None:
    sends = [send for producer in history.producers for send in producer.sends]
    report.acknowledged = sum(1 for send in sends if send.offset >= 0)
    report.outcomes["records sent"] = len(sends)
    report.outcomes["records given up"] = sum(1 for send in sends if send.error)
    report.outcomes["records in the log"] = sum(map(len, written.values()))
    report.outcomes["records committed"] = sum(map(len, committed.values()))
    for outcome in ("committed", "aborted", "unknown"):
        report.outcomes[f"transactions {outcome}"] = sum(
            1
            for producer in history.producers
            for transaction in producer.transactions
            if transaction.outcome == outcome
        )
    report.outcomes["records polled"] = sum(len(consumer.events) for consumer in history.consumers)
    report.outcomes["commits of readers"] = sum(consumer.commits for consumer in history.consumers)
    for producer in history.producers:
        report.check(_has_written(producer), f"{producer.name} wrote nothing")


def _has_written(producer: ProducerPart) -> bool:
    return any(send.offset >= 0 for send in producer.sends)
