"""A driver process and its descendants: start, commands, and termination of all of them.

The driver is the leader of its own session: Ctrl-C at the terminal does not reach it, and every descendant
(Java and Python workers) can be found by the session id.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from odradek.pipelines.run.driver_output import is_event, user_message

EXIT_S: Final = 15.0
"""Time for the remaining processes to exit by themselves: Java removes its temporary files."""
_POLL_S: Final = 0.1
_TAIL_LINES: Final = 40
_SHOWN_MAX: Final = 100
_PROCESSES: Final = Path("/proc")


class DriverProcess:
    """A driver process with its descendants."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        read_fd, write_fd = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "odradek.pipelines.run.driver", *arguments, "--report-fd", str(write_fd)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            pass_fds=(write_fd,),
            start_new_session=True,
        )
        os.close(write_fd)
        self._reports = os.fdopen(read_fd, encoding="utf-8", errors="replace")
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._shown: deque[str] = deque(maxlen=_SHOWN_MAX)
        """Recent messages of events, for deduplication: each worker logs the same."""
        self._listener = threading.Thread(target=self._forward_stderr, name="driver stderr", daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, command: str) -> None:
        """Send a command; do nothing if the driver has exited."""
        stdin = self._process.stdin
        with suppress(OSError, ValueError):
            if stdin is not None:
                stdin.write(f"{command}\n".encode())
                stdin.flush()

    def reports(self) -> Iterator[str]:
        """Yield the lines of reports, until the driver exits."""
        yield from self._reports

    def kill(self) -> None:
        """Kill the driver and its descendants."""
        for pid in session_members(self.pid):
            _kill(pid)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def finish(self) -> int:
        """Wait for the driver and its descendants to exit, or kill them; return the exit code."""
        try:
            self._process.wait(EXIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        code = self._process.wait()
        pause = threading.Event()
        for _ in range(int(EXIT_S / _POLL_S)):
            if not session_members(self.pid):
                break
            pause.wait(_POLL_S)
        for pid in session_members(self.pid):
            _kill(pid)
        self._close()
        return code

    @property
    def stderr_tail(self) -> str:
        """The last lines of stderr."""
        return "\n".join(self._tail)

    def _close(self) -> None:
        self._listener.join(timeout=1)
        streams: tuple[IO[bytes] | IO[str] | None, ...] = (
            *(self._process.stdin, self._process.stderr),
            self._reports,
        )
        for stream in streams:
            with suppress(OSError):
                if stream is not None:
                    stream.close()

    def _forward_stderr(self) -> None:
        """Print the lines of stderr that users should see."""
        stderr = self._process.stderr
        assert stderr is not None
        with suppress(ValueError, OSError):
            for raw in stderr:
                line = raw.decode(errors="replace").rstrip("\n")
                message = user_message(line)
                if message is not None or is_event(line):
                    self._tail.append(line)
                if message is not None and not (is_event(line) and message in self._shown):
                    self._shown.append(message)
                    print(message, file=sys.stderr, flush=True)


def session_members(session: int) -> list[int]:
    """Return the live processes of a session; none without /proc."""
    pids = []
    for entry in _PROCESSES.glob("[0-9]*/stat"):
        with suppress(OSError):
            number = session_id(entry.read_text(encoding="utf-8", errors="replace"))
            if number == session:
                pids.append(int(entry.parent.name))
    return pids


def session_id(stat: str) -> int | None:
    """Return the session id of /proc/PID/stat; None for a zombie.

    The process name may contain anything, even parentheses, so fields are counted from the last one.
    """
    fields = stat.rpartition(")")[2].split()
    if len(fields) < 4 or fields[0] in "ZX":
        return None
    return int(fields[3])


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
