"""Simulation of a transaction coordinator shard: the test controls time, the log and the partitions.

It applies the effects of a shard as the runtime would: timers by name, writes in order, responses by
request, tasks as requested. ``committed`` is the log, from which a shard can be reloaded.
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
    StartTask,
)
from odradek.coordinators.transactions.commands import NEEDS_PRODUCER_ID, InitProducerId, WriteMarkers
from odradek.coordinators.transactions.settings import TransactionSettings
from odradek.coordinators.transactions.shard import TransactionCoordinatorShard
from odradek.model.errors import ErrorCode

T0 = 1_000_000
"""Wall clock time at the start."""


class TransactionSimulation:
    def __init__(self, **settings: int) -> None:
        self.settings = TransactionSettings(**settings)
        self.elapsed_ms = 0
        self.timers: dict[Hashable, int] = {}
        self.writes: list[AppendRecords] = []
        self.late: list[AppendRecords] = []
        """Writes that timed out but are in the log; they precede ``writes``."""
        self.tasks: list[WriteMarkers] = []
        """All tasks requested by this shard."""
        self.committed: list[CoordinatorRecord] = []
        self.answers: list[tuple[Any, Any]] = []
        self.on_effect: Callable[[Effect], None] = lambda _effect: None
        self._producer_ids = 0
        self.shard = self._new_shard()
        self._do(self.shard.on_loaded(self.now))

    def _new_shard(self) -> TransactionCoordinatorShard:
        return TransactionCoordinatorShard(lambda: self.settings)

    @property
    def now(self) -> Now:
        return Now(T0 + self.elapsed_ms, self.elapsed_ms)

    def set(self, **settings: int) -> None:
        self.settings = replace(self.settings, **settings)

    def submit(self, command: Any, to: Any) -> None:
        """Submit a command; if it needs a producer id, provide one and submit it again."""
        effects = self.shard.handle(command, to, self.now)
        if effects and isinstance(effects[0], Reply) and effects[0].response is NEEDS_PRODUCER_ID:
            assert isinstance(command, InitProducerId)
            assert len(effects) == 1
            self._producer_ids += 1
            fresh = command._replace(new_producer_id=self._producer_ids)
            effects = self.shard.handle(fresh, to, self.now)
        self._do(effects)

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

    # The log.

    def commit(self) -> None:
        """Commit the oldest write, and the late ones before it."""
        write = self.writes.pop(0)
        self.catch_up()
        self._apply(write)
        self._do(self.shard.on_append_committed(write.completion, self.now))

    def commit_all(self) -> None:
        while self.writes:
            self.commit()

    def refuse(self, code: ErrorCode) -> None:
        """Fail the oldest write; nothing of it is in the log."""
        self._do(self.shard.on_append_failed(self.writes.pop(0).completion, code, self.now))

    def delay(self, code: ErrorCode = ErrorCode.REQUEST_TIMED_OUT) -> None:
        """Time out the oldest write, which is committed later."""
        write = self.writes.pop(0)
        self.late.append(write)
        self._do(self.shard.on_append_failed(write.completion, code, self.now))

    def catch_up(self) -> None:
        """Commit the late writes without notification."""
        late, self.late = self.late, []
        for write in late:
            self._apply(write)

    def refuse_committed(self) -> None:
        """Commit the oldest write, but report NOT_ENOUGH_REPLICAS_AFTER_APPEND."""
        write = self.writes.pop(0)
        self.catch_up()
        self._apply(write)
        code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        self._do(self.shard.on_append_failed(write.completion, code, self.now))

    def _apply(self, write: AppendRecords) -> None:
        for entry in write.records:
            self.committed.append(entry)
            self.shard.replay(entry)

    # Leadership changes.

    def move(self, *, with_late: bool = True) -> None:
        """Move the partition away and back: pending writes are lost, committed ones are reloaded.

        The new leader has all late writes or none.
        """
        effects = self.shard.on_unloaded()
        assert all(isinstance(effect, Reply) for effect in effects)
        self._do(effects)
        self.timers.clear()
        self.writes.clear()
        self.tasks.clear()
        if with_late:
            self.committed += [entry for write in self.late for entry in write.records]
        self.late.clear()
        self.shard = self.reloaded()
        self._do(self.shard.on_loaded(self.now))

    def reloaded(self) -> TransactionCoordinatorShard:
        """Return a shard loaded from the log, before it serves requests."""
        shard = self._new_shard()
        for entry in self.committed:
            shard.replay(entry)
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
                case StartTask(task):
                    self.tasks.append(task)
            self.on_effect(effect)
