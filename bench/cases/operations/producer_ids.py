"""G3: cost of a produce as the partition's producer ids grow from 10 to 10,000.

One partition, one connection, one request in flight: one record per idempotent producer in turn, then again
with the next sequence. The figure is the round trip; the last row compares ours with the most and the fewest
producers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from bench.growth import growth
from bench.harness import Bench, Goal, Row, Sample, load_sample
from bench.loads.worker import run_load
from bench.peers.broker import Broker

CASE = "G3"
PRODUCERS = (10, 100, 1000, 10_000)
REQUESTS = 10_000  # per measurement: every producer writes at least once
VALUE_BYTES = 100
FLAT = Goal("ratio", "≤", 1.5)


def run(bench: Bench) -> None:
    rows: list[Row] = []
    with bench.brokers(pinned=True) as sides:
        for count in PRODUCERS:
            topic = bench.fresh_name("producers")
            written: Counter[str] = Counter()
            for broker in sides.running.values():
                broker.create_topic(topic, 1)

            def measure(
                broker: Broker, topic: str = topic, count: int = count, written: Counter[str] = written
            ) -> Sample:
                return _measure(bench, broker, topic, count, written)

            def cpu_us(broker: Broker, measure: Callable[[Broker], Sample] = measure) -> float:
                return measure(broker).cost["cpu_us"]

            if not rows:
                bench.settle(sides, cpu_us)
            row = Row(CASE, f"produce, {count:,} producers", "µs", None)
            rows.append(bench.compare(row, sides.running, measure, missing=sides.missing))
    load = f"produce, {PRODUCERS[-1]:,} producers ÷ {PRODUCERS[0]}"
    bench.rows.append(growth(load, rows[0], rows[-1], FLAT))


def _measure(bench: Bench, broker: Broker, topic: str, count: int, written: Counter[str]) -> Sample:
    """Measure one round; ``written`` counts the records per producer and broker."""
    rounds = REQUESTS // count
    spec = {
        "api": "batches",
        "port": broker.port,
        "broker_pid": broker.pid,
        "topic": topic,
        "partitions": [0],
        "producers": count,
        "batch": written[broker.bootstrap],
        "rounds": rounds,
        "records": 1,
        "size": VALUE_BYTES,
        "seed": bench.seed,
        "in_flight": 1,
        "requests": REQUESTS,
    }
    result = run_load("broker.requests", spec)
    written[broker.bootstrap] += rounds
    sample = load_sample(result["seconds"] / result["requests"] * 1e6, result, broker)
    sample.cost["cpu_us"] = result["broker_cpu_seconds"] / result["requests"] * 1e6
    return sample
