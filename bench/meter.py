"""CPU seconds of the broker, of the generator and of other programs during a measurement.

The generator itself reads a `Meter`, at the first and the last byte of its timed part, so that interpreter
start and frame construction are not counted. The kernel counts process time in ticks of 10 ms: measurements
must be much longer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

MB = 1_000_000
GB = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Usage:
    """Resource usage of a process tree."""

    cpu_seconds: float
    rss_bytes: int
    rss_peak_bytes: int
    threads: int


@dataclass(frozen=True, slots=True)
class Cost:
    """Time and CPU between `Meter.start` and `Meter.stop`."""

    seconds: float
    broker_cpu_seconds: float
    generator_cpu_seconds: float
    others_cpu_seconds: float

    def as_result(self) -> dict[str, float]:
        return {
            "seconds": self.seconds,
            "broker_cpu_seconds": self.broker_cpu_seconds,
            "generator_cpu_seconds": self.generator_cpu_seconds,
            "others_cpu_seconds": self.others_cpu_seconds,
        }


def usage(pid: int) -> Usage:
    """Return CPU and memory of a process and its descendants."""
    cpu_seconds, rss, peak, threads = 0.0, 0, 0, 0
    for process in _tree(pid):
        try:
            times = process.cpu_times()
            cpu_seconds += times.user + times.system
            rss += process.memory_info().rss
            peak += _rss_peak_bytes(process.pid)
            threads += process.num_threads()
        except psutil.NoSuchProcess:
            continue
    return Usage(cpu_seconds, rss, peak, threads)


def pss_bytes(pid: int) -> int:
    """Return the proportional set size: pages that processes share count once, divided among them."""
    with open(f"/proc/{pid}/smaps_rollup") as rollup:
        return next(int(line.split()[1]) * 1024 for line in rollup if line.startswith("Pss:"))


def tree_cpu_seconds(pid: int) -> float:
    """Return the CPU of a process and its descendants, including ended ones that were waited for."""
    spent = 0.0
    for process in _tree(pid):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        spent += times.user + times.system + times.children_user + times.children_system
    return spent


def _tree(pid: int) -> list[psutil.Process]:
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def _rss_peak_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def _machine_cpu_seconds() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)


class Meter:
    """Measures CPU of one or several brokers, of this process (or its tree) and of the machine."""

    def __init__(self, broker_pids: int | Sequence[int] | None, *, with_children: bool = False) -> None:
        self._broker_pids = (broker_pids,) if isinstance(broker_pids, int) else broker_pids or ()
        self._with_children = with_children
        self._before = (0.0, 0.0, 0.0, 0.0)

    def start(self) -> None:
        self._before = self._read()

    def stop(self) -> Cost:
        now, broker, own, machine = (b - a for a, b in zip(self._before, self._read(), strict=True))
        return Cost(now, broker, own, max(0.0, machine - broker - own))

    def _read(self) -> tuple[float, float, float, float]:
        broker = sum(usage(pid).cpu_seconds for pid in self._broker_pids)
        own = tree_cpu_seconds(os.getpid()) if self._with_children else time.process_time()
        return time.perf_counter(), broker, own, _machine_cpu_seconds()
