"""A broker in its own process, started from the command line.

Every broker a test starts is ended by SIGTERM (or killed by the test) and checked: exit status 0, no
traceback in its output.

Two environment variables point the same tests at another broker:

- ``ODRADEK_TEST_BOOTSTRAP=host:port``: use the broker running there. Tests that start, stop or configure
  their own broker are skipped.
- ``ODRADEK_TEST_BROKER="COMMAND"``: start brokers with that command and the arguments PORT DIRECTORY
  [name=value ...]. It runs in the foreground until SIGTERM. Its exit status is not checked.
  ``tests.support.apache_kafka`` is such a command.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.support.raw_connection import broker_answers

START_SECONDS_MAX = 40
STOP_SECONDS_MAX = 20
WORDS_SHOWN = 4_000
"""Characters of a failed broker's output that a failure shows."""

BASE_SETTINGS = {"log.retention.ms": "-1"}
"""Tests write records with old timestamps, which Kafka's default retention of a week would delete. A test's
own settings override this."""

FOREIGN_BOOTSTRAP = os.environ.get("ODRADEK_TEST_BOOTSTRAP")
FOREIGN_COMMAND = os.environ.get("ODRADEK_TEST_BROKER")
IS_FOREIGN = FOREIGN_BOOTSTRAP is not None or FOREIGN_COMMAND is not None
"""True when the tests run against another broker: for the few tests of behaviour specific to ours."""


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Broker:
    """One broker on one port and one data directory; may be restarted."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        if FOREIGN_BOOTSTRAP is not None:
            pytest.skip("starts its own broker, but ODRADEK_TEST_BOOTSTRAP is set")
        self.directory = directory
        self.settings = BASE_SETTINGS | dict(settings or {})
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._output = directory / "output.txt"

    @property
    def bootstrap(self) -> str:
        """Value for ``bootstrap.servers``."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """True while the process is running."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Broker:
        """Start the process and wait until its metadata includes the broker itself."""
        assert not self.is_running
        self.directory.mkdir(parents=True, exist_ok=True)
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.directory
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        while not broker_answers(self.bootstrap):
            if self._process.poll() is not None:
                pytest.fail(f"the broker exited with status {self._process.returncode}:\n{self.output()}")
            if time.monotonic() > deadline:
                self.kill()
                pytest.fail(f"no response from the broker after {START_SECONDS_MAX} s:\n{self.output()}")
            time.sleep(0.05)
        return self

    def terminate(self) -> None:
        """Send SIGTERM without waiting."""
        os.kill(self.pid, signal.SIGTERM)

    def stop(self) -> None:
        """Send SIGTERM, wait for the exit, and check that it was clean."""
        if self._process is None:
            return
        if self.is_running:
            self.terminate()
        self.wait()

    def wait(self) -> None:
        """Wait for a requested exit, and check that it was clean."""
        assert self._process is not None
        try:
            status = self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"still running {STOP_SECONDS_MAX} s after SIGTERM:\n{self.output()}")
        self._process = None
        if FOREIGN_COMMAND is None:
            assert status == 0, f"the broker exited with status {status}:\n{self.output()}"
        self.check_output()

    def wait_for_failed_exit(self) -> tuple[int, str]:
        """Wait for an exit that was not requested; return exit status and output."""
        assert self._process is not None
        status = self._process.wait(STOP_SECONDS_MAX)
        self._process = None
        self.check_output()
        return status, self.output()

    def kill(self) -> None:
        """Send SIGKILL and wait."""
        self.kill_if_running()
        self.check_output()

    def kill_if_running(self) -> None:
        """Send SIGKILL without checking the output, after a failed test."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def run_to_exit(self, within_seconds: float = 30) -> tuple[int, str]:
        """Run a broker that is expected to fail at startup; return exit status and output."""
        done = subprocess.run(
            self._command(), capture_output=True, timeout=within_seconds, cwd=self.directory, check=False
        )
        return done.returncode, (done.stdout + done.stderr).decode(errors="replace")

    def traceback(self) -> str | None:
        """Return the first traceback in the output, if any."""
        said = self._output.read_text(errors="replace")
        position = said.find("Traceback")
        return None if position < 0 else said[max(0, position - 300) : position + WORDS_SHOWN]

    def traceback_counts(self) -> Counter[str]:
        """Count tracebacks by their last line in our code and their error."""
        kinds: Counter[str] = Counter()
        for piece in self._output.read_text(errors="replace").split("Traceback (most recent call last):")[1:]:
            locations = re.findall(r'/odradek/(\S+\.py)", line (\d+)', piece)
            error = re.search(r"^(?:\w+\.)*\w+(?:Error|Exception|Exit|Group)\b.*$", piece, re.MULTILINE)
            location = ":".join(locations[-1]) if locations else "?"
            kinds[f"{location}  {re.sub(r'-?[0-9]+', 'N', error.group()[:120]) if error else '?'}"] += 1
        return kinds

    def check_output(self) -> None:
        """Fail if the broker printed a traceback."""
        if FOREIGN_COMMAND is None:
            assert self.traceback() is None, self.traceback()

    def output(self) -> str:
        """Return the end of the broker's output."""
        return self._output.read_text(errors="replace")[-WORDS_SHOWN:]

    def _command(self) -> list[str]:
        pairs = [f"{name}={value}" for name, value in self.settings.items()]
        logs = self.directory / "data"
        if FOREIGN_COMMAND is not None:
            return [*shlex.split(FOREIGN_COMMAND), str(self.port), str(logs), *pairs]
        command = [str(Path(sys.executable).with_name("odradek")), "serve"]
        for pair in (f"listeners=PLAINTEXT://{self.bootstrap}", f"log.dirs={logs}", *pairs):
            command += ["--set", pair]
        return command


class ExternalBroker:
    """The broker of ``ODRADEK_TEST_BOOTSTRAP``, which tests neither start nor stop."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.port = int(bootstrap.rpartition(":")[2])

    def output(self) -> str:
        """Return a placeholder: the output is not accessible."""
        return f"(running elsewhere: {self.bootstrap})"


SessionBroker = Broker | ExternalBroker
