"""B7: end-to-end latency of records while other consumers read old data from disk.

200 records of 100 B per second on one topic, one consumer waiting at its end: age of each record on arrival,
from when it was due. First alone, then while 12 connections read another topic that was evicted from the page
cache; a round where eviction failed is not counted. Nothing is pinned. Kafka reads cold data in its network
threads, 3 by default, which also serve the tail. The effect depends on the disk: with 1 MB per ms there is
little to wait for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from bench.fixtures.topic_fill import TopicFill, fill, log_files
from bench.harness import Bench, Goal, Row, Sample, load_sample
from bench.loads.worker import run_load
from bench.meter import MB
from bench.peers.broker import Broker

CASE = "B7"
COLD, TAIL = "cold", "tail"
CONTENT = TopicFill(partitions=12, batches=1500, records=64, size=1000)
FULL_CONTENT = CONTENT._replace(batches=6000)
CHUNK_BATCHES = 15  # just under 1 MB of whole batches
RATE = 200
SECONDS = 4.0
HEAD_SECONDS = 1.0  # lead and trail of the cold reader
SHARES = ("p50", "p99", "max")
GOALS = {"p99": Goal("ratio", "≤", 0.7)}  # with a cold reader


class Round(NamedTuple):
    """Results of the generators of one round on one side."""

    alone: dict[str, Any]
    beside: dict[str, Any]
    cold: dict[str, Any]


def run(bench: Bench) -> None:
    content = FULL_CONTENT if bench.full else CONTENT
    rows = _rows()
    with bench.brokers(pinned=False) as sides:
        for broker in sides.running.values():
            fill(bench, broker, COLD, content)
            broker.create_topic(TAIL, 1)
        side_of = {id(broker): side for side, broker in sides.running.items()}

        def measure(broker: Broker) -> Sample:
            done = _round(bench, broker, content)
            samples = [figure(done, broker) for _, figure in rows]
            if not warming.pop(id(broker), False):
                for (row, _), sample in zip(rows[1:], samples[1:], strict=True):
                    row.samples.setdefault(side_of[id(broker)], []).append(sample)
            return samples[0]

        warming = dict.fromkeys(side_of, True)
        first = bench.compare(rows[0][0], sides.running, measure, missing=sides.missing)
    for row, _ in rows[1:]:
        row.not_run.update(first.not_run)
        bench.rows.append(row)


def _rows() -> list[tuple[Row, Callable[[Round, Broker], Sample]]]:
    rows: list[tuple[Row, Callable[[Round, Broker], Sample]]] = []
    for share in SHARES:
        row = Row(CASE, f"tail alone, {share}", "ms", None)
        rows.append((row, partial(_alone, name=share)))
    for share in SHARES:
        row = Row(CASE, f"tail beside a cold reader, {share}", "ms", GOALS.get(share))
        rows.append((row, partial(_beside, name=share)))
    row = Row(CASE, "the cold reader", "MB/s", None)
    rows.append((row, lambda done, _: Sample(done.cold["bytes"] / MB / done.cold["seconds"])))
    return rows


def _alone(done: Round, broker: Broker, name: str) -> Sample:
    return load_sample(done.alone[name], done.alone, broker)


def _beside(done: Round, broker: Broker, name: str) -> Sample:
    """Return a sample without the share of other programs, which would include the cold reader."""
    sample = load_sample(done.beside[name], done.beside, broker)
    del sample.cost["others_share"]
    return sample


def _round(bench: Bench, broker: Broker, content: TopicFill) -> Round:
    alone = _tail(bench, broker)
    with ThreadPoolExecutor(1) as waiting:
        cold = waiting.submit(_read_cold, bench, broker, content)
        time.sleep(HEAD_SECONDS)
        beside = _tail(bench, broker)
        return Round(alone, beside, cold.result())


def _tail(bench: Bench, broker: Broker) -> dict[str, Any]:
    spec = {
        "port": broker.port,
        "broker_pid": broker.pid,
        "topic": TAIL,
        "rate": RATE,
        "seconds": SECONDS,
        "size": 100,
        "seed": bench.seed,
    }
    return run_load("broker.tail", spec, pinned=False)


def _read_cold(bench: Bench, broker: Broker, content: TopicFill) -> dict[str, Any]:
    step = CHUNK_BATCHES * content.records
    spec = {
        "port": broker.port,
        "topic": COLD,
        "files": [str(path) for path in log_files(broker, COLD)],
        "partitions": list(range(content.partitions)),
        "offsets": list(range(0, content.batches * content.records, step)),
        "bytes_max": CHUNK_BATCHES * content.batch_bytes(bench.seed),
        "seconds": SECONDS + 2 * HEAD_SECONDS,
    }
    return run_load("broker.cold_read", spec, pinned=False)
