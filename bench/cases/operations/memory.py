"""O2: resident memory when idle, after 1 GB produced, and per additional partition and connection.

Each round runs a new broker, measured in that order. Memory varies less than time and a round takes long, so
that there are fewer rounds; the JSON has the number. Kafka's figure excludes ZooKeeper.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

from bench.harness import Bench, Goal, Row, Sample
from bench.loads.broker.exchange import connect, send_request
from bench.loads.broker.frames import api_versions
from bench.loads.worker import run_load
from bench.meter import GB, MB
from bench.peers.broker import Broker

CASE = "O2"
PAIRS_MAX = 3
PARTITIONS = 1000
CONNECTIONS = 500
SETTLE_SECONDS = 1.0
KB = 1000


class MemoryFigures(NamedTuple):
    """Figures of one round, in the units of their rows."""

    idle_mb: float
    loaded_mb: float
    partition_kb: float
    connection_kb: float


def run(bench: Bench) -> None:
    rows: list[tuple[Row, Callable[[MemoryFigures], float]]] = [
        (Row(CASE, "RSS idle", "MB", Goal("ratio", "≤", 0.15)), lambda figures: figures.idle_mb),
        (Row(CASE, "RSS after 1 GB", "MB", Goal("ratio", "≤", 0.15)), lambda figures: figures.loaded_mb),
        (Row(CASE, "RSS per partition", "KB", Goal("ours", "≤", 20.0)), lambda figures: figures.partition_kb),
        (Row(CASE, "RSS per connection", "KB", None), lambda figures: figures.connection_kb),
    ]
    with bench.brokers(pinned=False, running=False) as sides:
        first, pick = rows[0]

        def measure(broker: Broker) -> Sample:
            figures = _measure(bench, broker)
            for row, figure in rows[1:]:
                row.samples.setdefault(side_of[id(broker)], []).append(Sample(figure(figures)))
            return Sample(pick(figures))

        side_of = {id(broker): side for side, broker in sides.running.items()}
        pairs = min(bench.pairs, PAIRS_MAX)
        bench.compare(first, sides.running, measure, missing=sides.missing, pairs=pairs, warm_up=False)
    for row, _ in rows[1:]:
        row.not_run.update(first.not_run)
        bench.rows.append(row)


def _measure(bench: Bench, broker: Broker) -> MemoryFigures:
    broker.wipe()
    broker.start()
    idle = _rss(broker)
    _produce(bench, broker)
    loaded = _rss(broker)
    broker.create_topic("partitions", PARTITIONS)
    with_partitions = _rss(broker)
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            send_request(stack.enter_context(connect(broker.port)), api_versions())
        with_connections = _rss(broker)
    broker.stop()
    return MemoryFigures(
        idle / MB,
        loaded / MB,
        (with_partitions - loaded) / PARTITIONS / KB,
        (with_connections - with_partitions) / CONNECTIONS / KB,
    )


def _produce(bench: Bench, broker: Broker) -> None:
    broker.create_topic("loaded", 6)
    spec = {
        "bootstrap": broker.bootstrap,
        "broker_pid": broker.pid,
        "topic": "loaded",
        "partitions": 6,
        "size": 1000,
        "seconds": 120,
        "bytes_max": GB,
        "seed": bench.seed,
        "settings": {},
    }
    run_load("broker.produce", spec, pinned=False)


def _rss(broker: Broker) -> int:
    time.sleep(SETTLE_SECONDS)
    return broker.usage().rss_bytes
