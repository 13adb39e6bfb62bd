"""O2: resident memory when idle, after 1 GB produced, and for each partition and connection more.

Each round is one life of a broker, measured in that order. Memory varies less than time and a life takes
long, so there are fewer rounds here; the JSON says how many. Kafka's figure leaves ZooKeeper out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

from bench.harness import Bench, Goal, Row, Sample
from bench.loads.exchange import ask, connect
from bench.loads.frames import api_versions
from bench.loads.worker import run_load
from bench.meter import GB, MB
from bench.peers.broker import Broker

CASE = "O2"
PAIRS_MAX = 3
PARTITIONS = 1000
CONNECTIONS = 500
SETTLE_SECONDS = 1.0
KB = 1000


class Life(NamedTuple):
    """The figures of one life, in the units of their rows."""

    idle_mb: float
    loaded_mb: float
    partition_kb: float
    connection_kb: float


def run(bench: Bench) -> None:
    rows: list[tuple[Row, Callable[[Life], float]]] = [
        (Row(CASE, "RSS idle", "MB", Goal("ratio", "≤", 0.15)), lambda life: life.idle_mb),
        (Row(CASE, "RSS after 1 GB", "MB", Goal("ratio", "≤", 0.15)), lambda life: life.loaded_mb),
        (Row(CASE, "RSS per partition", "KB", Goal("ours", "≤", 20.0)), lambda life: life.partition_kb),
        (Row(CASE, "RSS per connection", "KB", None), lambda life: life.connection_kb),
    ]
    with bench.brokers(pinned=False, running=False) as sides:
        first, pick = rows[0]

        def live(broker: Broker) -> Sample:
            life = _live(bench, broker)
            for row, figure in rows[1:]:
                row.samples.setdefault(side_of[id(broker)], []).append(Sample(figure(life)))
            return Sample(pick(life))

        side_of = {id(broker): side for side, broker in sides.running.items()}
        pairs = min(bench.pairs, PAIRS_MAX)
        bench.compare(first, sides.running, live, missing=sides.missing, pairs=pairs, warm_up=False)
    for row, _ in rows[1:]:
        row.not_run.update(first.not_run)
        bench.rows.append(row)


def _live(bench: Bench, broker: Broker) -> Life:
    broker.wipe()
    broker.start()
    idle = _rss(broker)
    _produce(bench, broker)
    loaded = _rss(broker)
    broker.create_topic("partitions", PARTITIONS)
    with_partitions = _rss(broker)
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            ask(stack.enter_context(connect(broker.port)), api_versions())
        with_connections = _rss(broker)
    broker.stop()
    return Life(
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
    run_load("produce", spec, pinned=False)


def _rss(broker: Broker) -> int:
    time.sleep(SETTLE_SECONDS)
    return broker.usage().rss_bytes
