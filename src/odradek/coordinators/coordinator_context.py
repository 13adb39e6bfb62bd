"""One coordinator shard and its partition: effects, appends and timers, from load to unload.

Each call to the shard returns effects, which are executed in order. Then committed appends are replayed,
oldest first, and completed, which may return more effects. This is a loop and never recurses: the shard is
not called while the effects of an earlier call are being executed.

Invariants: a record is replayed when it is committed, in log order, so that the shard's durable state always
equals that of a load up to the high watermark, or to the end of the load if the high watermark is held back
below it. A closed coordinator fires no timers, appends nothing and
replays nothing.
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

S = TypeVar("S", bound=CoordinatorShard)

ANY_OFFSET: Final = 0
"""Every advance of the high watermark may commit the oldest append, whichever that is by then."""
PENDING_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bound on a partition's appends that wait for replication. Kafka bounds only the requests of its clients;
while followers are stuck, those would accumulate with their records until they time out."""

log = events.logger("coordinators")


def _ignore_response(response: object) -> None:
    """Reply handle of a command that nothing waits for."""


def _reject_task(number: int, task: object) -> None:
    raise AssertionError(f"the coordinator of partition {number} has no tasks, got {task}")


class CoordinatorState(enum.Enum):
    LOADING = enum.auto()
    ACTIVE = enum.auto()
    CLOSED = enum.auto()


VALID_PREVIOUS_STATES: Final[dict[CoordinatorState, frozenset[CoordinatorState]]] = {
    CoordinatorState.LOADING: frozenset(),
    CoordinatorState.ACTIVE: frozenset({CoordinatorState.LOADING}),
    CoordinatorState.CLOSED: frozenset({CoordinatorState.LOADING, CoordinatorState.ACTIVE}),
}


class CoordinatorRuntimeSettings(NamedTuple):
    """Settings of all partitions of a topic. ``load_bytes_max`` is the size of one read while loading."""

    commit_timeout_ms: int
    load_bytes_max: int
    compression: Compression = Compression.NONE


class CoordinatorEnvironment(NamedTuple):
    """Dependencies of a coordinator. ``arm`` announces a deadline on the wheel to the timer driver.
    ``start_task`` starts the task of a partition's ``StartTask`` and returns at once."""

    replicas: ReplicaManager
    clock: Clock
    wheel: TimingWheel
    arm: Callable[[int], None]
    settings: Callable[[], CoordinatorRuntimeSettings]
    start_task: Callable[[int, Any], None] = _reject_task

    def now(self) -> Now:
        return Now(self.clock.wall_ms(), self.clock.monotonic_ms())


class CoordinatorTimers:
    """Timers of one coordinator, by key."""

    __slots__ = ("_environment", "_on_timer", "_timers")

    def __init__(self, environment: CoordinatorEnvironment, on_timer: Callable[[Hashable], None]) -> None:
        self._environment = environment
        self._on_timer = on_timer
        self._timers: dict[Hashable, Timer] = {}

    def schedule(self, key: Hashable, delay_ms: int) -> None:
        """Start a timer, or restart it."""
        timer = self._timers.get(key)
        if timer is None:
            timer = self._timers[key] = Timer(partial(self._fire, key))
        else:
            timer.cancel()
        deadline_ms = self._environment.clock.monotonic_ms() + delay_ms
        self._environment.wheel.schedule(timer, deadline_ms)
        self._environment.arm(deadline_ms)

    def cancel(self, key: Hashable) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def cancel_all(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _fire(self, key: Hashable) -> None:
        del self._timers[key]
        self._on_timer(key)


class CoordinatorContext(Generic[S]):
    __slots__ = (
        "_appends",
        "_delayed_commit",
        "_effects",
        "_environment",
        "_is_executing",
        "_timers",
        "leader_epoch",
        "load_end_offset",
        "partition",
        "shard",
        "state",
    )

    def __init__(self, partition: Partition, shard: S, environment: CoordinatorEnvironment) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        """Epoch of the leadership that this coordinator was created for."""
        self.load_end_offset = partition.log_end_offset
        """Everything below it is replayed by the load; what is appended later is replayed once committed."""
        self.shard = shard
        self.state = CoordinatorState.LOADING
        self._environment = environment
        self._appends = PendingAppends()
        self._effects: deque[Effect] = deque()
        self._timers = CoordinatorTimers(environment, self._on_timer)
        self._delayed_commit: DelayedCommit | None = None
        self._is_executing = False

    # Lifecycle.

    def _transition_to(self, state: CoordinatorState) -> None:
        assert self.state in VALID_PREVIOUS_STATES[state], f"{self.state.name} cannot become {state.name}"
        self.state = state

    def activate(self) -> None:
        """Start serving: the log has been replayed."""
        self._transition_to(CoordinatorState.ACTIVE)
        self._execute(self.shard.on_loaded(self._environment.now()))

    def close(self) -> None:
        """Reply to all waiting requests and stop: the partition is no longer led here."""
        was_active = self.state is CoordinatorState.ACTIVE
        self._transition_to(CoordinatorState.CLOSED)
        self._timers.cancel_all()
        self._appends.clear()
        if self._delayed_commit is not None:
            self._delayed_commit.discard()
        self._run_guarded(self.shard.on_unloaded if was_active else list)

    # Commands and markers.

    def submit(self, command: object, reply: Callable[[Any], None]) -> None:
        self._execute(self.shard.handle(command, reply, self._environment.now()))

    def submit_without_reply(self, command: object) -> None:
        self._run_guarded(lambda: self.shard.handle(command, _ignore_response, self._environment.now()))

    def end_marker_appended(self, producer_id: int, *, commits: bool, offset: int) -> None:
        """Track a transaction marker appended at this offset: it is replayed once it is committed."""
        marker = PendingAppend((TransactionMarker(producer_id, commits),), offset + 1, 0, None, None)
        marker.is_completed = True
        self._appends.add(marker)
        if self.state is CoordinatorState.ACTIVE:
            self._execute([])

    def _run_guarded(self, call: Callable[[], Effects]) -> None:
        """Execute the effects of a call made from a timer, a purgatory or a role change. These serve other
        components too, so an exception must not propagate to them."""
        try:
            self._execute(call())
        except Exception as error:  # noqa: BLE001 - the edge of a callback
            log.failure("coordinator_event_failed", error, partition=self.partition.topic_partition)

    # Effects.

    def _execute(self, effects: Effects) -> None:
        self._effects.extend(effects)
        if self._is_executing:
            return
        self._is_executing = True
        try:
            while self._effects or self._complete_next_append():
                if self._effects:
                    self._execute_effect(self._effects.popleft())
        finally:
            self._is_executing = False
            self._wait_for_commit()

    def _execute_effect(self, effect: Effect) -> None:
        if isinstance(effect, Reply):
            effect.to(effect.response)
        elif self.state is CoordinatorState.CLOSED:
            return
        elif isinstance(effect, ScheduleTimer):
            self._timers.schedule(effect.timer, effect.delay_ms)
        elif isinstance(effect, CancelTimer):
            self._timers.cancel(effect.timer)
        elif isinstance(effect, LogEvent):
            log.info(effect.event, **effect.fields)
        elif isinstance(effect, StartTask):
            self._environment.start_task(self.partition.topic_partition.partition, effect.task)
        else:
            self._append(effect)

    def _on_timer(self, key: Hashable) -> None:
        self._run_guarded(lambda: self.shard.on_timer(key, self._environment.now()))

    # Appends.

    def _append(self, effect: AppendRecords) -> None:
        now, settings = self._environment.now(), self._environment.settings()
        if self._appends.size_bytes >= PENDING_BYTES_MAX:
            self._fail(effect.completion, ErrorCode.NOT_ENOUGH_REPLICAS)
            return
        batch = _build_batch(effect, settings.compression, now.wall_ms)
        try:
            appended = self.partition.append_as_coordinator(batch, now.wall_ms)
        except BrokerError as error:
            self._fail(effect.completion, error.code)
            return
        producer_id = NO_PRODUCER_ID if effect.producer is None else effect.producer.producer_id
        replayed = effect.records if effect.content is None else (effect.content,)
        items = tuple([WrittenRecord(record, producer_id) for record in replayed])
        deadline_ms = now.monotonic_ms + settings.commit_timeout_ms
        append = PendingAppend(items, appended.last_offset + 1, len(batch), effect.completion, deadline_ms)
        self._appends.add(append)
        if self.partition.is_flush_pending:
            append.deadline_ms = None
            self._environment.replicas.flush(self.partition, partial(self._on_flushed, append))
        self._environment.replicas.complete_delayed_fetches(self.partition)

    def _fail(self, completion: object, code: ErrorCode) -> None:
        self._effects.extend(self.shard.on_append_failed(completion, code, self._environment.now()))

    def _on_flushed(self, append: PendingAppend, failure: StorageError | None) -> None:
        """Start the replication timeout of an append whose flush has ended."""
        if self.state is CoordinatorState.CLOSED:
            return
        environment = self._environment
        append.deadline_ms = environment.clock.monotonic_ms() + environment.settings().commit_timeout_ms
        if failure is None or append.is_completed:
            self._run_guarded(list)
            return
        append.is_completed = True
        code = ErrorCode.KAFKA_STORAGE_ERROR
        self._run_guarded(lambda: self.shard.on_append_failed(append.completion, code, environment.now()))

    # Commits.

    def _complete_next_append(self) -> bool:
        """Replay and complete the oldest append if it is committed; return whether it was."""
        if self.state is not CoordinatorState.ACTIVE or not self._is_next_committed():
            return False
        append = self._appends.pop()
        for item in append.items:
            self.replay(item)
        if not append.is_completed:
            code = self.partition.check_enough_replicas_reach_offset(
                append.required_offset, self.partition.leader_state
            )
            if code:
                self._fail(append.completion, code)
            else:
                now = self._environment.now()
                self._effects.extend(self.shard.on_append_committed(append.completion, now))
        return True

    def replay(self, item: LogItem) -> None:
        """Replay a record or marker of the log. An unreadable record is logged and skipped."""
        try:
            if isinstance(item, TransactionMarker):
                self.shard.replay_end_transaction_marker(item.producer_id, commits=item.commits)
            else:
                self.shard.replay(item.record, item.producer_id)
        except (BrokerError, ProtocolViolation, ValueError) as error:
            log.error("record_skipped", partition=self.partition.topic_partition, reason=str(error))

    def _wait_for_commit(self) -> None:
        """Watch for the commit or timeout of the oldest append. One operation serves all appends."""
        is_watched = self._delayed_commit is not None and not self._delayed_commit.completed
        if is_watched or not self._appends or self.state is not CoordinatorState.ACTIVE:
            return
        environment = self._environment
        now_ms, due_ms = environment.clock.monotonic_ms(), self._appends.next_deadline_ms()
        wait_ms = environment.settings().commit_timeout_ms if due_ms is None else max(due_ms - now_ms, 0)
        self._delayed_commit = DelayedCommit(self._is_next_committed, self._on_commit_or_timeout)
        environment.replicas.delay_produce(self._delayed_commit, {self.partition: ANY_OFFSET}, wait_ms)

    def _is_next_committed(self) -> bool:
        partition = self.partition
        return partition.is_leader and self._appends.is_committed(partition.high_watermark)

    def _on_commit_or_timeout(self) -> None:
        self._run_guarded(self._fail_timed_out)

    def _fail_timed_out(self) -> Effects:
        """Fail the appends that timed out, unless the oldest has just been committed."""
        if self._is_next_committed():
            return []
        effects: Effects = []
        now = self._environment.now()
        for append in self._appends.timed_out(now.monotonic_ms):
            append.is_completed = True
            effects += self.shard.on_append_failed(append.completion, ErrorCode.REQUEST_TIMED_OUT, now)
        return effects


def _build_batch(effect: AppendRecords, compression: Compression, now_ms: int) -> bytearray:
    producer = effect.producer
    if producer is None:
        builder = BatchBuilder(compression=compression)
    else:
        builder = BatchBuilder(
            compression=compression,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=0,  # as in Kafka's coordinators; the sequence is not checked
            transactional=True,
        )
    for key, value in effect.records:
        builder.append(now_ms, key, value)
    return bytearray(builder.build())
