"""The processes contract on real processes and in memory, and the orphans of a program that was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from odradek.ports.processes import ProcessIdentity, ProcessState
from odradek.system.processes import RealProcesses
from odradek.testing.contracts.processes_contract import ProcessesContract, reach, start, until
from odradek.testing.processes import MemoryProcesses

# Holds a process for a command, prints its identity, and is killed before it runs the command.
HOLDER = """
import os, sys, time
from odradek.system.processes import RealProcesses
held = RealProcesses(dict(os.environ)).hold(sys.argv[2:], sys.argv[1], sys.argv[1] + "/log")
if sys.argv[-1] == "run":
    held.run()
print(*held.identity, flush=True)
time.sleep(600)
"""


class TestRealProcesses(ProcessesContract):
    @pytest.fixture
    def processes(self) -> RealProcesses:
        return RealProcesses(dict(os.environ))

    @pytest.fixture
    def directory(self, tmp_path: Path) -> Path:
        return tmp_path

    @pytest.fixture
    def endless(self) -> Sequence[str]:
        return ["sleep", "600"]


class TestMemoryProcesses(ProcessesContract):
    @pytest.fixture
    def processes(self) -> MemoryProcesses:
        return MemoryProcesses()

    @pytest.fixture
    def directory(self) -> Path:
        return Path("/cluster")

    @pytest.fixture
    def endless(self) -> Sequence[str]:
        return ["sleep", "600"]


def test_output_is_appended_to_the_log(tmp_path: Path) -> None:
    processes = RealProcesses({"WORD": "castle"})
    for _ in range(2):
        identity = start(processes, tmp_path, ["/bin/sh", "-c", 'echo "$WORD in $PWD"; echo lost >&2'])
        reach(processes, identity, ProcessState.GONE)
    assert (tmp_path / "log").read_text().splitlines() == [f"castle in {tmp_path}", "lost"] * 2


def killed_holder(directory: Path, *command: str) -> ProcessIdentity:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(directory), *command], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        process_id, start_time = holder.stdout.readline().split()
        holder.send_signal(signal.SIGKILL)
    return ProcessIdentity(int(process_id), start_time)


def test_held_process_ends_with_the_program_that_holds_it(tmp_path: Path) -> None:
    processes = RealProcesses(dict(os.environ))
    identity = killed_holder(tmp_path, "touch", "ran")
    until(lambda: processes.state(identity) is ProcessState.GONE, "the end of the held process")
    assert not (tmp_path / "ran").exists()


def test_running_process_outlives_the_program_that_started_it(tmp_path: Path) -> None:
    processes = RealProcesses(dict(os.environ))
    identity = killed_holder(tmp_path, "sh", "-c", "touch ran; sleep 600", "run")
    until((tmp_path / "ran").exists, "a running command")
    assert processes.state(identity) is ProcessState.RUNNING
    os.killpg(identity.process_id, signal.SIGKILL)  # the shell and its sleep
    reach(processes, identity, ProcessState.GONE)


def test_program_that_does_not_exist_ends_with_a_line_in_the_log(tmp_path: Path) -> None:
    processes = RealProcesses({})
    identity = start(processes, tmp_path, ["/no/such/program"])
    reach(processes, identity, ProcessState.GONE)
    assert "no/such/program" in (tmp_path / "log").read_text()
