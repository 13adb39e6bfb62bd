"""C1: records per second sent by a Python program, with our producer and with others.

One broker, ours (`BROKER=kafka`: Apache Kafka), on core 0; the program with all threads of its client on core
1. acks=all and idempotence on all sides, no compression, no keys, no delivery callbacks. Rows have each
client's own settings, or batches of 1 MB and a linger of 5 ms for all. Our blocking `send` is compared with
the blocking clients, the asyncio one with aiokafka; `send_many` and `send_arrow`, with thousands of records
per call, with confluent-kafka's one call per record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bench.client_comparison import client_sample, compare_clients, one_broker
from bench.harness import Bench, Goal, Sample
from bench.loads.worker import run_load
from bench.meter import MB
from bench.peers.broker import Broker

CASE = "C1"
SECONDS = 4.0
RECORDS_MAX = 10_000_000
BYTES_MAX = 1_500 * MB
SIZES = (10, 100, 1000, 10_000)
GOALS = {
    ("send", "confluent-kafka"): Goal("ratio", "≥", 2),
    ("send", "kafka-python"): Goal("ratio", "≥", 15),
    ("aio send", "aiokafka"): Goal("ratio", "≥", 6),
}
GOAL_SIZE = 100


class Load(NamedTuple):
    ours: str
    peers: tuple[str, ...]
    size: int
    partitions: int = 6
    equal: bool = False

    def __str__(self) -> str:
        partitions = "1 partition" if self.partitions == 1 else f"{self.partitions} partitions"
        return f"{self.ours}, {self.size} B, {partitions}, {'equal' if self.equal else 'own'} settings"


def run(bench: Bench) -> None:
    with one_broker(bench, CASE) as broker:
        if broker is None:
            return
        for load in _loads(bench.full):
            goals = {peer: GOALS.get((load.ours, peer)) for peer in load.peers if load.size == GOAL_SIZE}

            def measure(client: str, load: Load = load, broker: Broker = broker) -> Sample:
                return _measure(bench, broker, load, client)

            compare_clients(bench, CASE, str(load), load.ours, load.peers, goals, measure)


def _loads(full: bool) -> Iterator[Load]:
    blocking, asyncio_clients = ("confluent-kafka", "kafka-python"), ("aiokafka",)
    for size in SIZES:
        for equal in (False, True) if full or size == GOAL_SIZE else (False,):
            yield Load("send", blocking, size, equal=equal)
            yield Load("aio send", asyncio_clients, size, equal=equal)
    for size in SIZES if full else (GOAL_SIZE,):
        for ours in ("send_many", "send_arrow"):
            yield Load(ours, blocking[:1], size, equal=True)
    for size in SIZES if full else (GOAL_SIZE,):
        yield Load("send", blocking, size, partitions=1, equal=True)


def _measure(bench: Bench, broker: Broker, load: Load, client: str) -> Sample:
    topic = bench.fresh_name("client-produce")
    broker.create_topic(topic, load.partitions)
    spec = {
        "client": client,
        "bootstrap": broker.bootstrap,
        "broker_pid": broker.pid,
        "topic": topic,
        "partitions": load.partitions,
        "size": load.size,
        "equal": load.equal,
        "seconds": SECONDS,
        "records_max": RECORDS_MAX,
        "bytes_max": BYTES_MAX,
        "seed": bench.seed,
    }
    try:
        result = run_load("client.produce", spec)
    finally:
        broker.delete_topic(topic)
    return client_sample(result, broker)
