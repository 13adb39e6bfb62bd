"""Contract tests of the processes port, to be subclassed once per implementation.

Fixtures: ``processes``, ``directory``, and ``endless``, a command that runs until a signal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event
from typing import Final

from odradek.ports.processes import Processes, ProcessIdentity, ProcessSignal, ProcessState

_CHECKS_MAX: Final = 2_000
_CHECK_S: Final = 0.005


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds; fail after a while."""
    for _ in range(_CHECKS_MAX):
        if holds():
            return
        Event().wait(_CHECK_S)
    raise AssertionError(f"{what} was not reached")


def start(processes: Processes, directory: Path, command: Sequence[str]) -> ProcessIdentity:
    held = processes.hold(command, str(directory), str(directory / "log"))
    held.run()
    return held.identity


def reach(processes: Processes, identity: ProcessIdentity, state: ProcessState) -> None:
    until(lambda: processes.state(identity) is state, state.value)


class ProcessesContract:
    def test_held_process_exists(self, processes: Processes, directory: Path, endless: Sequence[str]) -> None:
        held = processes.hold(endless, str(directory), str(directory / "log"))
        assert processes.state(held.identity) is ProcessState.RUNNING
        held.discard()
        reach(processes, held.identity, ProcessState.GONE)

    def test_process_runs_until_it_is_terminated(
        self, processes: Processes, directory: Path, endless: Sequence[str]
    ) -> None:
        identity = start(processes, directory, endless)
        assert processes.state(identity) is ProcessState.RUNNING
        assert (processes.memory_bytes(identity) or 0) > 0
        assert processes.send(identity, ProcessSignal.TERMINATE)
        reach(processes, identity, ProcessState.GONE)
        assert processes.memory_bytes(identity) is None

    def test_killed_process_is_gone(
        self, processes: Processes, directory: Path, endless: Sequence[str]
    ) -> None:
        identity = start(processes, directory, endless)
        assert processes.send(identity, ProcessSignal.KILL)
        reach(processes, identity, ProcessState.GONE)

    def test_paused_process_is_resumed(
        self, processes: Processes, directory: Path, endless: Sequence[str]
    ) -> None:
        identity = start(processes, directory, endless)
        assert processes.send(identity, ProcessSignal.PAUSE)
        reach(processes, identity, ProcessState.PAUSED)
        assert processes.send(identity, ProcessSignal.RESUME)
        reach(processes, identity, ProcessState.RUNNING)
        processes.send(identity, ProcessSignal.KILL)
        reach(processes, identity, ProcessState.GONE)

    def test_paused_process_is_terminated_once_it_is_resumed(
        self, processes: Processes, directory: Path, endless: Sequence[str]
    ) -> None:
        identity = start(processes, directory, endless)
        processes.send(identity, ProcessSignal.PAUSE)
        reach(processes, identity, ProcessState.PAUSED)
        assert processes.send(identity, ProcessSignal.TERMINATE)
        assert processes.state(identity) is ProcessState.PAUSED
        assert processes.send(identity, ProcessSignal.RESUME)
        reach(processes, identity, ProcessState.GONE)

    def test_paused_process_is_killed(
        self, processes: Processes, directory: Path, endless: Sequence[str]
    ) -> None:
        identity = start(processes, directory, endless)
        processes.send(identity, ProcessSignal.PAUSE)
        reach(processes, identity, ProcessState.PAUSED)
        assert processes.send(identity, ProcessSignal.KILL)
        reach(processes, identity, ProcessState.GONE)

    def test_ended_process_gets_no_signal(
        self, processes: Processes, directory: Path, endless: Sequence[str]
    ) -> None:
        identity = start(processes, directory, endless)
        processes.send(identity, ProcessSignal.KILL)
        reach(processes, identity, ProcessState.GONE)
        assert not any(processes.send(identity, signal) for signal in ProcessSignal)

    def test_process_with_the_id_of_an_earlier_one_gets_no_signal(
        self, processes: Processes, directory: Path, endless: Sequence[str]
    ) -> None:
        identity = start(processes, directory, endless)
        earlier = identity._replace(start="before")
        assert processes.state(earlier) is ProcessState.GONE
        assert processes.memory_bytes(earlier) is None
        assert not any(processes.send(earlier, signal) for signal in ProcessSignal)
        assert processes.state(identity) is ProcessState.RUNNING
        processes.send(identity, ProcessSignal.KILL)
        reach(processes, identity, ProcessState.GONE)
