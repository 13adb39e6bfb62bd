"""H1: broker CPU µs per request under full load.

Four connections with five requests in flight each saturate the broker's core. A produce has one batch of one
record; a fetch returns one such batch. The cost per fetched MB comes from fetching 1 MB instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bench.fixtures.topic_fill import TopicFill, fill
from bench.harness import SETTLE_CPU_SECONDS, Bench, Goal, Row, Sample, load_sample
from bench.loads.worker import run_load
from bench.meter import MB
from bench.peers.broker import Broker

CASE = "H1"
SECONDS = 2.0
CONNECTIONS = 4
SMALL = TopicFill(partitions=CONNECTIONS, batches=10, records=1, size=100)
LARGE = TopicFill(partitions=CONNECTIONS, batches=150, records=64, size=1000)
LARGE_BATCHES = 15
GOAL = Goal("ours", "≤", 25.0)


def run(bench: Bench) -> None:
    with bench.brokers(pinned=True) as sides:
        for broker in sides.running.values():
            fill(bench, broker, "small", SMALL)
            fill(bench, broker, "large", LARGE)
        for load, unit, goal, measure in (
            ("produce of one batch, 100 B", "CPU µs/request", GOAL, _produce),
            ("fetch of one partition, 100 B", "CPU µs/request", GOAL, _fetch),
            ("fetch, each further MB", "CPU µs/MB", None, _copy),
        ):
            sample = partial(measure, bench)
            bench.settle(sides, _value_of(sample), SETTLE_CPU_SECONDS)
            row = Row(CASE, load, unit, goal)
            bench.compare(row, sides.running, sample, missing=sides.missing)


def _value_of(measure: Callable[[Broker], Sample]) -> Callable[[Broker], float]:
    return lambda broker: measure(broker).value


def _produce(bench: Bench, broker: Broker) -> Sample:
    topic = bench.fresh_name("hot")
    broker.create_topic(topic, CONNECTIONS)
    sample = _saturate(bench, broker, {"api": "produce", "topic": topic, "records": 1, "size": 100})
    broker.delete_topic(topic)
    return sample


def _fetch(bench: Bench, broker: Broker) -> Sample:
    return _saturate(bench, broker, {"api": "fetch", "topic": "small", "offsets": [0], "bytes_max": 1})


def _copy(bench: Bench, broker: Broker) -> Sample:
    step = LARGE_BATCHES * LARGE.records
    bytes_max = LARGE_BATCHES * LARGE.batch_bytes(bench.seed)
    offsets = list(range(0, LARGE.batches * LARGE.records, step))
    small = _fetch(bench, broker)
    large = _saturate(
        bench, broker, {"api": "fetch", "topic": "large", "offsets": offsets, "bytes_max": bytes_max}
    )
    return Sample((large.value - small.value) / (bytes_max / MB), large.cost)


def _saturate(bench: Bench, broker: Broker, part: dict[str, object]) -> Sample:
    spec = {
        "port": broker.port,
        "broker_pid": broker.pid,
        "partitions": list(range(CONNECTIONS)),
        "seed": bench.seed,
        "in_flight": 5,
        "seconds": SECONDS,
        **part,
    }
    result = run_load("broker.requests", spec)
    return load_sample(result["broker_cpu_seconds"] / result["requests"] * 1e6, result, broker)
