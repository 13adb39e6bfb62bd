"""Context of one event of the group coordinator: a command, a timer or the completion of an append.

Handlers receive an ``EventContext``, read the time and the settings from it, and add their effects to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

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
    """Continuation of a command after its append. Exactly one of the methods is called, once."""

    def on_committed(self, context: EventContext) -> None:
        """Continue after the records were committed and replayed."""
        ...

    def on_failed(self, code: ErrorCode, context: EventContext) -> None:
        """Continue after the append failed or timed out. The records may still be committed."""
        ...

    def on_unloaded(self, context: EventContext) -> None:
        """Reply to the requests that wait for this append: the partition is no longer led here."""
        ...


class EventContext:
    __slots__ = ("_settings", "effects", "expiration_queue", "new_id", "now", "pending_appends")

    def __init__(
        self,
        now: Now,
        settings: Callable[[], GroupSettings],
        new_id: Callable[[], str],
        pending_appends: dict[AppendCompletion, None],
        expiration_queue: deque[str],
    ) -> None:
        self.now = now
        self.new_id = new_id
        self.effects: Effects = []
        self.pending_appends = pending_appends
        self.expiration_queue = expiration_queue
        """Groups that the current expiration check has not reached yet."""
        self._settings = settings

    @property
    def settings(self) -> GroupSettings:
        """The current settings, read on demand: most events are heartbeats, which need none."""
        return self._settings()

    def reply(self, to: object, response: object) -> None:
        self.effects.append(Reply(to, response))

    def schedule_timer(self, timer: Hashable, delay_ms: int) -> None:
        self.effects.append(ScheduleTimer(timer, delay_ms))

    def cancel_timer(self, timer: Hashable) -> None:
        self.effects.append(CancelTimer(timer))

    def log(self, event: str, **fields: object) -> None:
        self.effects.append(LogEvent(event, fields))

    def append(
        self,
        records: Sequence[CoordinatorRecord],
        completion: AppendCompletion,
        producer: ProducerIdAndEpoch | None = None,
        content: object = None,
    ) -> None:
        self.pending_appends[completion] = None
        self.effects.append(AppendRecords(tuple(records), completion, producer, content))
