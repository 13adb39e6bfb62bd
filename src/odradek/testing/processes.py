"""Processes in memory. A test decides by ``on_run`` and ``on_terminate`` how commands behave."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odradek.ports.processes import ProcessIdentity, ProcessSignal, ProcessState

MEMORY_BYTES = 50_000_000


class MemoryHeldProcess:
    """A process that waits to run its command."""

    def __init__(self, processes: MemoryProcesses, identity: ProcessIdentity) -> None:
        self._processes = processes
        self.identity = identity

    def run(self) -> None:
        self._processes.running_commands[self.identity] = self._processes.commands[self.identity]
        self._processes.on_run(self.identity)

    def discard(self) -> None:
        self._processes.end(self.identity)


class MemoryProcesses:
    """The port of processes in memory; a process gets the id of the one that ended before it."""

    def __init__(self) -> None:
        self.commands: dict[ProcessIdentity, tuple[str, ...]] = {}
        self.running_commands: dict[ProcessIdentity, tuple[str, ...]] = {}
        self.signals: list[tuple[ProcessIdentity, ProcessSignal]] = []
        self.on_run: Callable[[ProcessIdentity], None] = lambda identity: None
        self.on_terminate: Callable[[ProcessIdentity], bool] = lambda identity: True
        """Returns whether the process ends."""
        self._states: dict[ProcessIdentity, ProcessState] = {}
        self._starts = 0

    def hold(self, command: Sequence[str], directory: str, log_path: str) -> MemoryHeldProcess:
        used = {identity.process_id for identity in self._states}
        process_id = next(number for number in range(100, 101 + len(used)) if number not in used)
        self._starts += 1
        identity = ProcessIdentity(process_id, str(self._starts))
        self._states[identity] = ProcessState.RUNNING
        self.commands[identity] = tuple(command)
        return MemoryHeldProcess(self, identity)

    def state(self, identity: ProcessIdentity) -> ProcessState:
        return self._states.get(identity, ProcessState.GONE)

    def memory_bytes(self, identity: ProcessIdentity) -> int | None:
        return None if self.state(identity) is ProcessState.GONE else MEMORY_BYTES

    def send(self, identity: ProcessIdentity, signal: ProcessSignal) -> bool:
        state = self.state(identity)
        if state is ProcessState.GONE:
            return False
        self.signals.append((identity, signal))
        if signal is ProcessSignal.KILL:
            self.end(identity)
        elif signal is ProcessSignal.PAUSE:
            self._states[identity] = ProcessState.PAUSED
        elif signal is ProcessSignal.RESUME:
            self._states[identity] = ProcessState.RUNNING
            if (identity, ProcessSignal.TERMINATE) in self.signals and state is ProcessState.PAUSED:
                self._terminate(identity)
        elif state is ProcessState.RUNNING:
            self._terminate(identity)
        return True

    def end(self, identity: ProcessIdentity) -> None:
        """End a process, as if by itself."""
        self._states.pop(identity, None)
        self.running_commands.pop(identity, None)

    def _terminate(self, identity: ProcessIdentity) -> None:
        if self.on_terminate(identity):
            self.end(identity)
