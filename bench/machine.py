"""Facts about the machine, kernel and versions of a run."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import confluent_kafka
import psutil

from bench.paths import ROOT


def facts() -> dict[str, str]:
    return {
        "source": _source(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": str(psutil.cpu_count()),
        "memory_gb": f"{psutil.virtual_memory().total / 1e9:.1f}",
        "python": platform.python_version(),
        "confluent-kafka": str(confluent_kafka.__version__),
        "librdkafka": str(confluent_kafka.libversion()[0]),
        "load_average_at_start": " ".join(f"{load:.2f}" for load in psutil.getloadavg()),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def _source() -> str:
    """Return the measured commit, and whether the tree was dirty."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "not a git checkout"
