"""What is loaded is kept out of the search for garbage, once in each process."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import gc
from odradek.spark.worker.heap import settle
settle()
first = gc.get_freeze_count()
later = [[] for _ in range(1000)]
settle()
print(first > 1_000, gc.get_freeze_count() <= first)
"""


def test_a_process_settles_once() -> None:
    # In a process of its own: this one's garbage is nobody else's to freeze.
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]
