"""A world around a group machine in which time and the log do as they are told.

It holds the effects of a machine as a runtime would: timers by name, writes in order, answers by whom they
are for. ``committed`` is the log: a machine can be made anew from it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

from odradek.coordinators.effects import Append, Arm, Disarm, Effect, Effects, Entry, Now, Reply
from odradek.coordinators.groups.machine import GroupMachine
from odradek.coordinators.groups.settings import GroupSettings
from odradek.model.errors import ErrorCode

T0 = 1_000_000
"""The wall clock when the world begins."""


class GroupWorld:
    def __init__(self, **settings: int) -> None:
        self.settings = GroupSettings(**settings)
        self.elapsed_ms = 0
        self.timers: dict[Hashable, int] = {}
        self.writes: list[Append] = []
        self.committed: list[tuple[Entry, int] | tuple[int, bool]] = []
        """Entries with their producer, or ends of transactions: a producer, and whether it committed."""
        self.answers: list[tuple[Any, Any]] = []
        self.on_effect: Callable[[Effect], None] = lambda _effect: None
        self._ids = 0
        self.machine = self._new_machine()
        self._do(self.machine.loaded(self.now))

    def _new_machine(self) -> GroupMachine:
        return GroupMachine(lambda: self.settings, self._new_id)

    def _new_id(self) -> str:
        self._ids += 1
        return str(self._ids)

    @property
    def now(self) -> Now:
        return Now(T0 + self.elapsed_ms, self.elapsed_ms)

    def set(self, **settings: int) -> None:
        self.settings = replace(self.settings, **settings)

    def submit(self, command: Any, to: Any) -> None:
        self._do(self.machine.handle(command, to, self.now))

    def answers_to(self, to: Any) -> list[Any]:
        return [answer for whom, answer in self.answers if whom == to]

    # Time.

    def wait(self, ms: int) -> None:
        """Let time pass; timers fire in order, each at its time."""
        end = self.elapsed_ms + ms
        while due := [timer for timer, deadline in self.timers.items() if deadline <= end]:
            timer = min(due, key=self.timers.__getitem__)
            self.elapsed_ms = max(self.elapsed_ms, self.timers.pop(timer))
            self._do(self.machine.fired(timer, self.now))
        self.elapsed_ms = end

    def fire_next(self) -> None:
        """Let time pass until something happens."""
        if self.timers:
            self.wait(max(min(self.timers.values()) - self.elapsed_ms, 0))

    # The log.

    def commit(self) -> None:
        """The oldest write gets through."""
        write = self.writes.pop(0)
        self._apply(write)
        self._do(self.machine.committed(write.note, self.now))

    def commit_all(self) -> None:
        while self.writes:
            self.commit()

    def refuse(self, code: ErrorCode) -> None:
        """The oldest write fails, and nothing of it is in the log."""
        self._do(self.machine.refused(self.writes.pop(0).note, code, self.now))

    def time_out(self) -> None:
        """All writes take too long, but get through after all."""
        writes, self.writes = self.writes, []
        for write in writes:
            self._do(self.machine.refused(write.note, ErrorCode.REQUEST_TIMED_OUT, self.now))
        for write in writes:
            self._apply(write)

    def _apply(self, write: Append) -> None:
        producer_id = -1 if write.stamp is None else write.stamp.producer_id
        for entry in write.entries:
            self.committed.append((entry, producer_id))
            self.machine.apply(entry, producer_id)

    def end_transaction(self, producer_id: int, *, commits: bool) -> None:
        """A marker gets through, behind all writes before it."""
        self.commit_all()
        self.committed.append((producer_id, commits))
        self.machine.end_transaction(producer_id, commits=commits)

    # Moves.

    def move(self) -> None:
        """The partition goes and comes back: what is under way is lost, what is committed is not."""
        effects = self.machine.unloaded()
        assert all(isinstance(effect, Reply) for effect in effects)
        self._do(effects)
        self.timers.clear()
        self.writes.clear()
        self.machine = self.reloaded()
        self._do(self.machine.loaded(self.now))

    def reloaded(self) -> GroupMachine:
        """A machine that knows what the log knows, before it begins to serve."""
        machine = self._new_machine()
        for one in self.committed:
            if isinstance(one[0], Entry):
                machine.apply(one[0], one[1])
            else:
                machine.end_transaction(one[0], commits=bool(one[1]))
        return machine

    def _do(self, effects: Effects) -> None:
        for effect in effects:
            match effect:
                case Reply(to, answer):
                    self.answers.append((to, answer))
                case Append():
                    self.writes.append(effect)
                case Arm(timer, delay_ms):
                    self.timers.pop(timer, None)
                    self.timers[timer] = self.elapsed_ms + delay_ms
                case Disarm(timer):
                    self.timers.pop(timer, None)
            self.on_effect(effect)
