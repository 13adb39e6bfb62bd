"""One shard at work on the partition that holds its state: effects, appends, timers, from load to loss.

Each call of the shard gives effects, which are carried out in order; then what has been committed is
applied, oldest first, and the shard told, which may give more. This is one loop, never a recursion: a
shard is not called while another of its calls is being answered for.

Invariants: an entry is applied when it is committed, and in the order of the log, so that at any time the
shard's durable state is what a load up to the high watermark would give. A partition that is gone fires
no timer, appends nothing and applies nothing.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

from odradek.coordinators.effects import (
    AppendRecords,
    CancelTimer,
    CoordinatorShard,
    Effect,
    Effects,
    LogEvent,
    Now,
    Reply,
    ScheduleTimer,
    StartTask,
)
from odradek.coordinators.loader import LogItem, TransactionMarker, WrittenRecord
from odradek.coordinators.pending_appends import DelayedCommit, PendingAppend, PendingAppends
from odradek.model.errors import BrokerError, ErrorCode, ProtocolViolation, StorageError
from odradek.model.ids import NO_PRODUCER_ID
from odradek.model.protocol_enums import Compression
from odradek.ports.clock import Clock
from odradek.records.batch import BatchBuilder
from odradek.replication.partition import Partition
from odradek.replication.replica_manager import ReplicaManager
from odradek.telemetry import events
from odradek.timers.timing_wheel import Timer, TimingWheel

M = TypeVar("M", bound=CoordinatorShard)

PENDING_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of a partition's appends that wait for replicas. Kafka has no bound here but the requests its clients send;
where followers stand still, those would pile up with what they hold until their time is up."""

log = events.logger("coordinators")


def _no_reply(answer: Any) -> None:
    """Nobody asked."""


def _performs_nothing(number: int, task: Any) -> None:
    raise AssertionError(f"nobody here does what the shard of partition {number} asks for: {task}")


class CoordinatorState(enum.Enum):
    """How far a partition is. Before it is led here there is nothing that has a state."""

    LOADING = enum.auto()
    ACTIVE = enum.auto()
    CLOSED = enum.auto()


VALID_PREVIOUS_STATES: Final[dict[CoordinatorState, frozenset[CoordinatorState]]] = {
    CoordinatorState.LOADING: frozenset(),
    CoordinatorState.ACTIVE: frozenset({CoordinatorState.LOADING}),
    CoordinatorState.CLOSED: frozenset({CoordinatorState.LOADING, CoordinatorState.ACTIVE}),
}


class CoordinatorRuntimeSettings(NamedTuple):
    """What holds for all partitions of one topic. ``load_bytes_max`` are read at a time while loading."""

    commit_timeout_ms: int
    load_bytes_max: int
    compression: Compression = Compression.NONE


class CoordinatorEnvironment(NamedTuple):
    """What a hosted shard works with. ``arm`` is told of deadlines on the wheel. ``perform`` is given what
    the shard of a partition wants done outside; it returns at once, and a command tells of the end."""

    replicas: ReplicaManager
    clock: Clock
    wheel: TimingWheel
    arm: Callable[[int], None]
    settings: Callable[[], CoordinatorRuntimeSettings]
    perform: Callable[[int, Any], None] = _performs_nothing

    def now(self) -> Now:
        return Now(self.clock.wall_ms(), self.clock.monotonic_ms())


class CoordinatorContext(Generic[M]):
    __slots__ = (
        "_appends",
        "_around",
        "_effects",
        "_is_busy",
        "_timers",
        "_watch",
        "partition",
        "shard",
        "state",
    )

    def __init__(self, partition: Partition, shard: M, around: CoordinatorEnvironment) -> None:
        self.partition = partition
        self.shard = shard
        self.state = CoordinatorState.LOADING
        self._around = around
        self._appends = PendingAppends()
        self._effects: deque[Effect] = deque()
        self._timers: dict[Hashable, Timer] = {}
        self._watch: DelayedCommit | None = None
        self._is_busy = False

    # From load to loss.

    def _move_to(self, state: CoordinatorState) -> None:
        assert self.state in VALID_PREVIOUS_STATES[state], f"{self.state.name} does not become {state.name}"
        self.state = state

    def activate(self) -> None:
        """All that the log holds was applied: serve."""
        self._move_to(CoordinatorState.ACTIVE)
        self._carry_out(self.shard.on_loaded(self._around.now()))

    def leave(self) -> None:
        """The partition is led here no longer: answer all who wait, and come to rest."""
        was_active = self.state is CoordinatorState.ACTIVE
        self._move_to(CoordinatorState.CLOSED)
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._appends.clear()
        if self._watch is not None:
            self._watch.abandon()
        self._guarded(self.shard.on_unloaded if was_active else list)

    # What comes from outside.

    def submit(self, command: Any, reply: Callable[[Any], None]) -> None:
        self._carry_out(self.shard.handle(command, reply, self._around.now()))

    def tell(self, command: Any) -> None:
        """Have a command judged that nobody waits for."""
        self._guarded(lambda: self.shard.handle(command, _no_reply, self._around.now()))

    def ended(self, producer_id: int, *, commits: bool, offset: int) -> None:
        """A marker was appended at this offset: once it is committed, the transaction is over."""
        marker = PendingAppend((TransactionMarker(producer_id, commits),), offset + 1, 0, None, None)
        marker.is_answered = True
        self._appends.add(marker)
        if self.state is CoordinatorState.ACTIVE:
            self._carry_out([])

    def _guarded(self, call: Callable[[], Effects]) -> None:
        """The edge to timers, purgatories and roles, which concern others too: a fault must not stop them."""
        try:
            self._carry_out(call())
        except Exception as broken:  # noqa: BLE001 - the edge of a callback
            log.failure("coordinator_event_failed", broken, partition=self.partition.topic_partition)

    # Effects.

    def _carry_out(self, effects: Effects) -> None:
        self._effects.extend(effects)
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._effects or self._settle_one():
                if self._effects:
                    self._carry_out_one(self._effects.popleft())
        finally:
            self._is_busy = False
            self._wait_for_commit()

    def _carry_out_one(self, effect: Effect) -> None:
        if isinstance(effect, Reply):
            effect.to(effect.response)
        elif self.state is CoordinatorState.CLOSED:
            return
        elif isinstance(effect, ScheduleTimer):
            self._arm(effect)
        elif isinstance(effect, CancelTimer):
            timer = self._timers.pop(effect.timer, None)
            if timer is not None:
                timer.cancel()
        elif isinstance(effect, LogEvent):
            log.info(effect.event, **effect.fields)
        elif isinstance(effect, StartTask):
            self._around.perform(self.partition.topic_partition.partition, effect.task)
        else:
            self._append(effect)

    # Timers.

    def _arm(self, effect: ScheduleTimer) -> None:
        timer = self._timers.get(effect.timer)
        if timer is None:
            timer = self._timers[effect.timer] = Timer(partial(self._ring, effect.timer))
        else:
            timer.cancel()
        deadline_ms = self._around.clock.monotonic_ms() + effect.delay_ms
        self._around.wheel.schedule(timer, deadline_ms)
        self._around.arm(deadline_ms)

    def _ring(self, name: Hashable) -> None:
        del self._timers[name]
        self._guarded(lambda: self.shard.on_timer(name, self._around.now()))

    # PendingAppends.

    def _append(self, effect: AppendRecords) -> None:
        now = self._around.now()
        if self._appends.size_bytes >= PENDING_BYTES_MAX:
            self._refuse(effect.completion, ErrorCode.NOT_ENOUGH_REPLICAS)
            return
        batch = self._build(effect, now.wall_ms)
        try:
            appended = self.partition.append_as_coordinator(batch, now.wall_ms)
        except BrokerError as refused:
            self._refuse(effect.completion, refused.code)
            return
        producer_id = NO_PRODUCER_ID if effect.producer is None else effect.producer.producer_id
        told = tuple(WrittenRecord(entry, producer_id) for entry in effect.entries)
        deadline_ms = now.monotonic_ms + self._around.settings().commit_timeout_ms
        one = PendingAppend(told, appended.last_offset + 1, len(batch), effect.completion, deadline_ms)
        self._appends.add(one)
        if self.partition.is_flush_pending:
            one.deadline_ms = None
            self._around.replicas.flush(self.partition, partial(self._flushed, one))
        self._around.replicas.appended(self.partition)

    def _build(self, effect: AppendRecords, now_ms: int) -> bytearray:
        compression, producer = self._around.settings().compression, effect.producer
        if producer is None:
            builder = BatchBuilder(compression=compression)
        else:
            builder = BatchBuilder(
                compression=compression,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                base_sequence=0,  # as Kafka's coordinators have it; nobody counts
                transactional=True,
            )
        for key, value in effect.entries:
            builder.append(now_ms, key, value)
        return bytearray(builder.build())

    def _refuse(self, completion: Any, code: ErrorCode) -> None:
        self._effects.extend(self.shard.on_append_failed(completion, code, self._around.now()))

    def _flushed(self, one: PendingAppend, failure: StorageError | None) -> None:
        """From here on the append waits for replicas only."""
        if self.state is CoordinatorState.CLOSED:
            return
        one.deadline_ms = self._around.clock.monotonic_ms() + self._around.settings().commit_timeout_ms
        if failure is None or one.is_answered:
            self._guarded(list)
            return
        one.is_answered = True
        code = ErrorCode.KAFKA_STORAGE_ERROR
        self._guarded(lambda: self.shard.on_append_failed(one.completion, code, self._around.now()))

    # Commits.

    def _settle_one(self) -> bool:
        """Apply the oldest append if it is committed, and tell the shard; give whether it was."""
        if self.state is not CoordinatorState.ACTIVE or not self._is_news():
            return False
        one = self._appends.take()
        for told in one.told:
            self.apply(told)
        if not one.is_answered:
            verdict = self.partition.check_enough_replicas_reach_offset(
                one.required_offset, self.partition.leader_epoch
            )
            if verdict:
                self._refuse(one.completion, verdict)
            else:
                self._effects.extend(self.shard.on_append_committed(one.completion, self._around.now()))
        return True

    def apply(self, told: LogItem) -> None:
        """Let the shard take over what the log tells; what it cannot read is passed over."""
        try:
            if isinstance(told, TransactionMarker):
                self.shard.replay_end_transaction_marker(told.producer_id, commits=told.commits)
            else:
                self.shard.replay(told.entry, told.producer_id)
        except (BrokerError, ProtocolViolation, ValueError) as unreadable:
            log.error("record_skipped", partition=self.partition.topic_partition, reason=str(unreadable))

    def _wait_for_commit(self) -> None:
        """Be called when the oldest append is committed or overdue. One watch serves all that wait."""
        is_watched = self._watch is not None and not self._watch.completed
        if is_watched or not self._appends or self.state is not CoordinatorState.ACTIVE:
            return
        now_ms, due_ms = self._around.clock.monotonic_ms(), self._appends.next_deadline_ms()
        wait_ms = self._around.settings().commit_timeout_ms if due_ms is None else max(due_ms - now_ms, 0)
        self._watch = DelayedCommit(self._is_news, self._look_again)
        self._around.replicas.delay_produce(self._watch, [self.partition], wait_ms)

    def _is_news(self) -> bool:
        partition = self.partition
        return partition.is_leader and self._appends.is_committed(partition.log.high_watermark)

    def _look_again(self) -> None:
        self._guarded(self._refuse_overdue)

    def _refuse_overdue(self) -> Effects:
        """Tell the shard of those that take too long, unless they are committed just now."""
        if self._is_news():
            return []
        effects: Effects = []
        now = self._around.now()
        for one in self._appends.overdue(now.monotonic_ms):
            one.is_answered = True
            effects += self.shard.on_append_failed(one.completion, ErrorCode.REQUEST_TIMED_OUT, now)
        return effects
