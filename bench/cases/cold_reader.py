"""B7: how long a record takes from producer to consumer while someone else reads old data from the disk.

200 records of 100 B a second on one topic, one consumer waiting at its end: the age of each record when it
arrives, from the moment it was due. First alone, then while 12 connections read another topic that was
dropped from the page cache; a round in which it would not go is not counted. Nothing is pinned. Kafka reads
cold data in its network threads, 3 by default, which serve the tail too. How much that shows depends on the
disk: on one that gives 1 MB in 1 ms there is little to wait for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from bench.filling import Filling, fill, log_files
from bench.harness import Bench, Goal, Row, Sample, load_sample
from bench.loads.worker import run_load
from bench.meter import MB
from bench.peers.broker import Broker

CASE = "B7"
COLD, TAIL = "cold", "tail"
FILLING = Filling(partitions=12, batches=1500, records=64, size=1000)
FULL_FILLING = FILLING._replace(batches=6000)
CHUNK_BATCHES = 15  # just under 1 MB of whole batches
RATE = 200
SECONDS = 4.0
HEAD_SECONDS = 1.0  # the cold reader begins so much earlier, and ends so much later
SHARES = ("p50", "p99", "max")
GOALS = {"p99": Goal("ratio", "≤", 0.7)}  # beside the cold reader


class Round(NamedTuple):
    """What the generators reported of one round on one side."""

    alone: dict[str, Any]
    beside: dict[str, Any]
    cold: dict[str, Any]


def run(bench: Bench) -> None:
    filling = FULL_FILLING if bench.full else FILLING
    rows = _rows()
    with bench.brokers(pinned=False) as sides:
        for broker in sides.running.values():
            fill(bench, broker, COLD, filling)
            broker.create_topic(TAIL, 1)
        side_of = {id(broker): side for side, broker in sides.running.items()}

        def measure(broker: Broker) -> Sample:
            done = _round(bench, broker, filling)
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
        rows.append((row, lambda done, b, name=share: load_sample(done.alone[name], done.alone, b)))
    for share in SHARES:
        row = Row(CASE, f"tail beside a cold reader, {share}", "ms", GOALS.get(share))
        rows.append((row, lambda done, b, name=share: _beside(done, b, name)))
    row = Row(CASE, "the cold reader", "MB/s", None)
    rows.append((row, lambda done, _: Sample(done.cold["bytes"] / MB / done.cold["seconds"])))
    return rows


def _beside(done: Round, broker: Broker, name: str) -> Sample:
    """Without the share of other programs: the cold reader itself would be one of them."""
    sample = load_sample(done.beside[name], done.beside, broker)
    del sample.cost["others_share"]
    return sample


def _round(bench: Bench, broker: Broker, filling: Filling) -> Round:
    alone = _tail(bench, broker)
    with ThreadPoolExecutor(1) as waiting:
        cold = waiting.submit(_read_cold, bench, broker, filling)
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
    return run_load("tail", spec, pinned=False)


def _read_cold(bench: Bench, broker: Broker, filling: Filling) -> dict[str, Any]:
    step = CHUNK_BATCHES * filling.records
    spec = {
        "port": broker.port,
        "topic": COLD,
        "files": [str(path) for path in log_files(broker, COLD)],
        "partitions": list(range(filling.partitions)),
        "offsets": list(range(0, filling.batches * filling.records, step)),
        "bytes_max": CHUNK_BATCHES * filling.batch_bytes(bench.seed),
        "seconds": SECONDS + 2 * HEAD_SECONDS,
    }
    return run_load("cold_read", spec, pinned=False)
