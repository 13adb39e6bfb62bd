"""A broker in a process of its own, started and stopped the way people do it.

Every broker a test starts ends by SIGTERM (or by a test's own kill) of the process id that was started, and
is checked when it ends: exit status 0, no traceback among its words.

Two environment variables point the same tests at another broker:

- ``ODRADEK_TEST_BOOTSTRAP=host:port``: use the broker that is running there. Tests that need to start, stop
  or configure their own are then skipped.
- ``ODRADEK_TEST_BROKER="words of a command"``: start brokers with that command and PORT DIRECTORY
  [name=value ...], which stays in the foreground until SIGTERM. Its exit status is not checked.
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
"""How many characters of a failed broker's output a failure shows."""

BASE_SETTINGS = {"log.retention.ms": "-1"}
"""Tests write records of fixed days long past: with Kafka's week a broker would delete them whenever its
round of retention comes by. Everything else is as by default; a test's own settings stand above."""

FOREIGN_BOOTSTRAP = os.environ.get("ODRADEK_TEST_BOOTSTRAP")
FOREIGN_COMMAND = os.environ.get("ODRADEK_TEST_BROKER")
IS_FOREIGN = FOREIGN_BOOTSTRAP is not None or FOREIGN_COMMAND is not None
"""True when the tests run against somebody else's broker: for the few places where ours promises more."""


def free_port() -> int:
    """A port nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Broker:
    """One broker on one port and one data directory; may be started again after it ended."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        if FOREIGN_BOOTSTRAP is not None:
            pytest.skip("needs to start its own broker, but ODRADEK_TEST_BOOTSTRAP names a running one")
        self.directory = directory
        self.settings = BASE_SETTINGS | dict(settings or {})
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._output = directory / "output.txt"

    @property
    def bootstrap(self) -> str:
        """What clients call ``bootstrap.servers``."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """True while the process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Broker:
        """Start the process and wait until it answers and knows itself."""
        assert not self.is_running
        self.directory.mkdir(parents=True, exist_ok=True)
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.directory
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        while not broker_answers(self.bootstrap):
            if self._process.poll() is not None:
                pytest.fail(f"the broker ended with status {self._process.returncode}:\n{self.output()}")
            if time.monotonic() > deadline:
                self.kill()
                pytest.fail(f"no answer from the broker after {START_SECONDS_MAX} s:\n{self.output()}")
            time.sleep(0.05)
        return self

    def terminate(self) -> None:
        """Send SIGTERM and return at once."""
        os.kill(self.pid, signal.SIGTERM)

    def stop(self) -> None:
        """SIGTERM, wait for the end, and check that it was a clean one."""
        if self._process is None:
            return
        if self.is_running:
            self.terminate()
        self.wait()

    def wait(self) -> None:
        """Wait for an end that was asked for, and check that it was a clean one."""
        assert self._process is not None
        try:
            status = self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"still running {STOP_SECONDS_MAX} s after SIGTERM:\n{self.output()}")
        self._process = None
        if FOREIGN_COMMAND is None:
            assert status == 0, f"the broker ended with status {status}:\n{self.output()}"
        self.check_output()

    def wait_for_failed_exit(self) -> tuple[int, str]:
        """Wait for an end nobody asked for: exit status and what it printed."""
        assert self._process is not None
        status = self._process.wait(STOP_SECONDS_MAX)
        self._process = None
        self.check_output()
        return status, self.output()

    def kill(self) -> None:
        """SIGKILL: the process ends between any two instructions."""
        self.kill_if_running()
        self.check_output()

    def kill_if_running(self) -> None:
        """SIGKILL without a look at the broker's words, for a test that has failed already."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def run_to_exit(self, within_seconds: float = 30) -> tuple[int, str]:
        """Run the broker where it is expected not to start: exit status and what it printed."""
        done = subprocess.run(
            self._command(), capture_output=True, timeout=within_seconds, cwd=self.directory, check=False
        )
        return done.returncode, (done.stdout + done.stderr).decode(errors="replace")

    def traceback(self) -> str | None:
        """The first traceback the broker printed, if any."""
        said = self._output.read_text(errors="replace")
        found = said.find("Traceback")
        return None if found < 0 else said[max(0, found - 300) : found + WORDS_SHOWN]

    def traceback_counts(self) -> Counter[str]:
        """How often each kind of traceback was printed: its last place in our code, and the error."""
        kinds: Counter[str] = Counter()
        for piece in self._output.read_text(errors="replace").split("Traceback (most recent call last):")[1:]:
            places = re.findall(r'/odradek/(\S+\.py)", line (\d+)', piece)
            error = re.search(r"^(?:\w+\.)*\w+(?:Error|Exception|Exit|Group)\b.*$", piece, re.MULTILINE)
            where = ":".join(places[-1]) if places else "?"
            kinds[f"{where}  {re.sub(r'-?[0-9]+', 'N', error.group()[:120]) if error else '?'}"] += 1
        return kinds

    def check_output(self) -> None:
        """Fail if the broker printed a traceback."""
        if FOREIGN_COMMAND is None:
            assert self.traceback() is None, self.traceback()

    def output(self) -> str:
        """The end of what the broker printed."""
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
    """The broker named by ``ODRADEK_TEST_BOOTSTRAP``: not ours to start, stop or read."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.port = int(bootstrap.rpartition(":")[2])

    def output(self) -> str:
        """Nothing is known of its output."""
        return f"(running elsewhere: {self.bootstrap})"


SessionBroker = Broker | ExternalBroker
