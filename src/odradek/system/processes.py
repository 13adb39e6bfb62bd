"""Real processes, on Linux: ``/proc`` for their state, file descriptors of processes for signals."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from odradek.ports.processes import ProcessIdentity, ProcessSignal, ProcessState

# Waits for a line, then becomes the command. If the pipe is closed instead, ``read`` fails, and so it ends.
_HOLDER: Final = 'cd "$1" && shift && read -r line && exec "$@" </dev/null'
_SHELL: Final = "/bin/sh"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_SIGNALS: Final = {
    ProcessSignal.TERMINATE: signal.SIGTERM,
    ProcessSignal.KILL: signal.SIGKILL,
    ProcessSignal.PAUSE: signal.SIGSTOP,
    ProcessSignal.RESUME: signal.SIGCONT,
}
_STATE, _START_TICKS = 0, 19
"""Places of fields in ``/proc/PID/stat``, behind the name of the program."""
_ENDED: Final = {"Z", "X", "x"}
_STOPPED: Final = {"T"}
_RESIDENT_PAGES: Final = 1


class RealHeldProcess:
    """A shell that waits for a line."""

    def __init__(self, identity: ProcessIdentity, pipe: int) -> None:
        self.identity = identity
        self._pipe = pipe

    def run(self) -> None:
        try:
            os.write(self._pipe, b"\n")
        finally:
            os.close(self._pipe)

    def discard(self) -> None:
        os.close(self._pipe)


class RealProcesses:
    """Starts processes with ``environment``, observes them and sends them signals."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._boot_id = _BOOT_ID.read_text(encoding="ascii").strip()

    def hold(self, command: Sequence[str], directory: str, log_path: str) -> RealHeldProcess:
        reader, writer = os.pipe()
        try:
            process_id = os.posix_spawn(
                _SHELL,
                [_SHELL, "-c", _HOLDER, "sh", directory, *command],
                self._environment,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, reader, 0),
                    (os.POSIX_SPAWN_OPEN, 1, log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setsid=True,  # Ctrl-C is for the program that started it
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # which Python ignores
            )
        except OSError:
            os.close(writer)
            raise
        finally:
            os.close(reader)
        return RealHeldProcess(ProcessIdentity(process_id, self._start_of(process_id) or ""), writer)

    def state(self, identity: ProcessIdentity) -> ProcessState:
        fields = _stat(identity.process_id)
        if fields is None or fields[_STATE] in _ENDED or self._start(fields) != identity.start:
            _reap(identity.process_id)
            return ProcessState.GONE
        return ProcessState.PAUSED if fields[_STATE] in _STOPPED else ProcessState.RUNNING

    def memory_bytes(self, identity: ProcessIdentity) -> int | None:
        if self.state(identity) is ProcessState.GONE:
            return None
        with suppress(OSError):
            pages = Path(f"/proc/{identity.process_id}/statm").read_text(encoding="ascii").split()
            return int(pages[_RESIDENT_PAGES]) * os.sysconf("SC_PAGESIZE")
        return None

    def send(self, identity: ProcessIdentity, signal_: ProcessSignal) -> bool:
        try:
            descriptor = os.pidfd_open(identity.process_id)
        except ProcessLookupError:
            return False
        try:
            # The descriptor stays with the process that had the id when it was opened. If that is the right
            # one now, it is the right one when the signal arrives.
            if self.state(identity) is ProcessState.GONE:
                return False
            signal.pidfd_send_signal(descriptor, _SIGNALS[signal_])
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True

    def _start_of(self, process_id: int) -> str | None:
        fields = _stat(process_id)
        return None if fields is None else self._start(fields)

    def _start(self, fields: Sequence[str]) -> str:
        """Return clock ticks since the boot, and the boot: they may repeat after the next one."""
        return f"{self._boot_id}/{fields[_START_TICKS]}"


def _stat(process_id: int) -> list[str] | None:
    """Return the fields of a process behind its name, which may have spaces and brackets."""
    try:
        text = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def _reap(process_id: int) -> None:
    """Remove an ended process from the table, if it is a child of this program."""
    with suppress(ChildProcessError):
        os.waitpid(process_id, os.WNOHANG)
