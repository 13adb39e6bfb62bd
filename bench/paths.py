"""Paths of jars and results, cores and ports of the benchmarks."""

from __future__ import annotations

import os
import socket
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"

BROKER_CORE = 0
GENERATOR_CORE = 1


def cache() -> Path:
    """Return the directory of downloaded peers, set by `BENCH_CACHE`."""
    if chosen := os.environ.get("BENCH_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "odradek-bench"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
