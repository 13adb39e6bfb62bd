"""Simulation of a group coordinator shard: the test controls time and the log.

It applies the effects of a shard as the runtime would: timers by name, writes in order, responses by request.
``committed`` is the log, from which a shard can be reloaded.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

from odradek.coordinators.effects import (
    AppendRecords,
    CancelTimer,
    CoordinatorRecord,
    Effect,
    Effects,
    Now,
    Reply,
    ScheduleTimer,
)
from odradek.coordinators.groups.settings import GroupSettings
from odradek.coordinators.groups.shard import GroupCoordinatorShard
from odradek.model.errors import ErrorCode

T0 = 1_000_000
"""Wall clock time at the start."""


class GroupSimulation:
    def __init__(self, **settings: int) -> None:
        self.settings = GroupSettings(**settings)
        self.elapsed_ms = 0
        self.timers: dict[Hashable, int] = {}
        self.writes: list[AppendRecords] = []
        self.committed: list[tuple[CoordinatorRecord, int] | tuple[int, bool]] = []
        """Records with their producer, or transaction markers: a producer, and whether it committed."""
        self.answers: list[tuple[Any, Any]] = []
        self.on_effect: Callable[[Effect], None] = lambda _effect: None
        self._ids = 0
        self.shard = self._new_shard()
        self._do(self.shard.on_loaded(self.now))

    def _new_shard(self) -> GroupCoordinatorShard:
        return GroupCoordinatorShard(lambda: self.settings, self._new_id)

    def _new_id(self) -> str:
        self._ids += 1
        return str(self._ids)

    @property
    def now(self) -> Now:
        return Now(T0 + self.elapsed_ms, self.elapsed_ms)

    def set(self, **settings: int) -> None:
        self.settings = replace(self.settings, **settings)

    def submit(self, command: Any, to: Any) -> None:
        self._do(self.shard.handle(command, to, self.now))

    def answers_to(self, to: Any) -> list[Any]:
        return [answer for whom, answer in self.answers if whom == to]

    # Time.

    def wait(self, ms: int) -> None:
        """Advance time; timers fire in order, each at its time."""
        end = self.elapsed_ms + ms
        while due := [timer for timer, deadline in self.timers.items() if deadline <= end]:
            timer = min(due, key=self.timers.__getitem__)
            self.elapsed_ms = max(self.elapsed_ms, self.timers.pop(timer))
            self._do(self.shard.on_timer(timer, self.now))
        self.elapsed_ms = end

    def fire_next(self) -> None:
        """Advance time to the next timer."""
        if self.timers:
            self.wait(max(min(self.timers.values()) - self.elapsed_ms, 0))

    # The log.

    def commit(self) -> None:
        """Commit the oldest write."""
        write = self.writes.pop(0)
        self._apply(write)
        self._do(self.shard.on_append_committed(write.completion, self.now))

    def commit_all(self) -> None:
        while self.writes:
            self.commit()

    def refuse(self, code: ErrorCode) -> None:
        """Fail the oldest write; nothing of it is in the log."""
        self._do(self.shard.on_append_failed(self.writes.pop(0).completion, code, self.now))

    def time_out(self) -> None:
        """Time out all writes, but commit them afterwards."""
        writes, self.writes = self.writes, []
        for write in writes:
            self._do(self.shard.on_append_failed(write.completion, ErrorCode.REQUEST_TIMED_OUT, self.now))
        for write in writes:
            self._apply(write)

    def _apply(self, write: AppendRecords) -> None:
        producer_id = -1 if write.producer is None else write.producer.producer_id
        self.committed += [(record, producer_id) for record in write.records]
        for replayed in write.records if write.content is None else (write.content,):
            self.shard.replay(replayed, producer_id)

    def end_transaction(self, producer_id: int, *, commits: bool) -> None:
        """Commit a transaction marker, after all writes before it."""
        self.commit_all()
        self.committed.append((producer_id, commits))
        self.shard.replay_end_transaction_marker(producer_id, commits=commits)

    # Leadership changes.

    def move(self) -> None:
        """Move the partition away and back: pending writes are lost, committed ones are reloaded."""
        effects = self.shard.on_unloaded()
        assert all(isinstance(effect, Reply) for effect in effects)
        self._do(effects)
        self.timers.clear()
        self.writes.clear()
        self.shard = self.reloaded()
        self._do(self.shard.on_loaded(self.now))

    def reloaded(self) -> GroupCoordinatorShard:
        """Return a shard loaded from the log, before it serves requests."""
        shard = self._new_shard()
        for entry in self.committed:
            if isinstance(entry[0], CoordinatorRecord):
                shard.replay(entry[0], entry[1])
            else:
                shard.replay_end_transaction_marker(entry[0], commits=bool(entry[1]))
        return shard

    def _do(self, effects: Effects) -> None:
        for effect in effects:
            match effect:
                case Reply(to, answer):
                    self.answers.append((to, answer))
                case AppendRecords():
                    self.writes.append(effect)
                case ScheduleTimer(timer, delay_ms):
                    self.timers.pop(timer, None)
                    self.timers[timer] = self.elapsed_ms + delay_ms
                case CancelTimer(timer):
                    self.timers.pop(timer, None)
            self.on_effect(effect)
