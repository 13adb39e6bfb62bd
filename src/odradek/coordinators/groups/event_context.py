"""One turn of a group shard: a command, a timer or the fate of a write is judged, and effects come of it.

Whoever decides is handed a ``EventContext`` for what it may know (the time, the settings, new ids) and may
ask for. A write comes with an ``AppendCompletion``, which goes on where the command had to stop.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

from odradek.coordinators.effects import (
    AppendRecords,
    CancelTimer,
    CoordinatorRecord,
    Effects,
    LogEvent,
    Now,
    ProducerIdAndEpoch,
    Reply,
    ScheduleTimer,
)
from odradek.coordinators.groups.settings import GroupSettings
from odradek.model.errors import ErrorCode


class AppendCompletion(Protocol):
    """What is done once entries are written, or not. Exactly one of these is called, once."""

    def committed(self, turn: EventContext) -> None:
        """The entries are in the log for good, and applied."""
        ...

    def refused(self, code: ErrorCode, turn: EventContext) -> None:
        """The log did not take them, or nobody knows in time whether it did. They may be applied yet."""
        ...

    def abandoned(self, turn: EventContext) -> None:
        """The partition is led elsewhere now: answer whoever still waits for this write."""
        ...


class EventContext:
    __slots__ = ("_settings", "effects", "new_id", "now", "under_way")

    def __init__(
        self,
        now: Now,
        settings: Callable[[], GroupSettings],
        new_id: Callable[[], str],
        under_way: dict[AppendCompletion, None],
    ) -> None:
        self.now = now
        self.new_id = new_id
        self.effects: Effects = []
        self.under_way = under_way
        self._settings = settings

    @property
    def settings(self) -> GroupSettings:
        """Read when asked for: most turns are heartbeats and need none."""
        return self._settings()

    def reply(self, to: Any, answer: Any) -> None:
        self.effects.append(Reply(to, answer))

    def arm(self, timer: Hashable, delay_ms: int) -> None:
        self.effects.append(ScheduleTimer(timer, delay_ms))

    def disarm(self, timer: Hashable) -> None:
        self.effects.append(CancelTimer(timer))

    def log(self, event: str, **fields: object) -> None:
        self.effects.append(LogEvent(event, fields))

    def append(
        self,
        entries: Sequence[CoordinatorRecord],
        outcome: AppendCompletion,
        producer: ProducerIdAndEpoch | None = None,
    ) -> None:
        self.under_way[outcome] = None
        self.effects.append(AppendRecords(tuple(entries), outcome, producer))
