"""What holds whatever happens: commands in any order, timers, writes that fail or are late, markers, moves.

The producers here are of the worst kind: they come under each other's ids, go on under epochs long gone, and
tell of markers that nobody asked them for any more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import lru_cache
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.simulation.transaction_simulation import TransactionSimulation

from odradek.coordinators.effects import CoordinatorRecord, Effect, Reply
from odradek.coordinators.transactions.commands import (
    AddPartitions,
    AddPartitionsResult,
    EndTransaction,
    InitProducerId,
    InitProducerIdResult,
    MarkersWritten,
    WriteMarkers,
)
from odradek.coordinators.transactions.records import (
    StoredTransaction,
    read_key,
    read_transaction,
    transaction_entry,
)
from odradek.coordinators.transactions.shard import (
    EXPIRATION_TIMER,
    TIMEOUT_TIMER,
    TransactionCoordinatorShard,
)
from odradek.coordinators.transactions.transaction_metadata import (
    NO_PRODUCER,
    ProducerIdAndEpoch,
    TransactionMetadata,
)
from odradek.coordinators.transactions.transaction_state import (
    AT_REST,
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
who = st.sampled_from([0, 0, 0, 0, 0, 1, 2, 5])
"""Which of those that were given out; 0 is the current one."""
some = st.lists(st.sampled_from(PARTITIONS), max_size=3).map(tuple)
STEPS: list[tuple[int, st.SearchStrategy[tuple[Any, ...]]]] = [
    (3, st.tuples(st.just("init"), names, st.just(-1))),
    (2, st.tuples(st.just("init"), names, who)),
    (5, st.tuples(st.just("add"), names, who, some, st.sampled_from([False, False, False, True]))),
    (4, st.tuples(st.just("end"), names, who, st.booleans())),
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
    """Carries out steps, and keeps what is needed to judge them."""

    def __init__(self) -> None:
        self.world = TransactionSimulation(id_retention_ms=60_000, ids_check_interval_ms=15_000)
        self.world.on_effect = self._on_effect
        self.commands: list[Any] = []
        self.given: dict[str, list[ProducerIdAndEpoch]] = defaultdict(list)
        self.asked: dict[ProducerIdAndEpoch, ProducerIdAndEpoch] = {}
        """Who was given out, and who had asked for it."""
        self.old_tasks: list[WriteMarkers] = []
        self.ledger: dict[tuple[str, int], dict[TopicPartition, bool]] = defaultdict(dict)
        """Markers in partitions, by transaction: which of the id's it was, and whether it committed."""

    @property
    def shard(self) -> TransactionCoordinatorShard:
        return self.world.shard

    def step(self, word: str, *given: Any) -> None:
        getattr(self, f"_{word}")(*given)
        self.check()

    # Commands.

    def _submit(self, command: Any) -> None:
        to, before = len(self.commands), everything(self.world)
        self.commands.append(command)
        self.world.submit(command, to)
        if any(code_of(answer) is not ErrorCode.NONE for answer in self.world.answers_to(to)):
            assert everything(self.world) == before, "what was refused at once changed something"

    def _who(self, name: str, number: int) -> ProducerIdAndEpoch:
        one = self.shard.ids.get(name)
        stored = None if one is None else one.stored
        if number == 0 and stored is not None:
            return ProducerIdAndEpoch(stored.producer_id, stored.producer_epoch)
        known = self.given[name]
        return known[-number] if 0 < number <= len(known) else ProducerIdAndEpoch(77, 7)

    def _init(self, name: str, number: int) -> None:
        asks = NO_PRODUCER if number < 0 else self._who(name, number)
        self._submit(InitProducerId(name, 30_000, *asks))

    def _add(self, name: str, number: int, partitions: tuple[TopicPartition, ...], verifies: bool) -> None:
        self._submit(AddPartitions(name, *self._who(name, number), partitions, verifies))

    def _end(self, name: str, number: int, commits: bool) -> None:
        self._submit(EndTransaction(name, *self._who(name, number), commits))

    def _transact(self) -> None:
        """Begin and end a transaction as one should, for once."""
        for command in (
            lambda: self._init("a", -1),
            lambda: self._add("a", 0, tuple(PARTITIONS[:2]), False),
            lambda: self._end("a", 0, True),
        ):
            command()
            self.check()
            self.world.commit_all()

    # Markers.

    def _markers(self, number: int, count: int) -> None:
        tasks = self.world.tasks
        if not tasks:
            return
        task = tasks[number % len(tasks)]
        partitions = task.partitions[:count] if count < len(PARTITIONS) else task.partitions
        one = self.shard.ids.get(task.transactional_id)
        if one is not None and one.task is task:
            self._mark(task, partitions)
        self._submit(MarkersWritten(task, partitions))

    def _mark(self, task: WriteMarkers, partitions: tuple[TopicPartition, ...]) -> None:
        last = history(self.world.committed, task.transactional_id)[-1]
        assert last is not None
        assert last.state is (
            TransactionState.PREPARE_COMMIT if task.commits else TransactionState.PREPARE_ABORT
        )
        assert set(task.partitions) == last.partitions
        marked = self.ledger[task.transactional_id, self._count(task.transactional_id)]
        for partition in partitions:
            assert marked.setdefault(partition, task.commits) is task.commits, "both committed and aborted"

    def _count(self, name: str) -> int:
        """How many transactions of an id have begun."""
        return len(transactions(history(self.world.committed, name)))

    def _stale_markers(self, number: int) -> None:
        if self.old_tasks:
            task = self.old_tasks[number % len(self.old_tasks)]
            self._submit(MarkersWritten(task, task.partitions))
            assert self.world.answers[-1][1] is ErrorCode.INVALID_TXN_STATE

    # The log, time, moves.

    def _commit(self) -> None:
        if self.world.writes:
            self.world.commit()

    def _refuse(self, code: ErrorCode) -> None:
        if self.world.writes:
            self.world.refuse(code)

    def _delay(self, code: ErrorCode) -> None:
        if self.world.writes:
            self.world.delay(code)

    def _refuse_committed(self) -> None:
        if self.world.writes:
            self.world.refuse_committed()

    def _catch_up(self) -> None:
        self.world.catch_up()

    def _wait(self, ms: int) -> None:
        self.world.wait(ms)

    def _move(self, with_late: bool) -> None:
        self.old_tasks += self.world.tasks
        self.world.move(with_late=with_late)

    def _use_up_epochs(self, name: str) -> None:
        """As if the producer had come back thirty thousand times, with nothing on its way to the log."""
        one = self.shard.ids.get(name)
        if one is None or one.is_busy or self.world.writes or self.world.late:
            return
        if one.stored is not None and one.stored.state in AT_REST:
            raised = one.stored._replace(producer_epoch=max(one.stored.producer_epoch, EPOCH_MAX - 3))
            entry = transaction_entry(name, raised)
            self.world.committed.append(entry)
            self.shard.replay(entry)

    def settle(self) -> None:
        """Let all that is under way come to its end. Meanwhile more may be due, but not for ever."""
        for _ in range(10):
            self.world.wait(RETRY_MS)
            self.world.catch_up()
            self.world.commit_all()
            for number in range(len(self.world.tasks)):
                self._markers(number, len(PARTITIONS))
                self.world.commit_all()
                self.check()
            if not any(one.is_busy for one in self.shard.ids.values()):
                return

    # What is answered.

    def _on_effect(self, effect: Effect) -> None:
        if isinstance(effect, Reply) and code_of(effect.response) is ErrorCode.NONE:
            command = self.commands[effect.to]
            if not isinstance(command, MarkersWritten):
                self._judge_success(command, effect.response)

    def _judge_success(self, command: Any, answer: Any) -> None:
        stored = self.shard.ids[command.transactional_id].stored
        assert stored is not None
        current = ProducerIdAndEpoch(stored.producer_id, stored.producer_epoch)
        asked = ProducerIdAndEpoch(command.producer_id, command.producer_epoch)
        if not isinstance(answer, InitProducerIdResult):
            assert asked == current, "a producer of an old epoch got through"
            return
        given = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
        assert given == current
        assert answer.producer_epoch < EPOCH_MAX
        assert stored.state is TransactionState.EMPTY
        if given in self.asked:
            assert asked != NO_PRODUCER
            assert self.asked[given] == asked, "two producers were given the same epoch"
        self.asked[given] = asked
        self.given[command.transactional_id].append(given)

    # What always holds.

    def check(self) -> None:
        world = self.world
        assert max(Counter(to for to, _ in world.answers).values(), default=1) == 1
        assert durable(world.shard) == durable(world.reloaded())
        assert {TIMEOUT_TIMER, EXPIRATION_TIMER} <= set(world.timers)
        for one in world.shard.ids.values():
            assert not one.is_nothing
            assert not one.is_busy or self._gets_on(one), f"{one.name} is stuck"
        for name in NAMES:
            self._check_history(name)

    def _gets_on(self, one: TransactionMetadata) -> bool:
        is_written = any(one in (each for each, _ in write.completion.changes) for write in self.world.writes)
        is_marked = any(one.task is task for task in self.world.tasks) and bool(one.partitions_without_marker)
        return is_written or is_marked or RetryTimer(one.name) in self.world.timers

    def _check_history(self, name: str) -> None:
        told = history(self.world.committed, name)
        for before, after in zip([None, *told], told, strict=False):
            check_step(before, after)
        for number, transaction in enumerate(transactions(told), 1):
            ends = {one.state for one in transaction} & PREPARED
            assert len(ends) <= 1, "settled twice"
            if transaction[-1].state in AT_REST:
                prepared = transaction[-2]
                commits = prepared.state is TransactionState.PREPARE_COMMIT
                assert self.ledger[name, number] == dict.fromkeys(prepared.partitions, commits)


def code_of(answer: Any) -> ErrorCode | None:
    match answer:
        case InitProducerIdResult(code):
            return code
        case AddPartitionsResult(errors):
            return next(iter(errors.values()), None)
    assert isinstance(answer, ErrorCode)
    return answer


def durable(shard: TransactionCoordinatorShard) -> dict[str, StoredTransaction]:
    return {name: one.stored for name, one in shard.ids.items() if one.stored is not None}


def everything(world: TransactionSimulation) -> Any:
    ids = {
        name: (one.stored, one.previous, one.pending_transition, one.task, set(one.partitions_without_marker))
        for name, one in world.shard.ids.items()
    }
    return ids, dict(world.timers), list(world.writes), list(world.tasks)


def history(committed: list[CoordinatorRecord], name: str) -> list[StoredTransaction | None]:
    """What the log says of an id, without what it says twice in a row."""
    told: list[StoredTransaction | None] = []
    for entry in committed:
        about, stored = read(entry)
        if about == name and (not told or told[-1] != stored):
            told.append(stored)
    return told


@lru_cache(maxsize=1_000)
def read(entry: CoordinatorRecord) -> tuple[str | None, StoredTransaction | None]:
    return read_key(entry.key), None if entry.value is None else read_transaction(entry.value)


def transactions(told: list[StoredTransaction | None]) -> list[list[StoredTransaction]]:
    """The states of each transaction: from Ongoing to what completes it, if that has come."""
    found: list[list[StoredTransaction]] = []
    before: StoredTransaction | None = None
    for stored in told:
        if (
            stored is not None
            and stored.state is TransactionState.ONGOING
            and before
            and before.state in AT_REST
        ):
            found.append([])
        if stored is not None and found and stored.state is not TransactionState.EMPTY:
            is_again = before is not None and before.state in AT_REST and stored.state in AT_REST
            if not is_again:
                found[-1].append(stored)
        before = stored
    return found


def check_step(before: StoredTransaction | None, after: StoredTransaction | None) -> None:
    if after is None:
        assert before is not None
        assert before.state in AT_REST
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
def test_answers_epochs_markers_and_the_log_agree_whatever_happens(script: list[tuple[Any, ...]]) -> None:
    producers = Producers()
    for step in script:
        producers.step(*step)
    producers.settle()
    assert not [one.name for one in producers.shard.ids.values() if one.is_busy]
    producers.world.move()
    counts = Counter(to for to, _ in producers.world.answers)
    assert counts == Counter(range(len(producers.commands)))


@given(st.lists(steps, min_size=20, max_size=60), st.booleans())
def test_what_is_prepared_when_a_partition_moves_is_finished_by_the_next_leader(
    script: list[tuple[Any, ...]], with_late: bool
) -> None:
    producers = Producers()
    for step in script:
        producers.step(*step)
    producers.step("move", with_late)
    prepared = {name: each for name, each in durable(producers.shard).items() if each.state in PREPARED}
    counts = {name: len(history(producers.world.committed, name)) for name in prepared}
    producers.settle()
    for name, before in prepared.items():
        after = history(producers.world.committed, name)[counts[name]]
        commits = before.state is TransactionState.PREPARE_COMMIT
        assert after is not None
        assert after.state is (
            TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT
        )
