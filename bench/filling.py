"""Topics with known contents.

A filled partition is a row of equal batches, so that offsets and bytes can be computed from one another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.harness import Bench
from bench.loads.frames import batch
from bench.loads.values import values
from bench.loads.worker import run_load
from bench.peers.broker import Broker


class Filling(NamedTuple):
    """`batches` batches of `records` values of `size` bytes in every partition."""

    partitions: int
    batches: int
    records: int
    size: int

    def batch_bytes(self, seed: int) -> int:
        return len(batch(values(self.records, self.size, seed)))


def fill(
    bench: Bench, broker: Broker, topic: str, filling: Filling, config: Mapping[str, str] | None = None
) -> None:
    """Create a topic and fill it."""
    broker.create_topic(topic, filling.partitions, config)
    fill_further(bench, broker, topic, filling)


def fill_further(bench: Bench, broker: Broker, topic: str, filling: Filling) -> None:
    """Fill a topic that exists; the first request of each connection is one of the batches."""
    spec = {
        "api": "produce",
        "port": broker.port,
        "broker_pid": broker.pid,
        "topic": topic,
        "partitions": list(range(filling.partitions)),
        "records": filling.records,
        "size": filling.size,
        "seed": bench.seed,
        "in_flight": 4,
        "requests": filling.batches - 1,
    }
    run_load("requests", spec, pinned=False)


def log_files(broker: Broker, topic: str) -> Sequence[Path]:
    found = sorted(broker.log_directory.rglob(f"{topic}-*/*.log"))
    if not found:
        raise ConnectionError(f"{broker.name} keeps no segment files of {topic} under its log directory")
    return found
