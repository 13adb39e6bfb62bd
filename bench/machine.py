"""What a figure was taken on: machine, kernel, versions."""

from __future__ import annotations

import platform
from pathlib import Path

import confluent_kafka
import psutil


def facts() -> dict[str, str]:
    return {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": str(psutil.cpu_count()),
        "memory_gb": f"{psutil.virtual_memory().total / 1e9:.1f}",
        "python": platform.python_version(),
        "confluent-kafka": confluent_kafka.__version__,
        "librdkafka": str(confluent_kafka.libversion()[0]),
        "load_average_at_start": " ".join(f"{load:.2f}" for load in psutil.getloadavg()),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"
