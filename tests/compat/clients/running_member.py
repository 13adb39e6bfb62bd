"""Group member that polls in its own thread, as applications do.

Members that one thread polls in turn keep each other waiting in rebalances; kafka-python's cooperative ones
then rebalance again and again, with any broker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from tests.compat.clients.group_members import GroupMember
from tests.compat.clients.interface import Received

POLL_SECONDS: Final = 0.1
SECONDS_MAX: Final = 40


class RunningMember:
    """``received`` and ``assigned`` are as of the last poll."""

    def __init__(self, make: Callable[[], GroupMember]) -> None:
        self.received: list[Received] = []
        self.assigned: set[int] = set()
        self._failure: Exception | None = None
        self._commit_requested = False
        self._committed = threading.Event()
        self._stop_requested = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(make,), daemon=True)
        self._thread.start()

    def _run(self, make: Callable[[], GroupMember]) -> None:
        try:
            member = make()
            try:
                while not self._stop_requested.is_set():
                    self._poll_once(member)
            finally:
                member.close()
        except Exception as failure:  # noqa: BLE001 - raised by the next check
            self._failure = failure

    def _poll_once(self, member: GroupMember) -> None:
        polled = member.poll(POLL_SECONDS)
        self.assigned = member.assigned()
        self.received += polled
        if self._commit_requested:
            self._commit_requested = False
            member.commit()
            self._committed.set()

    def check(self) -> None:
        """Raise the exception of the thread, if it failed."""
        if self._failure is not None:
            raise self._failure

    def commit(self) -> None:
        """Commit all polled offsets, and wait."""
        self._committed.clear()
        self._commit_requested = True
        done = self._committed.wait(SECONDS_MAX)
        self.check()
        assert done, "not committed in time"

    def close(self) -> None:
        """Close the member; a dynamic one leaves the group."""
        self._stop_requested.set()
        self._thread.join(SECONDS_MAX)
        assert not self._thread.is_alive(), "the member did not close"
        self.check()
