"""B1: produce throughput of a broker in MB/s of values.

With librdkafka, as users would; and with prepared requests of 64 records of 1 KB, which cost the client
almost nothing and show the broker's limit. Messages go round robin to the partitions: with 100 of them
librdkafka builds small batches, and the figure is about requests rather than bytes.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from bench.harness import SETTLE_CPU_SECONDS, Bench, Goal, Row, Sample, load_sample
from bench.loads.worker import run_load
from bench.meter import MB
from bench.peers.broker import Broker

CASE = "B1"
SECONDS = 2.0
BYTES_MAX = 2_000 * MB
GOAL = Goal("ratio", "≥", 1.2)
RAW_RECORDS, RAW_SIZE = 64, 1000


class Load(NamedTuple):
    size: int
    partitions: int
    acks: str = "1"
    compression: str = "none"

    def __str__(self) -> str:
        label = f"librdkafka, {self.size} B, {self.partitions} partition{'s' * (self.partitions > 1)}"
        return label if self[2:] == ("1", "none") else f"{label}, acks {self.acks}, {self.compression}"


def run(bench: Bench) -> None:
    with bench.brokers(pinned=True) as sides:
        bench.settle(
            sides, lambda b: _librdkafka(bench, b, Load(100, 100)).cost["cpu_s_per_gb"], SETTLE_CPU_SECONDS
        )
        for load in _loads(bench.full):
            row = Row(CASE, str(load), "MB/s", GOAL)

            def measure(broker: Broker, load: Load = load) -> Sample:
                return _librdkafka(bench, broker, load)

            bench.compare(row, sides.running, measure, missing=sides.missing)
        row = Row(CASE, "prepared 64 KB batches, 1 partition, 5 in flight", "MB/s", GOAL)
        bench.compare(row, sides.running, lambda b: _prepared(bench, b), missing=sides.missing)


def _loads(full: bool) -> list[Load]:
    short = [Load(size, partitions) for size, partitions in product((100, 1000), (1, 100))]
    if not full:
        return short
    long = [
        Load(*parts) for parts in product((100, 1000), (1, 6, 100), ("1", "all"), ("none", "lz4", "zstd"))
    ]
    return short + [load for load in long if load not in short]


def _librdkafka(bench: Bench, broker: Broker, load: Load) -> Sample:
    topic = bench.fresh_name("produce")
    broker.create_topic(topic, load.partitions)
    spec = {
        "bootstrap": broker.bootstrap,
        "broker_pid": broker.pid,
        "topic": topic,
        "partitions": load.partitions,
        "size": load.size,
        "seconds": SECONDS,
        "bytes_max": BYTES_MAX,
        "seed": bench.seed,
        "settings": {"acks": load.acks, "compression.type": load.compression},
    }
    result = run_load("broker.produce", spec)
    broker.delete_topic(topic)
    return load_sample(result["bytes"] / MB / result["seconds"], result, broker, result["bytes"])


def _prepared(bench: Bench, broker: Broker) -> Sample:
    topic = bench.fresh_name("produce")
    broker.create_topic(topic, 1)
    spec = {
        "api": "produce",
        "port": broker.port,
        "broker_pid": broker.pid,
        "topic": topic,
        "partitions": [0],
        "records": RAW_RECORDS,
        "size": RAW_SIZE,
        "seed": bench.seed,
        "in_flight": 5,
        "seconds": SECONDS,
    }
    result = run_load("broker.requests", spec)
    broker.delete_topic(topic)
    moved = result["requests"] * RAW_RECORDS * RAW_SIZE
    return load_sample(moved / MB / result["seconds"], result, broker, moved)
