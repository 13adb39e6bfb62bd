"""One server program: started with a log file and perhaps a core of its own, stopped by its pid."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.meter import Usage, usage

STOP_SECONDS_MAX = 180.0  # ten thousand new segments may have to be synced first
OUTPUT_LINES_SHOWN = 15


class BrokerFailed(RuntimeError):
    """A broker did not start, or died; the message ends with the last lines it wrote."""


class NotAvailable(RuntimeError):
    """A peer cannot be had on this machine; the message says why and goes into the results."""


class ServerProcess:
    """A running program and its output file. `cores` is set before exec: a JVM sizes itself by it."""

    def __init__(
        self,
        command: Sequence[str],
        output: Path,
        cores: frozenset[int] | None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._output = output
        with output.open("ab") as sink:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=None if environment is None else {**os.environ, **environment},
                start_new_session=True,
                preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def usage(self) -> Usage:
        return usage(self.pid)

    def must_live(self) -> None:
        """Raise BrokerFailed with the program's own last words if it has ended."""
        code = self._process.poll()
        if code is not None:
            raise BrokerFailed(f"{self._output.stem} ended with {code}:\n{self.last_words()}")

    def last_words(self) -> str:
        lines = self._output.read_text(errors="replace").splitlines()
        return "\n".join(lines[-OUTPUT_LINES_SHOWN:])

    def stop(self) -> float:
        """Ask it to stop, wait, insist; the seconds it took."""
        began = time.monotonic()
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.kill()
        return time.monotonic() - began

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
