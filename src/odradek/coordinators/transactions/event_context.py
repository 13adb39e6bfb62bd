"""One turn of a transaction shard: a command, a timer or the fate of a write is judged, and effects come of
it. Whoever decides is handed a ``EventContext`` for what it may know and may ask for."""

from __future__ import annotations

from collections.abc import Callable, Hashable
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
    __slots__ = ("_settings", "effects", "now")

    def __init__(self, now: Now, settings: Callable[[], TransactionSettings]) -> None:
        self.now = now
        self.effects: Effects = []
        self._settings = settings

    @property
    def settings(self) -> TransactionSettings:
        return self._settings()

    def reply(self, to: Any, answer: Any) -> None:
        self.effects.append(Reply(to, answer))

    def arm(self, timer: Hashable, delay_ms: int) -> None:
        self.effects.append(ScheduleTimer(timer, delay_ms))

    def append(self, entries: tuple[CoordinatorRecord, ...], completion: Any) -> None:
        self.effects.append(AppendRecords(entries, completion))

    def perform(self, task: Any) -> None:
        self.effects.append(StartTask(task))
