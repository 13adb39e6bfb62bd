"""One ``driver.py`` process with its JVM and workers, and moments to kill it at.

Workers of a killed JVM are not awaited: they continue for a moment while the next driver starts.
``end_workers`` ends the remaining ones.
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
"""Time for all threads of a process to stop after SIGSTOP."""
SCRIPT = Path(__file__).with_name("driver.py")


class DriverEnded(Exception):
    """Raised when the driver exits or stalls before it is killed."""


class Driver:
    """A driver process; started on creation, killed once."""

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
        """Wait until a query has planned a new batch."""
        self._wait(lambda: any(self._newest(sink, "offsets") > self._planned[sink] for sink in SINKS))

    def wait_for_batches(self, count: int) -> None:
        """Wait until each query has finished ``count`` more batches."""
        wanted = {sink: self.finished(sink) + count for sink in SINKS}
        self._wait(lambda: all(self.finished(sink) >= wanted[sink] for sink in SINKS))

    def stop_between_output_and_note(self, sink: str, mark: Callable[[], int]) -> None:
        """Stop the JVM after this query has written and before Spark has committed the batch.

        ``mark`` returns the written size. A stopped JVM commits nothing, so the moment is certain.
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
        """Return the newest committed batch; -1 if there is none."""
        return self._newest(sink, "commits")

    def unfinished(self) -> list[str]:
        """Return queries with a planned, uncommitted batch."""
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
        """Wait for a requested exit."""
        try:
            return self._process.wait(DRIVER_SECONDS_MAX) == 0
        except subprocess.TimeoutExpired:
            return False

    def kill(self) -> None:
        """Send SIGKILL to the Python driver and its JVM."""
        if self.is_alive:
            self._workers = _family(self._process.pid)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def end_workers(self) -> int:
        """Kill workers that outlived their JVM; return their number."""
        _, left = psutil.wait_procs(self._workers, WORKERS_SECONDS_MAX)
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return len(left)

    def again(self) -> Counter[str]:
        """Return the reasons of query restarts, with counts."""
        lines = self._output.read_text(errors="replace").splitlines()
        return Counter(line.removeprefix(AGAIN) for line in lines if line.startswith(AGAIN))

    def output(self) -> str:
        return self._output.read_text(errors="replace")[-3_000:]


def _family(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
