"""B3: broker CPU seconds to produce and fetch 1 GB with librdkafka, 1 KB values, 6 partitions.

The load with three replicas is listed as not run until Odradek replicates.
"""

from __future__ import annotations

from bench.harness import Bench, Goal, Row, Sample
from bench.loads.worker import run_load
from bench.meter import GB, MB
from bench.peers.broker import Broker

CASE = "B3"
BYTES = 500 * MB
PARTITIONS = 6
SIZE = 1000
GOAL = Goal("ratio", "≤", 0.8)


def run(bench: Bench) -> None:
    with bench.brokers(pinned=True) as sides:
        bench.settle(sides, lambda b: _measure(bench, b).value)
        row = Row(CASE, "librdkafka, 1 KB, 6 partitions, in + out", "CPU s/GB", GOAL)
        bench.compare(row, sides.running, lambda b: _measure(bench, b), missing=sides.missing)
    reason = "no replication between brokers yet"
    bench.rows.append(Row(CASE, "RF 3 on one host", "CPU s/GB", GOAL, not_run={"both": reason}))


def _measure(bench: Bench, broker: Broker) -> Sample:
    topic = bench.fresh_name("cost")
    broker.create_topic(topic, PARTITIONS)
    spec = {
        "bootstrap": broker.bootstrap,
        "broker_pid": broker.pid,
        "topic": topic,
        "partitions": PARTITIONS,
        "size": SIZE,
        "seed": bench.seed,
        "settings": {},
    }
    into = run_load("broker.produce", {**spec, "seconds": 60, "bytes_max": BYTES})
    out = run_load("broker.consume", spec)
    broker.delete_topic(topic)
    cpu_in = into["broker_cpu_seconds"] / (into["bytes"] / GB)
    cpu_out = out["broker_cpu_seconds"] / (out["bytes"] / GB)
    peak = broker.usage().rss_peak_bytes / MB
    return Sample(cpu_in + cpu_out, {"in": cpu_in, "out": cpu_out, "rss_peak_mb": peak})
