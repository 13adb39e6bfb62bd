"""C2: records per second read by a Python program, with our consumer and with others.

One broker, ours (`BROKER=kafka`: Apache Kafka), on core 0; the program with all threads of its client on core
1. The topic is in the page cache. Every client returns up to 10,000 records at once and each is read; rows
with 500 have Kafka's default. `poll_arrow` returns columns of up to 100,000 rows, compared with
confluent-kafka's `consume(10000)`. CRC checks are as in each client's defaults: off in confluent-kafka, on in
the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bench.client_comparison import client_sample, compare_clients, one_broker
from bench.fixtures.topic_fill import TopicFill, fill
from bench.harness import Bench, Goal, Sample
from bench.loads.worker import run_load
from bench.peers.broker import Broker

CASE = "C2"
SECONDS = 5.0
PARTITIONS = 6
# Batches of about 16 KB, the producers' default; fewer records as they get larger.
CONTENTS = {
    10: TopicFill(PARTITIONS, batches=800, records=1000, size=10),
    100: TopicFill(PARTITIONS, batches=5000, records=150, size=100),
    1000: TopicFill(PARTITIONS, batches=9000, records=16, size=1000),
    10_000: TopicFill(PARTITIONS, batches=9000, records=2, size=10_000),
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
        for size, content in CONTENTS.items():
            fill(bench, broker, _topic(size), content)
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
    content = CONTENTS[load.size]
    spec = {
        "client": client,
        "bootstrap": broker.bootstrap,
        "broker_pid": broker.pid,
        "topic": _topic(load.size),
        "partitions": PARTITIONS,
        "records": PARTITIONS * content.batches * content.records,
        "size": load.size,
        "at_once": load.at_once,
        "seconds": SECONDS,
    }
    result = run_load("client.consume", spec)
    return client_sample(result, broker)
