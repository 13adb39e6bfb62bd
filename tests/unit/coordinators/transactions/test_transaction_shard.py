"""What a shard does by itself: end what takes too long, forget what nobody uses, a part at a time."""

from __future__ import annotations

import pytest
from tests.support.simulation.transaction_simulation import TransactionSimulation

from odradek.coordinators.effects import AppendRecords, CoordinatorRecord, ScheduleTimer
from odradek.coordinators.transactions.commands import (
    AddPartitions,
    AddPartitionsResult,
    EndTransaction,
    InitProducerId,
    InitProducerIdResult,
    MarkersWritten,
    TransactionListing,
)
from odradek.coordinators.transactions.records import read_key, read_transaction, transaction_entry
from odradek.coordinators.transactions.shard import (
    EXPIRATION_TIMER,
    IDS_AT_ONCE_MAX,
    NEXT_TURN_MS,
    TIMEOUT_TIMER,
    TOMBSTONES_BYTES_MAX,
)
from odradek.coordinators.transactions.transaction_state import (
    BY_NUMBER,
    NUMBERS,
    STATE_NAMES,
    VALID_PREVIOUS_STATES,
    TransactionState,
)
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import TopicPartition

COUNT = 2 * IDS_AT_ONCE_MAX + 7


def with_ids(*names: str, begun: bool = False) -> TransactionSimulation:
    """A world with these ids, each in a transaction if it is wanted so."""
    world = TransactionSimulation()
    for name in names:
        world.submit(InitProducerId(name, 5_000), name)
        world.commit()
        if begun:
            stored = world.shard.ids[name].stored
            assert stored is not None
            world.submit(AddPartitions(name, stored.producer_id, 0, (TopicPartition("orders", 0),)), name)
            world.commit()
    return world


def names(count: int) -> list[str]:
    return [f"id-{number}" for number in range(count)]


def written(world: TransactionSimulation) -> list[list[str | None]]:
    return [[read_key(entry.key) for entry in write.entries] for write in world.writes]


def test_long_transactions_are_ended_some_at_a_time() -> None:
    world = with_ids(*names(COUNT), begun=True)
    world.wait(9_999)
    assert world.writes == []
    world.wait(1)
    assert len(world.writes) == IDS_AT_ONCE_MAX
    assert world.timers[TIMEOUT_TIMER] == world.elapsed_ms + NEXT_TURN_MS
    world.wait(2 * NEXT_TURN_MS)
    assert sorted(name for one in written(world) for name in one if name) == sorted(names(COUNT))
    assert world.timers[TIMEOUT_TIMER] == world.elapsed_ms + 10_000
    world.commit_all()
    assert len(world.tasks) == COUNT


def test_ids_at_rest_cost_the_look_for_long_transactions_nothing() -> None:
    world = with_ids(*names(IDS_AT_ONCE_MAX + 1), begun=True)
    world.wait(10_000 + NEXT_TURN_MS)
    world.commit_all()
    for task in list(world.tasks):
        world.submit(MarkersWritten(task, task.partitions), task)
        world.commit()
    assert {one.state for one in world.shard.listing((), (), -1, 0)} == {"CompleteAbort"}
    world.wait(10_000)
    assert world.timers[TIMEOUT_TIMER] == world.elapsed_ms + 10_000


def test_unused_ids_are_forgotten_some_at_a_time_and_for_good() -> None:
    world = with_ids(*names(COUNT))
    world.set(id_retention_ms=1_000)
    world.wait(3_600_000 + 2 * NEXT_TURN_MS)
    assert [len(one) for one in written(world)] == [IDS_AT_ONCE_MAX, IDS_AT_ONCE_MAX, 7]
    assert world.timers[EXPIRATION_TIMER] == world.elapsed_ms + 3_600_000
    world.commit_all()
    assert world.shard.ids == {}
    assert world.reloaded().ids == {}


@pytest.mark.parametrize(("retention_ms", "is_kept"), [(3_600_000, False), (3_600_001, True)])
def test_an_id_is_kept_for_as_long_as_is_set(retention_ms: int, is_kept: bool) -> None:
    world = with_ids("a")
    world.set(id_retention_ms=retention_ms)
    world.wait(3_600_000)
    assert written(world) == ([] if is_kept else [["a"]])


def test_ids_with_long_names_are_forgotten_in_batches_that_the_topic_takes() -> None:
    world = with_ids(*(f"{number}" * 10_000 for number in range(10)))
    world.set(id_retention_ms=1_000)
    world.wait(3_600_000 + NEXT_TURN_MS)
    sizes = [sum(len(entry.key) for entry in write.entries) for write in world.writes]
    assert len(sizes) == 2
    assert sum(sizes) > 100_000
    assert max(sizes) < TOMBSTONES_BYTES_MAX + 10_100


def test_what_is_used_meanwhile_is_kept() -> None:
    world = with_ids("a", "b")
    world.set(id_retention_ms=1_000)
    world.wait(3_599_500)
    world.submit(InitProducerId("b", 5_000), "b")
    world.commit()
    world.wait(500)
    assert written(world) == [["a"]]


def test_a_record_that_cannot_be_read_changes_nothing() -> None:
    world = with_ids("a")
    before = world.shard.listing((), (), -1, 0)
    for entry in (
        CoordinatorRecord(b"\x00", b""),
        CoordinatorRecord(world.committed[0].key, b"\x00\x00\x01"),
    ):
        with pytest.raises(BrokerError):
            world.shard.replay(entry)
    assert world.shard.listing((), (), -1, 0) == before == [TransactionListing("a", 1, "Empty")]


def test_records_of_other_kinds_are_passed_over() -> None:
    world = with_ids()
    world.shard.replay(CoordinatorRecord(b"\x00\x07\x00\x01a", b"\x00\x00"))
    assert world.shard.ids == {}


def test_the_fate_of_a_write_of_an_earlier_life_is_nobodys() -> None:
    world = TransactionSimulation()
    world.submit(InitProducerId("a", 5_000), "a")
    (write,) = world.writes
    world.shard.on_unloaded()
    assert world.shard.on_append_committed(write.completion, world.now) == []
    assert world.shard.on_append_failed(write.completion, ErrorCode.NOT_ENOUGH_REPLICAS, world.now) == []


def test_a_start_with_nothing_looks_after_time() -> None:
    effects = TransactionSimulation().reloaded().on_loaded(TransactionSimulation().now)
    assert effects == [ScheduleTimer(TIMEOUT_TIMER, 10_000), ScheduleTimer(EXPIRATION_TIMER, 3_600_000)]


def test_a_producer_id_is_asked_for_before_anything_is_written() -> None:
    world = TransactionSimulation()
    command = InitProducerId("a", 5_000, new_producer_id=70)
    (append,) = world.shard.handle(command, "a", world.now)
    assert isinstance(append, AppendRecords)
    assert append.entries[0].value is not None
    assert read_transaction(append.entries[0].value).producer_id == 70


def test_the_table_of_states_has_all_and_kafkas_numbers() -> None:
    assert set(VALID_PREVIOUS_STATES) == set(TransactionState)
    assert [NUMBERS[state] for state in BY_NUMBER] == list(range(8))
    assert len(STATE_NAMES) == 8
    # Every state that is written can be left, and reached from the first.
    reached = {TransactionState.EMPTY}
    for _ in TransactionState:
        reached |= {state for state, before in VALID_PREVIOUS_STATES.items() if before & reached}
    assert reached == set(TransactionState)


@pytest.mark.parametrize("state", [TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE])
def test_a_state_that_nobody_writes_is_answered_as_a_fault_and_left_alone(state: TransactionState) -> None:
    world = with_ids("a")
    stored = world.shard.ids["a"].stored
    assert stored is not None
    world.shard.replay(transaction_entry("a", stored._replace(state=state)))
    partition = TopicPartition("orders", 0)
    world.submit(InitProducerId("a", 5_000), 1)
    world.submit(AddPartitions("a", 1, 0, (partition,)), 2)
    world.submit(EndTransaction("a", 1, 0, commits=True), 3)
    assert world.answers_to(1) == [InitProducerIdResult(ErrorCode.UNKNOWN_SERVER_ERROR)]
    assert world.answers_to(2) == [AddPartitionsResult({partition: ErrorCode.UNKNOWN_SERVER_ERROR})]
    assert world.answers_to(3) == [ErrorCode.INVALID_TXN_STATE]
    assert world.writes == []
