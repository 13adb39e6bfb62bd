"""Facts about the machine, kernel and versions of a run."""

from __future__ import annotations

import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

import confluent_kafka
import psutil

from bench.interpreter import ask, build, source


def facts() -> dict[str, str]:
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "source": source(Path(__file__).parent),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": str(psutil.cpu_count()),
        "memory_gb": f"{psutil.virtual_memory().total / 1e9:.1f}",
        "python": build(ask(sys.executable)),
        "confluent-kafka": str(confluent_kafka.__version__),
        "librdkafka": str(confluent_kafka.libversion()[0]),
        "load_average_at_start": " ".join(f"{load:.2f}" for load in psutil.getloadavg()),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"
