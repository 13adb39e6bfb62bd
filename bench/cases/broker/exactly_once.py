"""B6: cost of idempotence and transactions: throughput with them ÷ throughput without, on the same broker.

librdkafka, 1 KB, 6 partitions, acks all; a transaction is committed every 100 ms. Every sample is a ratio of
four runs: plain, other, other, plain, because a run is slowed by the write-back of the previous one. The
plain producer has at most 5 requests in flight, librdkafka's limit for the others, so that the ratio shows
the cost of exactly once and not of the smaller window. The last row uses prepared requests, each of which the
broker must check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from bench.harness import SETTLE_CPU_SECONDS, Bench, Goal, Row, Sample, load_sample
from bench.loads.worker import run_load
from bench.meter import MB
from bench.peers.broker import Broker

CASE = "B6"
SECONDS = 2.0
BYTES_MAX = 2_000 * MB
PARTITIONS = 6
SIZE = 1000
COMMIT_SECONDS = 0.1
PREPARED, PREPARED_RECORDS = 6_000, 64
PLAIN: Mapping[str, str] = {"acks": "all", "max.in.flight": "5"}


class Load(NamedTuple):
    label: str
    settings: Mapping[str, str]
    commit_seconds: float | None
    goal: Goal


LOADS = (
    Load("idempotent ÷ plain", {"enable.idempotence": "true"}, None, Goal("ours", "≥", 0.95)),
    Load(
        "transactional ÷ plain, commit each 100 ms",
        {"transactional.id": "bench"},
        COMMIT_SECONDS,
        Goal("ours", "≥", 0.85),
    ),
)


def run(bench: Bench) -> None:
    with bench.brokers(pinned=True) as sides:
        bench.settle(
            sides, lambda b: _produce(bench, b, PLAIN, None).cost["cpu_s_per_gb"], SETTLE_CPU_SECONDS
        )
        for load in LOADS:
            row = Row(CASE, load.label, "", load.goal)

            def measure(broker: Broker, load: Load = load) -> Sample:
                return _relative_to_plain(
                    lambda: _produce(bench, broker, PLAIN, None),
                    lambda: _produce(bench, broker, {**PLAIN, **load.settings}, load.commit_seconds),
                )

            bench.compare(row, sides.running, measure, missing=sides.missing)
        row = Row(CASE, "idempotent ÷ plain, prepared 64 KB batches, 5 in flight", "", LOADS[0].goal)
        bench.compare(row, sides.running, lambda b: _prepared_ratio(bench, b), missing=sides.missing)


def _prepared_ratio(bench: Bench, broker: Broker) -> Sample:
    """Measure the broker's cost of idempotence; the client does the same work both times."""
    return _relative_to_plain(
        lambda: _prepared(bench, broker, producers=0), lambda: _prepared(bench, broker, producers=1)
    )


def _relative_to_plain(run_plain: Callable[[], Sample], run_other: Callable[[], Sample]) -> Sample:
    """Return the ratio of two loads, each run once before and once after the other."""
    plain, other, again, last = run_plain(), run_other(), run_other(), run_plain()
    ratio = (other.value + again.value) / (plain.value + last.value)
    return Sample(ratio, {**other.cost, **_plain_cost(plain)})


def _prepared(bench: Bench, broker: Broker, producers: int) -> Sample:
    topic = bench.fresh_name("once")
    broker.create_topic(topic, 1)
    spec = {
        "api": "batches",
        "port": broker.port,
        "broker_pid": broker.pid,
        "topic": topic,
        "partitions": [0],
        "producers": producers,
        "batch": 0,
        "rounds": PREPARED,
        "records": PREPARED_RECORDS,
        "size": SIZE,
        "seed": bench.seed,
        "in_flight": 5,
        "requests": PREPARED,
    }
    result = run_load("broker.requests", spec)
    broker.delete_topic(topic)
    moved = result["requests"] * PREPARED_RECORDS * SIZE
    return load_sample(moved / MB / result["seconds"], result, broker, moved)


def _plain_cost(plain: Sample) -> dict[str, float]:
    """Return throughput and CPU of the plain load; CPU is least affected by other programs."""
    return {"plain_mb_s": plain.value, "plain_cpu_s_per_gb": plain.cost["cpu_s_per_gb"]}


def _produce(
    bench: Bench, broker: Broker, settings: Mapping[str, str], commit_seconds: float | None
) -> Sample:
    topic = bench.fresh_name("once")
    broker.create_topic(topic, PARTITIONS)
    spec: dict[str, Any] = {
        "bootstrap": broker.bootstrap,
        "broker_pid": broker.pid,
        "topic": topic,
        "partitions": PARTITIONS,
        "size": SIZE,
        "seconds": SECONDS,
        "bytes_max": BYTES_MAX,
        "seed": bench.seed,
        "settings": dict(settings),
    }
    if commit_seconds is not None:
        spec["commit_seconds"] = commit_seconds
    result = run_load("broker.produce", spec)
    broker.delete_topic(topic)
    return load_sample(result["bytes"] / MB / result["seconds"], result, broker, result["bytes"])
