"""Timeouts and expiration of transactional ids, and their states."""

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
from odradek.coordinators.transactions.handlers import (
    EXPIRATION_TIMER,
    IDS_PER_RUN_MAX,
    NEXT_RUN_MS,
    TIMEOUT_TIMER,
    TOMBSTONES_BYTES_MAX,
)
from odradek.coordinators.transactions.records import read_key, read_transaction, transaction_record
from odradek.coordinators.transactions.transaction_state import (
    STATE_IDS,
    STATE_NAMES,
    STATES_BY_ID,
    VALID_PREVIOUS_STATES,
    TransactionState,
)
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import TopicPartition

COUNT = 2 * IDS_PER_RUN_MAX + 7


def with_ids(*names: str, begun: bool = False) -> TransactionSimulation:
    """Return a simulation with these ids, each in a transaction if ``begun``."""
    simulation = TransactionSimulation()
    for name in names:
        simulation.submit(InitProducerId(name, 5_000), name)
        simulation.commit()
        if begun:
            stored = simulation.shard.ids[name].stored
            assert stored is not None
            simulation.submit(
                AddPartitions(name, stored.producer_id, 0, (TopicPartition("orders", 0),)), name
            )
            simulation.commit()
    return simulation


def names(count: int) -> list[str]:
    return [f"id-{number}" for number in range(count)]


def written_ids(simulation: TransactionSimulation) -> list[list[str | None]]:
    return [[read_key(record.key) for record in write.records] for write in simulation.writes]


def test_timed_out_transactions_are_aborted_in_several_steps() -> None:
    simulation = with_ids(*names(COUNT), begun=True)
    simulation.wait(9_999)
    assert simulation.writes == []
    simulation.wait(1)
    assert len(simulation.writes) == IDS_PER_RUN_MAX
    assert simulation.timers[TIMEOUT_TIMER] == simulation.elapsed_ms + NEXT_RUN_MS
    simulation.wait(2 * NEXT_RUN_MS)
    assert sorted(name for ids in written_ids(simulation) for name in ids if name) == sorted(names(COUNT))
    assert simulation.timers[TIMEOUT_TIMER] == simulation.elapsed_ms + 10_000
    simulation.commit_all()
    assert len(simulation.tasks) == COUNT


def test_idle_ids_are_not_checked_for_timeouts() -> None:
    simulation = with_ids(*names(IDS_PER_RUN_MAX + 1), begun=True)
    simulation.wait(10_000 + NEXT_RUN_MS)
    simulation.commit_all()
    for task in list(simulation.tasks):
        simulation.submit(MarkersWritten(task, task.partitions), task)
        simulation.commit()
    assert {listing.state for listing in simulation.shard.listing((), (), -1, 0)} == {"CompleteAbort"}
    simulation.wait(10_000)
    assert simulation.timers[TIMEOUT_TIMER] == simulation.elapsed_ms + 10_000


def test_expired_ids_are_deleted_in_several_steps() -> None:
    simulation = with_ids(*names(COUNT))
    simulation.set(id_retention_ms=1_000)
    simulation.wait(3_600_000 + 2 * NEXT_RUN_MS)
    assert [len(ids) for ids in written_ids(simulation)] == [IDS_PER_RUN_MAX, IDS_PER_RUN_MAX, 7]
    assert simulation.timers[EXPIRATION_TIMER] == simulation.elapsed_ms + 3_600_000
    simulation.commit_all()
    assert simulation.shard.ids == {}
    assert simulation.reloaded().ids == {}


@pytest.mark.parametrize(("retention_ms", "kept"), [(3_600_000, False), (3_600_001, True)])
def test_id_expires_after_the_retention_time(retention_ms: int, kept: bool) -> None:
    simulation = with_ids("a")
    simulation.set(id_retention_ms=retention_ms)
    simulation.wait(3_600_000)
    assert written_ids(simulation) == ([] if kept else [["a"]])


def test_long_ids_are_deleted_in_batches_of_limited_size() -> None:
    simulation = with_ids(*(f"{number}" * 10_000 for number in range(10)))
    simulation.set(id_retention_ms=1_000)
    simulation.wait(3_600_000 + NEXT_RUN_MS)
    sizes = [sum(len(record.key) for record in write.records) for write in simulation.writes]
    assert len(sizes) == 2
    assert sum(sizes) > 100_000
    assert max(sizes) < TOMBSTONES_BYTES_MAX + 10_100


def test_id_used_during_the_expiration_check_kept() -> None:
    simulation = with_ids("a", "b")
    simulation.set(id_retention_ms=1_000)
    simulation.wait(3_599_500)
    simulation.submit(InitProducerId("b", 5_000), "b")
    simulation.commit()
    simulation.wait(500)
    assert written_ids(simulation) == [["a"]]


def test_malformed_record_changes_nothing() -> None:
    simulation = with_ids("a")
    before = simulation.shard.listing((), (), -1, 0)
    for record in (
        CoordinatorRecord(b"\x00", b""),
        CoordinatorRecord(simulation.committed[0].key, b"\x00\x00\x01"),
    ):
        with pytest.raises(BrokerError):
            simulation.shard.replay(record)
    assert simulation.shard.listing((), (), -1, 0) == before == [TransactionListing("a", 1, "Empty")]


def test_records_of_unknown_types_are_ignored() -> None:
    simulation = with_ids()
    simulation.shard.replay(CoordinatorRecord(b"\x00\x07\x00\x01a", b"\x00\x00"))
    assert simulation.shard.ids == {}


def test_completion_of_an_append_before_unload_is_ignored() -> None:
    simulation = TransactionSimulation()
    simulation.submit(InitProducerId("a", 5_000), "a")
    (write,) = simulation.writes
    simulation.shard.on_unloaded()
    assert simulation.shard.on_append_committed(write.completion, simulation.now) == []
    assert (
        simulation.shard.on_append_failed(write.completion, ErrorCode.NOT_ENOUGH_REPLICAS, simulation.now)
        == []
    )


def test_load_of_an_empty_partition_schedules_timers() -> None:
    effects = TransactionSimulation().reloaded().on_loaded(TransactionSimulation().now)
    assert effects == [ScheduleTimer(TIMEOUT_TIMER, 10_000), ScheduleTimer(EXPIRATION_TIMER, 3_600_000)]


def test_new_producer_id_is_requested_before_anything_is_appended() -> None:
    simulation = TransactionSimulation()
    command = InitProducerId("a", 5_000, new_producer_id=70)
    (append,) = simulation.shard.handle(command, "a", simulation.now)
    assert isinstance(append, AppendRecords)
    assert append.records[0].value is not None
    assert read_transaction(append.records[0].value).producer_id == 70


def test_state_table_is_complete_and_has_kafkas_ids() -> None:
    assert set(VALID_PREVIOUS_STATES) == set(TransactionState)
    assert [STATE_IDS[state] for state in STATES_BY_ID] == list(range(8))
    assert len(STATE_NAMES) == 8
    # Every state can be reached from the first.
    reached = {TransactionState.EMPTY}
    for _ in TransactionState:
        reached |= {state for state, before in VALID_PREVIOUS_STATES.items() if before & reached}
    assert reached == set(TransactionState)


@pytest.mark.parametrize("state", [TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE])
def test_transient_state_in_the_log_is_a_server_error(state: TransactionState) -> None:
    simulation = with_ids("a")
    stored = simulation.shard.ids["a"].stored
    assert stored is not None
    simulation.shard.replay(transaction_record("a", stored._replace(state=state)))
    partition = TopicPartition("orders", 0)
    simulation.submit(InitProducerId("a", 5_000), 1)
    simulation.submit(AddPartitions("a", 1, 0, (partition,)), 2)
    simulation.submit(EndTransaction("a", 1, 0, commits=True), 3)
    assert simulation.answers_to(1) == [InitProducerIdResult(ErrorCode.UNKNOWN_SERVER_ERROR)]
    assert simulation.answers_to(2) == [AddPartitionsResult({partition: ErrorCode.UNKNOWN_SERVER_ERROR})]
    assert simulation.answers_to(3) == [ErrorCode.INVALID_TXN_STATE]
    assert simulation.writes == []
