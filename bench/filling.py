"""Topics with known contents, and how to make the machine forget them.

A filled partition is a row of equal batches, so that offsets and bytes can be computed from one another.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.harness import Bench
from bench.loads.frames import batch
from bench.loads.values import values
from bench.loads.worker import run_load
from bench.peers.broker import Broker

PROBE_BYTES = 4096


class Filling(NamedTuple):
    """`batches` batches of `records` values of `size` bytes in every partition."""

    partitions: int
    batches: int
    records: int
    size: int

    def batch_bytes(self, seed: int) -> int:
        return len(batch(values(self.records, self.size, seed)))


def fill(bench: Bench, broker: Broker, topic: str, filling: Filling) -> None:
    """Create a topic and fill it; the first request of each connection is one of the batches."""
    broker.create_topic(topic, filling.partitions)
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


def evict(files: Sequence[Path]) -> float:
    """Write files out and drop them from the page cache; the share of them that is still there."""
    still, probed = 0, 0
    for path in files:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            size = os.fstat(handle).st_size
            for position in range(0, size, max(PROBE_BYTES, size // 16)):
                probed += 1
                still += _is_cached(handle, position)
        finally:
            os.close(handle)
    return still / probed if probed else 0.0


def _is_cached(handle: int, position: int) -> bool:
    try:
        return os.preadv(handle, [bytearray(1)], position, os.RWF_NOWAIT) > 0
    except BlockingIOError:
        return False
