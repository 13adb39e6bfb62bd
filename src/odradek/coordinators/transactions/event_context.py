"""Context of one event of the transaction coordinator: a command, a timer or the completion of an append.

Handlers receive an ``EventContext``, read the time and the settings from it, and add their effects to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable
from typing import Any

from odradek.coordinators.effects import (
    AppendRecords,
    CoordinatorRecord,
    Effects,
    Now,
    Reply,
    ScheduleTimer,
    StartTask,
)
from odradek.coordinators.transactions.settings import TransactionSettings


class EventContext:
    __slots__ = (
        "_settings",
        "effects",
        "expiration_queue",
        "now",
        "pending_appends",
        "timeout_queue",
        "unfinished",
    )

    def __init__(
        self,
        now: Now,
        settings: Callable[[], TransactionSettings],
        pending_appends: dict[Any, None],
        unfinished: Collection[str],
        timeout_queue: deque[str],
        expiration_queue: deque[str],
    ) -> None:
        self.now = now
        self.effects: Effects = []
        self.pending_appends = pending_appends
        self.unfinished = unfinished
        """Ids whose transaction is open or ending."""
        self.timeout_queue = timeout_queue
        """Ids that the current timeout check has not reached yet."""
        self.expiration_queue = expiration_queue
        """Ids that the current expiration check has not reached yet."""
        self._settings = settings

    @property
    def settings(self) -> TransactionSettings:
        return self._settings()

    def reply(self, to: object, response: object) -> None:
        self.effects.append(Reply(to, response))

    def schedule_timer(self, timer: Hashable, delay_ms: int) -> None:
        self.effects.append(ScheduleTimer(timer, delay_ms))

    def append(self, records: tuple[CoordinatorRecord, ...], completion: object) -> None:
        self.pending_appends[completion] = None
        self.effects.append(AppendRecords(records, completion))

    def start_task(self, task: object) -> None:
        self.effects.append(StartTask(task))
