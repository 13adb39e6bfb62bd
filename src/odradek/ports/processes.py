"""The port for processes of this machine that outlive the program that starts them.

A process is known by its id and its start time. The system gives ids again, so an id alone may be another
process by the time of a signal.
"""

import enum
from collections.abc import Sequence
from typing import NamedTuple, Protocol


class ProcessIdentity(NamedTuple):
    """A process. ``start`` tells processes with the same id apart; it is compared only."""

    process_id: int
    start: str


class ProcessState(enum.Enum):
    RUNNING = "running"
    PAUSED = "paused"
    GONE = "gone"


class ProcessSignal(enum.Enum):
    """Signals of ``Processes.send``. A paused process is terminated only once it is resumed."""

    TERMINATE = "terminate"
    KILL = "kill"
    PAUSE = "pause"
    RESUME = "resume"


class HeldProcess(Protocol):
    """A process that exists, and waits to run its command.

    It ends by itself if this program ends first. So a caller that stores the identity before ``run`` never
    loses a running process, even if it is killed between any two steps.
    """

    @property
    def identity(self) -> ProcessIdentity: ...

    def run(self) -> None:
        """Run the command."""
        ...

    def discard(self) -> None:
        """End without running the command."""
        ...


class Processes(Protocol):
    def hold(self, command: Sequence[str], directory: str, log_path: str) -> HeldProcess:
        """Create a process for a command in a directory, in a session of its own. Its output is appended to
        a file."""
        ...

    def state(self, identity: ProcessIdentity) -> ProcessState: ...

    def memory_bytes(self, identity: ProcessIdentity) -> int | None:
        """Return the resident memory of a process; None if it is gone."""
        ...

    def send(self, identity: ProcessIdentity, signal: ProcessSignal) -> bool:
        """Send a signal to this process, never to a later one with the same id; return False if it is
        gone."""
        ...
