"""A server process with an output file and optional CPU affinity."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.meter import Usage, usage

STOP_SECONDS_MAX = 180.0  # ten thousand new segments may have to be flushed first
OUTPUT_LINES_SHOWN = 15


class BrokerFailed(RuntimeError):
    """Raised when a broker does not start, or dies; the message ends with its last output."""


class NotAvailable(RuntimeError):
    """Raised when a peer is not available on this machine; the reason goes into the results."""


class ServerProcess:
    """A running process and its output file. Affinity is set before exec: a JVM sizes itself by it."""

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
        """Raise BrokerFailed with the last output if the process has exited."""
        code = self._process.poll()
        if code is not None:
            raise BrokerFailed(f"{self._output.stem} exited with {code}:\n{self.last_output()}")

    def exit_status(self) -> int | None:
        return self._process.poll()

    def wait(self, seconds_max: float) -> None:
        """Wait for a process that ends by itself."""
        try:
            self._process.wait(seconds_max)
        except subprocess.TimeoutExpired as error:
            raise BrokerFailed(f"{self._output.stem} did not end in {seconds_max:.0f} s") from error

    def last_output(self) -> str:
        lines = self._output.read_text(errors="replace").splitlines()
        return "\n".join(lines[-OUTPUT_LINES_SHOWN:])

    def stop(self) -> float:
        """Terminate the process, kill it after a timeout; return the seconds."""
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
