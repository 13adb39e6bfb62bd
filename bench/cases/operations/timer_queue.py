"""O5: timers added and completed per second, in the timing wheel, in heapq and in asyncio's loop.

A million timers, with 1,000 and with 100,000 pending. The last row compares the wheel at both sizes.
"""

from __future__ import annotations

from importlib.util import find_spec

from bench.harness import SUBJECT, Bench, Goal, Row, Sample
from bench.loads.worker import run_load

CASE = "O5"
TIMERS = 1_000_000
PENDING = (1_000, 100_000)
FLAT = 0.8


def run(bench: Bench) -> None:
    missing = {} if find_spec("odradek.timers") else {SUBJECT: "odradek.timers cannot be imported"}
    for pending in PENDING:
        for peer in ("heapq", "call_later"):
            row = Row(CASE, f"{pending:,} pending", "timers/s", Goal("ratio", "≥", 1.0), peer=peer)
            queues = {SUBJECT: ("wheel", pending), peer: (peer, pending)}
            bench.compare(row, queues, lambda q: _measure(bench, *q), missing=missing)
    few, many = PENDING
    row = Row(CASE, f"wheel, {many:,} against {few:,}", "timers/s", Goal("ratio", "≥", FLAT), peer="wheel")
    wheels = {SUBJECT: ("wheel", many), "wheel": ("wheel", few)}
    both = {**missing, **({"wheel": missing[SUBJECT]} if missing else {})}
    bench.compare(row, wheels, lambda q: _measure(bench, *q), missing=both)


def _measure(bench: Bench, queue: str, pending: int) -> Sample:
    spec = {"queue": queue, "pending": pending, "timers": TIMERS, "seed": bench.seed}
    result = run_load("timers", spec)
    return Sample(result["timers"] / result["seconds"], {"seconds": result["seconds"]})
