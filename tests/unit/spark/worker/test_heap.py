"""Freezing of the heap, once per process."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import gc
from odradek.spark.worker.heap import freeze_heap
freeze_heap()
first = gc.get_freeze_count()
later = [[] for _ in range(1000)]
freeze_heap()
print(first > 1_000, gc.get_freeze_count() <= first)
"""


def test_heap_is_frozen_once_per_process() -> None:
    # In a subprocess: freezing this process would affect other tests.
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]
