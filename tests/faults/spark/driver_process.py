"""One process of ``driver.py``, with the JVM and the workers that it starts, and moments to kill it at.

A killed JVM's workers are not waited for: they go on with what they do for a moment, while the next driver
starts. What is left of them in the end, ``end_workers`` ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
from tests.faults.spark.driver import AGAIN, CHECKPOINTS, SINKS

DRIVER_SECONDS_MAX = 300
WORKERS_SECONDS_MAX = 20
STOPPING_SECONDS = 0.1
"""Until all threads of a process have met SIGSTOP."""
SCRIPT = Path(__file__).with_name("driver.py")


class DriverEnded(Exception):
    """The driver ended, or stood still, before anybody killed it."""


class Driver:
    """Started when it is made; killed once."""

    def __init__(self, directory: Path, bootstrap: str, number: int) -> None:
        self._checkpoints = directory / CHECKPOINTS
        self._output = directory / f"driver-{number}.txt"
        self._planned = {sink: self._newest(sink, "offsets") for sink in SINKS}
        self._workers: list[psutil.Process] = []
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, str(SCRIPT), bootstrap, str(directory)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def wait_for_own_plan(self) -> None:
        """Wait until a query has planned a batch that no driver before has planned; others may be behind."""
        self._wait(lambda: any(self._newest(sink, "offsets") > self._planned[sink] for sink in SINKS))

    def wait_for_batches(self, count: int) -> None:
        """Wait until each query has finished so many batches more."""
        wanted = {sink: self.finished(sink) + count for sink in SINKS}
        self._wait(lambda: all(self.finished(sink) >= wanted[sink] for sink in SINKS))

    def stop_between_output_and_note(self, sink: str, mark: Callable[[], int]) -> None:
        """Stop the JVM where this query has written and Spark does not know it.

        ``mark`` tells how much is written. A stopped JVM notes nothing, so the moment is found for sure.
        """
        seen = self.finished(sink)
        written = sys.maxsize

        def look() -> bool:
            nonlocal seen, written
            if self.finished(sink) != seen:
                seen = self.finished(sink)
                written = mark()
            return mark() > written and self._stops_before_note(sink, seen)

        self._wait(look)

    def _stops_before_note(self, sink: str, seen: int) -> bool:
        os.killpg(self._process.pid, signal.SIGSTOP)
        time.sleep(STOPPING_SECONDS)
        if self.finished(sink) == seen:
            return True
        os.killpg(self._process.pid, signal.SIGCONT)
        return False

    def _wait(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DRIVER_SECONDS_MAX
        while not holds():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise DriverEnded(f"status {self._process.poll()}: {self.output()}")
            time.sleep(0.01)

    def finished(self, sink: str) -> int:
        """The newest batch that Spark knows to be finished; -1 if there is none."""
        return self._newest(sink, "commits")

    def unfinished(self) -> list[str]:
        """Queries with a batch that is planned, and not known to be finished."""
        return [sink for sink in SINKS if self._newest(sink, "offsets") > self.finished(sink)]

    def _newest(self, sink: str, folder: str) -> int:
        numbers = [
            int(path.name) for path in (self._checkpoints / sink / folder).glob("*") if path.name.isdigit()
        ]
        return max(numbers, default=-1)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ends_well(self) -> bool:
        """Wait for the end that was asked for."""
        try:
            return self._process.wait(DRIVER_SECONDS_MAX) == 0
        except subprocess.TimeoutExpired:
            return False

    def kill(self) -> None:
        """SIGKILL to the Python driver and its JVM at once."""
        if self.is_alive:
            self._workers = _family(self._process.pid)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def end_workers(self) -> int:
        """Kill workers that still live long after their JVM; how many there were."""
        _, left = psutil.wait_procs(self._workers, WORKERS_SECONDS_MAX)
        for one in left:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        return len(left)

    def again(self) -> Counter[str]:
        """Why queries had to be started again, and how often."""
        lines = self._output.read_text(errors="replace").splitlines()
        return Counter(line.removeprefix(AGAIN) for line in lines if line.startswith(AGAIN))

    def output(self) -> str:
        return self._output.read_text(errors="replace")[-3_000:]


def _family(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
