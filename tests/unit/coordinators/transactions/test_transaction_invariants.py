"""Invariants of transactions under any sequence of commands, timers, failed and late appends, and moves.

The producers use each other's ids, recover with old epochs, and report markers of tasks that have ended.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import lru_cache
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.simulation.transaction_simulation import TransactionSimulation

from odradek.coordinators.effects import CoordinatorRecord, Effect, ProducerIdAndEpoch, Reply
from odradek.coordinators.transactions.commands import (
    AddPartitions,
    AddPartitionsResult,
    EndTransaction,
    InitProducerId,
    InitProducerIdResult,
    MarkersWritten,
    WriteMarkers,
)
from odradek.coordinators.transactions.handlers import EXPIRATION_TIMER, TIMEOUT_TIMER
from odradek.coordinators.transactions.records import (
    StoredTransaction,
    read_key,
    read_transaction,
    transaction_record,
)
from odradek.coordinators.transactions.shard import TransactionCoordinatorShard
from odradek.coordinators.transactions.transaction_metadata import NO_PRODUCER, TransactionMetadata
from odradek.coordinators.transactions.transaction_state import (
    IDLE,
    PREPARED,
    VALID_PREVIOUS_STATES,
    TransactionState,
)
from odradek.coordinators.transactions.transition_appends import RETRY_MS, RetryTimer
from odradek.coordinators.transactions.transitions import EPOCH_MAX
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition

NAMES = ["a", "b"]
PARTITIONS = [TopicPartition("orders", number) for number in range(4)]
NOT_WRITTEN = [
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
]
LATE = [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR]

names = st.sampled_from(NAMES)
producer_indexes = st.sampled_from([0, 0, 0, 0, 0, 1, 2, 5])
"""0 is the current producer, others count back from the last one that was initialized."""
partition_tuples = st.lists(st.sampled_from(PARTITIONS), max_size=3).map(tuple)
STEPS: list[tuple[int, st.SearchStrategy[tuple[Any, ...]]]] = [
    (3, st.tuples(st.just("init"), names, st.just(-1))),
    (2, st.tuples(st.just("init"), names, producer_indexes)),
    (
        5,
        st.tuples(
            st.just("add"),
            names,
            producer_indexes,
            partition_tuples,
            st.sampled_from([False, False, False, True]),
        ),
    ),
    (4, st.tuples(st.just("end"), names, producer_indexes, st.booleans())),
    (3, st.just(("transact",))),
    (4, st.tuples(st.just("markers"), st.integers(0, 3), st.integers(0, 4))),
    (1, st.tuples(st.just("stale_markers"), st.integers(0, 9))),
    (8, st.just(("commit",))),
    (1, st.tuples(st.just("refuse"), st.sampled_from(NOT_WRITTEN))),
    (1, st.tuples(st.just("delay"), st.sampled_from(LATE))),
    (1, st.just(("refuse_committed",))),
    (2, st.just(("catch_up",))),
    (2, st.tuples(st.just("wait"), st.sampled_from([0, RETRY_MS, 10_000, 20_000]))),
    (1, st.tuples(st.just("move"), st.booleans())),
    (1, st.tuples(st.just("use_up_epochs"), names)),
]
steps = st.one_of([step for weight, step in STEPS for _ in range(weight)])


class Producers:
    """Executes steps, and keeps what is needed to check them."""

    def __init__(self) -> None:
        self.simulation = TransactionSimulation(id_retention_ms=60_000, ids_check_interval_ms=15_000)
        self.simulation.on_effect = self._on_effect
        self.commands: list[Any] = []
        self.initialized: dict[str, list[ProducerIdAndEpoch]] = defaultdict(list)
        self.requested_by: dict[ProducerIdAndEpoch, ProducerIdAndEpoch] = {}
        """The producer in the InitProducerId request, by the producer it returned."""
        self.old_tasks: list[WriteMarkers] = []
        self.ledger: dict[tuple[str, int], dict[TopicPartition, bool]] = defaultdict(dict)
        """Markers by transaction, which is an id and a number: whether each partition was committed."""

    @property
    def shard(self) -> TransactionCoordinatorShard:
        return self.simulation.shard

    def step(self, name: str, *arguments: Any) -> None:
        getattr(self, f"_{name}")(*arguments)
        self.check()

    # Commands.

    def _submit(self, command: Any) -> None:
        to, before = len(self.commands), snapshot(self.simulation)
        self.commands.append(command)
        self.simulation.submit(command, to)
        if any(code_of(response) is not ErrorCode.NONE for response in self.simulation.answers_to(to)):
            assert snapshot(self.simulation) == before, "a rejected command changed the state"

    def _producer(self, name: str, index: int) -> ProducerIdAndEpoch:
        metadata = self.shard.ids.get(name)
        stored = None if metadata is None else metadata.stored
        if index == 0 and stored is not None:
            return ProducerIdAndEpoch(stored.producer_id, stored.producer_epoch)
        known = self.initialized[name]
        return known[-index] if 0 < index <= len(known) else ProducerIdAndEpoch(77, 7)

    def _init(self, name: str, index: int) -> None:
        producer = NO_PRODUCER if index < 0 else self._producer(name, index)
        self._submit(InitProducerId(name, 30_000, *producer))

    def _add(self, name: str, index: int, partitions: tuple[TopicPartition, ...], verify_only: bool) -> None:
        self._submit(AddPartitions(name, *self._producer(name, index), partitions, verify_only))

    def _end(self, name: str, index: int, commits: bool) -> None:
        self._submit(EndTransaction(name, *self._producer(name, index), commits))

    def _transact(self) -> None:
        """Begin and commit a transaction."""
        for command in (
            lambda: self._init("a", -1),
            lambda: self._add("a", 0, tuple(PARTITIONS[:2]), False),
            lambda: self._end("a", 0, True),
        ):
            command()
            self.check()
            self.simulation.commit_all()

    # Markers.

    def _markers(self, number: int, count: int) -> None:
        tasks = self.simulation.tasks
        if not tasks:
            return
        task = tasks[number % len(tasks)]
        partitions = task.partitions[:count] if count < len(PARTITIONS) else task.partitions
        metadata = self.shard.ids.get(task.transactional_id)
        if metadata is not None and metadata.task is task:
            self._mark(task, partitions)
        self._submit(MarkersWritten(task, partitions))

    def _mark(self, task: WriteMarkers, partitions: tuple[TopicPartition, ...]) -> None:
        last = history(self.simulation.committed, task.transactional_id)[-1]
        assert last is not None
        assert last.state is (
            TransactionState.PREPARE_COMMIT if task.commits else TransactionState.PREPARE_ABORT
        )
        assert set(task.partitions) == last.partitions
        marked = self.ledger[task.transactional_id, self._count(task.transactional_id)]
        for partition in partitions:
            assert marked.setdefault(partition, task.commits) is task.commits, "both committed and aborted"

    def _count(self, name: str) -> int:
        """Return the number of transactions of an id."""
        return len(transactions(history(self.simulation.committed, name)))

    def _stale_markers(self, number: int) -> None:
        if self.old_tasks:
            task = self.old_tasks[number % len(self.old_tasks)]
            self._submit(MarkersWritten(task, task.partitions))
            assert self.simulation.answers[-1][1] is ErrorCode.INVALID_TXN_STATE

    # The log, time, moves.

    def _commit(self) -> None:
        if self.simulation.writes:
            self.simulation.commit()

    def _refuse(self, code: ErrorCode) -> None:
        if self.simulation.writes:
            self.simulation.refuse(code)

    def _delay(self, code: ErrorCode) -> None:
        if self.simulation.writes:
            self.simulation.delay(code)

    def _refuse_committed(self) -> None:
        if self.simulation.writes:
            self.simulation.refuse_committed()

    def _catch_up(self) -> None:
        self.simulation.catch_up()

    def _wait(self, ms: int) -> None:
        self.simulation.wait(ms)

    def _move(self, with_late: bool) -> None:
        self.old_tasks += self.simulation.tasks
        self.simulation.move(with_late=with_late)

    def _use_up_epochs(self, name: str) -> None:
        """Raise the epoch of an idle id without pending appends almost to the maximum."""
        metadata = self.shard.ids.get(name)
        if metadata is None or metadata.is_busy or self.simulation.writes or self.simulation.late:
            return
        stored = metadata.stored
        if stored is not None and stored.state in IDLE:
            raised = stored._replace(producer_epoch=max(stored.producer_epoch, EPOCH_MAX - 3))
            record = transaction_record(name, raised)
            self.simulation.committed.append(record)
            self.shard.replay(record)

    def settle(self) -> None:
        """Complete everything that is pending. This may start more, but not endlessly."""
        for _ in range(10):
            self.simulation.wait(RETRY_MS)
            self.simulation.catch_up()
            self.simulation.commit_all()
            for number in range(len(self.simulation.tasks)):
                self._markers(number, len(PARTITIONS))
                self.simulation.commit_all()
                self.check()
            if not any(metadata.is_busy for metadata in self.shard.ids.values()):
                return

    # Responses.

    def _on_effect(self, effect: Effect) -> None:
        if isinstance(effect, Reply) and code_of(effect.response) is ErrorCode.NONE:
            command = self.commands[effect.to]
            if not isinstance(command, MarkersWritten):
                self._check_success(command, effect.response)

    def _check_success(self, command: Any, response: Any) -> None:
        stored = self.shard.ids[command.transactional_id].stored
        assert stored is not None
        current = ProducerIdAndEpoch(stored.producer_id, stored.producer_epoch)
        requested = ProducerIdAndEpoch(command.producer_id, command.producer_epoch)
        if not isinstance(response, InitProducerIdResult):
            assert requested == current, "a producer with an old epoch was not fenced"
            return
        producer = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
        assert producer == current
        assert response.producer_epoch < EPOCH_MAX
        assert stored.state is TransactionState.EMPTY
        if producer in self.requested_by:
            assert requested != NO_PRODUCER
            assert self.requested_by[producer] == requested, "two producers have the same epoch"
        self.requested_by[producer] = requested
        self.initialized[command.transactional_id].append(producer)

    # Invariants.

    def check(self) -> None:
        simulation = self.simulation
        assert max(Counter(to for to, _ in simulation.answers).values(), default=1) == 1
        assert durable(simulation.shard) == durable(simulation.reloaded())
        assert {TIMEOUT_TIMER, EXPIRATION_TIMER} <= set(simulation.timers)
        for metadata in simulation.shard.ids.values():
            assert not metadata.is_removable
            assert not metadata.is_busy or self._makes_progress(metadata), "transaction is stuck"
        for name in NAMES:
            self._check_history(name)

    def _makes_progress(self, metadata: TransactionMetadata) -> bool:
        simulation = self.simulation
        is_appended = any(
            metadata in (each for each, _ in write.completion.transitions) for write in simulation.writes
        )
        has_task = any(metadata.task is task for task in simulation.tasks)
        is_retried = RetryTimer(metadata.transactional_id) in simulation.timers
        return is_appended or (has_task and bool(metadata.partitions_without_marker)) or is_retried

    def _check_history(self, name: str) -> None:
        states = history(self.simulation.committed, name)
        for before, after in zip([None, *states], states, strict=False):
            check_transition(before, after)
        for number, transaction in enumerate(transactions(states), 1):
            outcomes = {stored.state for stored in transaction} & PREPARED
            assert len(outcomes) <= 1, "the transaction has two outcomes"
            if transaction[-1].state in IDLE:
                prepared = transaction[-2]
                commits = prepared.state is TransactionState.PREPARE_COMMIT
                assert self.ledger[name, number] == dict.fromkeys(prepared.partitions, commits)


def code_of(response: Any) -> ErrorCode | None:
    match response:
        case InitProducerIdResult(code):
            return code
        case AddPartitionsResult(errors):
            return next(iter(errors.values()), None)
    assert isinstance(response, ErrorCode)
    return response


def durable(shard: TransactionCoordinatorShard) -> dict[str, StoredTransaction]:
    return {name: each.stored for name, each in shard.ids.items() if each.stored is not None}


def snapshot(simulation: TransactionSimulation) -> Any:
    ids = {
        name: (
            each.stored,
            each.previous,
            each.pending_transition,
            each.task,
            set(each.partitions_without_marker),
        )
        for name, each in simulation.shard.ids.items()
    }
    return ids, dict(simulation.timers), list(simulation.writes), list(simulation.tasks)


def history(committed: list[CoordinatorRecord], name: str) -> list[StoredTransaction | None]:
    """Return the records of an id in the log, without repetitions."""
    states: list[StoredTransaction | None] = []
    for record in committed:
        key, stored = read(record)
        if key == name and (not states or states[-1] != stored):
            states.append(stored)
    return states


@lru_cache(maxsize=1_000)
def read(record: CoordinatorRecord) -> tuple[str | None, StoredTransaction | None]:
    return read_key(record.key), None if record.value is None else read_transaction(record.value)


def transactions(states: list[StoredTransaction | None]) -> list[list[StoredTransaction]]:
    """Return the states of each transaction, from Ongoing to its completion, if it is complete."""
    result: list[list[StoredTransaction]] = []
    before: StoredTransaction | None = None
    for stored in states:
        if (
            stored is not None
            and stored.state is TransactionState.ONGOING
            and before
            and before.state in IDLE
        ):
            result.append([])
        if stored is not None and result and stored.state is not TransactionState.EMPTY:
            is_repeated = before is not None and before.state in IDLE and stored.state in IDLE
            if not is_repeated:
                result[-1].append(stored)
        before = stored
    return result


def check_transition(before: StoredTransaction | None, after: StoredTransaction | None) -> None:
    if after is None:
        assert before is not None
        assert before.state in IDLE
        return
    if before is None:
        assert (after.state, after.producer_epoch) == (TransactionState.EMPTY, 0)
        return
    is_raised = before._replace(producer_epoch=after.producer_epoch) == after
    assert is_raised or before.state in VALID_PREVIOUS_STATES[after.state]
    if before.producer_id == after.producer_id:
        assert before.producer_epoch <= after.producer_epoch
    else:
        assert (after.state, after.producer_epoch) == (TransactionState.EMPTY, 0)
        assert before.producer_epoch >= EPOCH_MAX - 1
    if before.state is TransactionState.ONGOING:
        assert before.partitions <= after.partitions


@given(st.lists(steps, min_size=50, max_size=100))
def test_transaction_invariants_hold_for_any_sequence_of_events(script: list[tuple[Any, ...]]) -> None:
    producers = Producers()
    for step in script:
        producers.step(*step)
    producers.settle()
    assert not [name for name, metadata in producers.shard.ids.items() if metadata.is_busy]
    producers.simulation.move()
    counts = Counter(to for to, _ in producers.simulation.answers)
    assert counts == Counter(range(len(producers.commands)))


@given(st.lists(steps, min_size=20, max_size=60), st.booleans())
def test_prepared_transaction_is_completed_by_the_next_leader(
    script: list[tuple[Any, ...]], with_late: bool
) -> None:
    producers = Producers()
    for step in script:
        producers.step(*step)
    producers.step("move", with_late)
    prepared = {name: each for name, each in durable(producers.shard).items() if each.state in PREPARED}
    counts = {name: len(history(producers.simulation.committed, name)) for name in prepared}
    producers.settle()
    for name, before in prepared.items():
        after = history(producers.simulation.committed, name)[counts[name]]
        commits = before.state is TransactionState.PREPARE_COMMIT
        assert after is not None
        assert after.state is (
            TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT
        )
