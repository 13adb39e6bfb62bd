"""A driver process and all it starts: begun, spoken to, and ended so that nothing of it is left.

The driver is the first of a session of its own: a Ctrl-C at the terminal does not reach it, and every process
it starts, Java and the Python workers, can be found by that session's number.
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

GONE_S: Final = 15.0
"""How long what is left of a driver is given to end by itself: Java removes its temporary files."""
_LOOK_S: Final = 0.1
_TAIL_LINES: Final = 40
_SAID_MAX: Final = 100
_PROCESSES: Final = Path("/proc")


class DriverProcess:
    """One driver, from its start until nothing is left of it."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        reading, writing = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "odradek.pipelines.run.driver", *arguments, "--report-fd", str(writing)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            pass_fds=(writing,),
            start_new_session=True,
        )
        os.close(writing)
        self._reports = os.fdopen(reading, encoding="utf-8", errors="replace")
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._said: deque[str] = deque(maxlen=_SAID_MAX)
        """What was told of events: each worker warns of the same."""
        self._listener = threading.Thread(target=self._pass_on_words, name="driver stderr", daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def order(self, word: str) -> None:
        """Tell the driver something; one that has ended hears nothing."""
        stdin = self._process.stdin
        with suppress(OSError, ValueError):
            if stdin is not None:
                stdin.write(f"{word}\n".encode())
                stdin.flush()

    def reports(self) -> Iterator[str]:
        """Lines, until the driver ends."""
        yield from self._reports

    def kill(self) -> None:
        """End it and all it started, now."""
        for pid in session_members(self.pid):
            _end(pid)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def finish(self) -> int:
        """Wait for the end, see that nothing is left; gives the exit code."""
        try:
            self._process.wait(GONE_S)
        except subprocess.TimeoutExpired:
            self.kill()
        code = self._process.wait()
        pause = threading.Event()
        for _ in range(int(GONE_S / _LOOK_S)):
            if not session_members(self.pid):
                break
            pause.wait(_LOOK_S)
        for pid in session_members(self.pid):
            _end(pid)
        self._close()
        return code

    @property
    def last_words(self) -> str:
        """What the driver wrote to stderr last."""
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

    def _pass_on_words(self) -> None:
        """Print what the driver, Java and user code write to stderr, as far as it is for people."""
        stderr = self._process.stderr
        assert stderr is not None
        with suppress(ValueError, OSError):
            for raw in stderr:
                line = raw.decode(errors="replace").rstrip("\n")
                words = user_message(line)
                if words is not None or is_event(line):
                    self._tail.append(line)
                if words is not None and not (is_event(line) and words in self._said):
                    self._said.append(words)
                    print(words, file=sys.stderr, flush=True)


def session_members(session: int) -> list[int]:
    """Processes of a session that live; none where the system does not list them."""
    found = []
    for entry in _PROCESSES.glob("[0-9]*/stat"):
        with suppress(OSError):
            number = session_in(entry.read_text(encoding="utf-8", errors="replace"))
            if number == session:
                found.append(int(entry.parent.name))
    return found


def session_in(stat: str) -> int | None:
    """The session in a line of /proc/PID/stat; None of one that has ended and waits for its parent.

    The name in it may hold anything, brackets too, so the fields are counted from the last bracket on.
    """
    fields = stat.rpartition(")")[2].split()
    if len(fields) < 4 or fields[0] in "ZX":
        return None
    return int(fields[3])


def _end(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
