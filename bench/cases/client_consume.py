"""C2: how many records a second a Python program can read, with our consumer and with the others.

One broker, ours (`BROKER=kafka`: Apache Kafka), on core 0; the program with its client, whatever threads that
has, on core 1. The topic is in the page cache. Every client gives up to 10,000 records at once and each is
looked at; rows with 500 have Kafka's own bound. `poll_arrow` gives columns, up to 100,000 rows, and is held
against confluent-kafka's `consume(10000)`. Each client checks checksums or not as it does by default:
confluent-kafka does not, the others do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bench.clients import client_sample, compare_clients, one_broker
from bench.filling import Filling, fill
from bench.harness import Bench, Goal, Sample
from bench.loads.worker import run_load
from bench.peers.broker import Broker

CASE = "C2"
SECONDS = 5.0
PARTITIONS = 6
# Batches of about 16 KB, as producers write them by default; the larger the records the fewer of them.
FILLINGS = {
    10: Filling(PARTITIONS, batches=800, records=1000, size=10),
    100: Filling(PARTITIONS, batches=5000, records=150, size=100),
    1000: Filling(PARTITIONS, batches=9000, records=16, size=1000),
    10_000: Filling(PARTITIONS, batches=9000, records=2, size=10_000),
}
GOALS = {
    ("poll", "confluent-kafka"): Goal("ratio", "≥", 1.5),
    ("poll", "kafka-python"): Goal("ratio", "≥", 8),
    ("aio poll", "aiokafka"): Goal("ratio", "≥", 3),
    ("poll_arrow", "confluent-kafka"): Goal("ratio", "≥", 4),
}
GOAL_SIZE = 100


class Load(NamedTuple):
    ours: str
    peers: tuple[str, ...]
    size: int
    at_once: int = 10_000

    def __str__(self) -> str:
        return f"{self.ours}, {self.size} B, {self.at_once:,} at once"


def run(bench: Bench) -> None:
    with one_broker(bench, CASE) as broker:
        if broker is None:
            return
        for size, filling in FILLINGS.items():
            fill(bench, broker, _topic(size), filling)
            for load in _loads(size, bench.full):
                goals = {peer: GOALS.get((load.ours, peer)) for peer in load.peers if size == GOAL_SIZE}

                def measure(client: str, load: Load = load, broker: Broker = broker) -> Sample:
                    return _measure(broker, load, client)

                compare_clients(bench, CASE, str(load), load.ours, load.peers, goals, measure)
            broker.delete_topic(_topic(size))


def _loads(size: int, full: bool) -> Iterator[Load]:
    yield Load("poll", ("confluent-kafka", "kafka-python"), size)
    yield Load("aio poll", ("aiokafka",), size)
    yield Load("poll_arrow", ("confluent-kafka",), size)
    if full or size == GOAL_SIZE:
        yield Load("poll", ("confluent-kafka", "confluent-kafka poll", "kafka-python"), size, at_once=500)
        yield Load("aio poll", ("aiokafka",), size, at_once=500)


def _topic(size: int) -> str:
    return f"client-consume-{size}"


def _measure(broker: Broker, load: Load, client: str) -> Sample:
    filling = FILLINGS[load.size]
    spec = {
        "client": client,
        "bootstrap": broker.bootstrap,
        "broker_pid": broker.pid,
        "topic": _topic(load.size),
        "partitions": PARTITIONS,
        "records": PARTITIONS * filling.batches * filling.records,
        "size": load.size,
        "at_once": load.at_once,
        "seconds": SECONDS,
    }
    result = run_load("client_consume", spec)
    return client_sample(result, broker)
