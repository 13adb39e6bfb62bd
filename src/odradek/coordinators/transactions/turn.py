"""One turn of a transaction machine: a command, a timer or the fate of a write is judged, and effects come of
it. Whoever decides is handed a ``Turn`` for what it may know and may ask for."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from odradek.coordinators.effects import Append, Arm, Effects, Entry, Now, Perform, Reply
from odradek.coordinators.transactions.settings import TransactionSettings


class Turn:
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
        self.effects.append(Arm(timer, delay_ms))

    def append(self, entries: tuple[Entry, ...], note: Any) -> None:
        self.effects.append(Append(entries, note))

    def perform(self, task: Any) -> None:
        self.effects.append(Perform(task))
