"""Transactions in a whole broker: visibility, fencing, failures."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from odradek.model.errors import ErrorCode
from odradek.model.ids import OFFSETS_TOPIC
from odradek.testing.broker import ConnectionEnded
from odradek.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.list_transactions import ListTransactionsRequest
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

from .transactional_client import (
    ADD_PARTITIONS,
    COMMITTED,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
    PRODUCE,
    SETTINGS,
    TransactionalProducer,
    committed,
    create_coordinators,
    fetch_offset,
    write_marker,
)

DELETE_TOPICS, JOIN_GROUP = 20, 11


@pytest.fixture
def run_transactions(run_scenario: Any) -> Any:
    """Run a scenario on a broker with transaction coordinators and a topic of two partitions."""

    def run(scenario: Any, settings: Any = None) -> None:
        async def main(harness: Any) -> None:
            await create_coordinators(harness)
            await harness.create("orders", 2)
            await scenario(harness)

        run_scenario(main, {**SETTINGS, **(settings or {})})

    return run


# Visibility.


def test_committed_records_are_read_and_aborted_ones_are_not(run_transactions):
    async def scenario(harness):
        producer = TransactionalProducer(harness)
        assert await producer.init() == 0
        await producer.transact(b"a", b"b")
        await producer.transact(b"never", commits=False)
        await producer.transact(b"c")
        assert await committed(harness) == [b"a", b"b", b"c"]
        entry = await harness.fetch("orders", isolation_level=COMMITTED)
        assert entry.last_stable_offset == entry.high_watermark == 7

    run_transactions(scenario)


def test_transaction_commits_in_all_of_its_partitions_or_in_none(run_transactions):
    async def scenario(harness):
        producer = TransactionalProducer(harness)
        await producer.init()
        for commits, expected in ((False, []), (True, [b"x"])):
            assert await producer.add("orders", 0, 1) == {0: 0, 1: 0}
            assert [await producer.write(b"x", partition=number) for number in (0, 1)] == [0, 0]
            assert [await committed(harness, partition=number) for number in (0, 1)] == [[], []]
            assert await producer.end(commits=commits) == 0
            await producer.wait_until_complete()
            assert [await committed(harness, partition=number) for number in (0, 1)] == [expected, expected]

    run_transactions(scenario)


def test_repeated_commit_succeeds(run_transactions):
    async def scenario(harness):
        producer = TransactionalProducer(harness)
        await producer.init()
        await producer.transact(b"a")
        assert await producer.end() == 0
        assert await producer.end(commits=False) == ErrorCode.INVALID_TXN_STATE
        assert await committed(harness) == [b"a"]

    run_transactions(scenario)


def test_partitions_are_added_all_or_none(run_transactions):
    async def scenario(harness):
        producer = TransactionalProducer(harness)
        await producer.init()
        assert await producer.add("orders", 0, 7) == {
            0: ErrorCode.OPERATION_NOT_ATTEMPTED,
            7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert await producer.add(OFFSETS_TOPIC, 0) == {0: ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        assert await producer.state() == "Empty"
        assert await producer.write(b"a") == ErrorCode.TRANSACTION_ABORTABLE

    run_transactions(scenario)


def test_verify_only_returns_an_error_per_partition_and_transaction(run_transactions):
    async def scenario(harness):
        producer = TransactionalProducer(harness)
        await producer.init()
        await producer.add("orders", 1)
        requested = [AddPartitionsToTxnTopic("orders", [0, 1])]
        request = AddPartitionsToTxnRequest(
            [
                AddPartitionsToTxnTransaction(
                    "ledger", producer.producer_id, producer.epoch, True, requested
                ),
                AddPartitionsToTxnTransaction("", producer.producer_id, producer.epoch, True, requested),
                AddPartitionsToTxnTransaction("other", producer.producer_id, producer.epoch, True, requested),
            ]
        )
        response = await harness.request(ADD_PARTITIONS, 5, request)
        reported = [
            [code.partition_error_code for code in result.topic_results[0].results_by_partition]
            for result in response.results_by_transaction
        ]
        assert reported == [
            [ErrorCode.TRANSACTION_ABORTABLE, 0],
            [ErrorCode.INVALID_REQUEST] * 2,
            [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2,
        ]
        none = await harness.request(ADD_PARTITIONS, 5, AddPartitionsToTxnRequest([]))
        assert (none.error_code, none.results_by_transaction) == (0, [])

    run_transactions(scenario)


# Fencing and verification.


def test_second_instance_fences_the_first_and_aborts_its_transaction(run_transactions):
    async def scenario(harness):
        first, second = TransactionalProducer(harness), TransactionalProducer(harness)
        await first.init()
        await first.add()
        assert await first.write(b"left behind") == 0
        assert await second.init() == 0
        assert second.producer_id == first.producer_id
        assert second.epoch > first.epoch
        assert await committed(harness) == []
        assert await first.write(b"zombie") == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await first.add("orders", 1) == {1: ErrorCode.PRODUCER_FENCED}
        assert await first.end() == ErrorCode.PRODUCER_FENCED
        assert await first.end(version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await first.add("orders", 1, version=1) == {1: ErrorCode.INVALID_PRODUCER_EPOCH}
        assert await first.add_offsets() == ErrorCode.PRODUCER_FENCED
        assert await first.add_offsets(version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await first.init(bump_epoch=True) == ErrorCode.PRODUCER_FENCED
        assert await first.init(3, bump_epoch=True) == ErrorCode.INVALID_PRODUCER_EPOCH
        await second.transact(b"mine")
        assert await committed(harness) == [b"mine"]

    run_transactions(scenario)


def test_fenced_producer_cannot_write_to_a_new_partition(run_transactions):
    async def scenario(harness):
        first, second = TransactionalProducer(harness), TransactionalProducer(harness)
        await first.init()
        await second.init()
        await second.add("orders", 1)
        assert await first.write(b"zombie", partition=1) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert (await harness.fetch("orders", partition=1)).high_watermark == 0

    run_transactions(scenario)


def test_write_to_a_partition_outside_the_transaction_is_rejected(run_transactions):
    async def scenario(harness):
        producer = TransactionalProducer(harness)
        await producer.init()
        assert await producer.write(b"a") == ErrorCode.TRANSACTION_ABORTABLE
        assert await producer.write(b"a", version=10) == ErrorCode.INVALID_TXN_STATE
        await producer.add()
        assert await producer.write(b"a") == 0
        assert await producer.end() == 0
        await producer.wait_until_complete()
        late = await producer.write(b"late")
        assert late == ErrorCode.TRANSACTION_ABORTABLE
        entry = await harness.fetch("orders", isolation_level=COMMITTED)
        assert entry.last_stable_offset == entry.high_watermark == 2

    run_transactions(scenario)


def test_partition_with_the_open_transaction_is_not_verified_again(run_transactions):
    async def scenario(harness):
        producer = TransactionalProducer(harness)
        await producer.init()
        await producer.add("orders", 0, 1)
        requested: list[Any] = []
        coordinator = harness.broker._transaction_coordinator
        verification = harness.broker._dispatcher._context.transaction_verification
        verification._coordinator = _RecordingCoordinator(coordinator, requested)
        for value in (b"a", b"b", b"c"):
            assert await producer.write(value) == 0
        assert await producer.write(b"d", partition=1) == 0
        assert [command.partitions for command in requested] == [(("orders", 0),), (("orders", 1),)]

    run_transactions(scenario)


class _RecordingCoordinator:
    def __init__(self, coordinator: Any, requested: list[Any]) -> None:
        self._coordinator, self._requested = coordinator, requested

    def submit(self, transactional_id: str, command: Any, reply: Any) -> None:
        self._requested.append(command)
        self._coordinator.submit(transactional_id, command, reply)


def test_writes_are_not_verified_when_disabled(run_transactions):
    async def scenario(harness):
        producer = TransactionalProducer(harness)
        await producer.init()
        assert await producer.write(b"a") == 0

    run_transactions(scenario, {"transaction.partition.verification.enable": "false"})


def test_unavailable_coordinator_gives_a_retriable_produce_error(run_transactions):
    async def scenario(harness):
        producer = TransactionalProducer(harness)
        await producer.init()
        await producer.add()
        await harness.broker._transaction_coordinator.stop()
        assert await producer.write(b"a") == ErrorCode.NOT_ENOUGH_REPLICAS

    run_transactions(scenario)


def test_acks_0_write_outside_the_transaction_closes_the_connection(run_transactions):
    async def scenario(harness):
        producer = TransactionalProducer(harness)
        await producer.init()
        other = await harness.memory_broker.connect()
        data = [TopicProduceData("orders", [PartitionProduceData(0, producer.batch(b"a"))])]
        with pytest.raises(ConnectionEnded):
            await other.request(PRODUCE, 11, ProduceRequest("ledger", 0, 1000, data))

    run_transactions(scenario)


def test_transactional_records_need_a_transactional_id_and_one_producer(run_transactions):
    async def scenario(harness):
        producer, second = TransactionalProducer(harness), TransactionalProducer(harness, "other")
        await producer.init()
        await second.init()
        await producer.add("orders", 0, 1)

        async def produce(name, *batches):
            parts = [PartitionProduceData(number, batch) for number, batch in enumerate(batches)]
            request = ProduceRequest(name, -1, 1000, [TopicProduceData("orders", parts)])
            response = await harness.request(PRODUCE, 11, request)
            return [part.error_code for part in response.responses[0].partition_responses]

        unnamed = await produce(None, producer.batch(b"a"), producer.batch(b"b"))
        assert unnamed == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2
        mixed = await produce("ledger", producer.batch(b"a"), second.batch(b"b"))
        assert mixed == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
        assert await produce("ledger", producer.batch(b"a"), producer.batch(b"b")) == [0, 0]

    run_transactions(scenario)


@pytest.mark.parametrize(("timeout_ms", "named"), [(0, 0), (-1, 0), (900_001, 0), (1, 5)])
def test_invalid_init_producer_id_is_rejected(run_transactions, timeout_ms, named):
    async def scenario(harness):
        response = await harness.request(
            INIT_PRODUCER_ID, 5, InitProducerIdRequest("ledger", timeout_ms, named or -1, -1)
        )
        expected = ErrorCode.INVALID_REQUEST if named else ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert (response.error_code, response.producer_id) == (expected, -1)

    run_transactions(scenario)


# Offsets.


def test_transactional_offsets_are_visible_after_the_commit(run_transactions):
    async def scenario(harness):
        producer = TransactionalProducer(harness)
        await producer.init()
        for offset, commits, before, after in ((5, True, -1, 5), (9, False, 5, 5)):
            assert await producer.add_offsets() == 0
            assert await producer.commit_offset(offset) == 0
            assert await fetch_offset(harness) == (0, before)
            assert (await fetch_offset(harness, stable=True))[0] == ErrorCode.UNSTABLE_OFFSET_COMMIT
            assert await producer.end(commits=commits) == 0
            await producer.wait_until_complete()
            assert await fetch_offset(harness, stable=True) == (0, after)

    run_transactions(scenario)


def test_transactional_offsets_need_their_group_in_the_transaction(run_transactions):
    async def scenario(harness):
        producer = TransactionalProducer(harness)
        await producer.init()
        assert await producer.commit_offset(5) == ErrorCode.TRANSACTION_ABORTABLE
        assert await producer.commit_offset(5, version=3) == ErrorCode.INVALID_TXN_STATE
        assert await producer.commit_offset(5, group="") == ErrorCode.INVALID_GROUP_ID
        assert await producer.commit_offset(5, partition=7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await fetch_offset(harness, stable=True) == (0, -1)

    run_transactions(scenario)


def test_transactional_offsets_of_an_unknown_member_are_rejected(run_transactions):
    async def scenario(harness):
        producer = TransactionalProducer(harness)
        await producer.init()
        await producer.add_offsets()
        joined = await _join(harness)
        stranger = {"generation_id": joined.generation_id, "member_id": "who"}
        assert await producer.commit_offset(5, **stranger) == ErrorCode.UNKNOWN_MEMBER_ID
        old = {"generation_id": joined.generation_id - 1, "member_id": joined.member_id}
        assert await producer.commit_offset(5, **old) == ErrorCode.ILLEGAL_GENERATION

    run_transactions(scenario)


async def _join(harness: Any) -> Any:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    request = JoinGroupRequest("g", 10_000, 60_000, "", protocol_type="consumer", protocols=protocols)
    request.member_id = (await harness.request(JOIN_GROUP, 9, request)).member_id
    return await harness.request(JOIN_GROUP, 9, request)


# Timeouts and expiry.


def test_hanging_transaction_is_aborted_after_its_timeout(run_transactions):
    async def scenario(harness):
        producer = TransactionalProducer(harness, timeout_ms=5_000)
        await producer.init()
        await producer.add()
        await producer.write(b"hangs")
        await harness.produce("orders", b"behind")
        await asyncio.sleep(4)
        assert await committed(harness) == []
        await asyncio.sleep(5 + 1)
        assert await committed(harness) == [b"behind"]
        assert await producer.end() == ErrorCode.PRODUCER_FENCED
        assert await producer.init() == 0
        await producer.transact(b"again")
        assert await committed(harness) == [b"behind", b"again"]

    run_transactions(scenario, {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "5000"})


def test_unused_transactional_id_expires(run_transactions):
    async def scenario(harness):
        producer = TransactionalProducer(harness)
        await producer.init()
        await producer.transact(b"a")
        assert len((await _listed(harness)).transaction_states) == 1
        await asyncio.sleep(120)
        assert (await _listed(harness)).transaction_states == []
        assert await producer.add() == {0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}

    settings = {
        "transactional.id.expiration.ms": "60000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "10000",
    }
    run_transactions(scenario, settings)


async def _listed(harness: Any, *states: str) -> Any:
    return await harness.request(LIST_TRANSACTIONS, 1, ListTransactionsRequest(list(states), [], -1))


# Failures.


def test_transaction_with_a_deleted_topic_completes(run_transactions):
    async def scenario(harness):
        await harness.create("doomed")
        producer = TransactionalProducer(harness)
        await producer.init()
        await producer.add("doomed", 0)
        await producer.add()
        assert await producer.write(b"lost", topic="doomed") == 0
        assert await producer.write(b"kept") == 0
        doomed = DeleteTopicsRequest(topics=[DeleteTopicState("doomed")], timeout_ms=5_000)
        assert (await harness.request(DELETE_TOPICS, 6, doomed)).responses[0].error_code == 0
        while harness.broker.metadata_cache.topic("doomed") is not None:
            await asyncio.sleep(0.01)
        assert await producer.end() == 0
        assert await producer.wait_until_complete() == "CompleteCommit"
        assert await committed(harness) == [b"kept"]

    run_transactions(scenario)


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_open_transaction_survives_a_broker_restart(run_with_restarts, end, commits):
    async def scenario(cluster, start_broker):
        settings = {**SETTINGS, "log.flush.interval.messages": "1"}
        harness = await start_broker(settings)
        await create_coordinators(harness)
        await harness.create("orders", 2)
        producer = TransactionalProducer(harness)
        await producer.init()
        await producer.add()
        await producer.write(b"a")
        await producer.add_offsets()
        assert await producer.commit_offset(5) == 0
        await getattr(harness.memory_broker, end)()
        harness = producer.harness = await start_broker(settings)
        await create_coordinators(harness)
        assert await producer.state() == "Ongoing"
        assert (await fetch_offset(harness, stable=True))[0] == ErrorCode.UNSTABLE_OFFSET_COMMIT
        assert await producer.write(b"b") == 0
        assert await producer.end(commits=commits) == 0
        await producer.wait_until_complete()
        assert await committed(harness) == ([b"a", b"b"] if commits else [])
        assert await fetch_offset(harness, stable=True) == (0, 5 if commits else -1)
        await harness.memory_broker.stop()

    run_with_restarts(scenario)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_prepared_transaction_is_completed_after_a_restart(run_with_restarts, end):
    """Markers are delayed, as if partitions could not be written to."""

    async def scenario(cluster, start_broker):
        settings = {**SETTINGS, "log.flush.interval.messages": "1"}
        harness = await start_broker(settings)
        await create_coordinators(harness)
        await harness.create("orders", 2)
        producer = TransactionalProducer(harness)
        await producer.init()
        await producer.add("orders", 0, 1)
        await producer.write(b"a")
        await producer.write(b"b", partition=1)
        harness.broker._transaction_coordinator._marker_channels._is_stopped = True
        assert await producer.end() == 0
        assert await producer.state() == "PrepareCommit"
        assert await committed(harness) == []
        assert await producer.add() == {0: ErrorCode.CONCURRENT_TRANSACTIONS}
        assert await producer.write(b"too early", partition=1) == 0  # the transaction is open there
        await getattr(harness.memory_broker, end)()
        harness = producer.harness = await start_broker(settings)
        await create_coordinators(harness)
        assert await producer.wait_until_complete() == "CompleteCommit"
        assert await committed(harness) == [b"a"]
        await harness.memory_broker.stop()

    run_with_restarts(scenario)


# Administration.


def test_operator_can_abort_a_hanging_transaction(run_transactions):
    async def scenario(harness):
        producer = TransactionalProducer(harness)
        await producer.init()
        assert await producer.write(b"hangs") == 0
        assert await committed(harness) == []
        assert await write_marker(harness, producer.producer_id, producer.epoch, coordinator_epoch=-1) == 0
        assert await committed(harness) == []
        entry = await harness.fetch("orders", isolation_level=COMMITTED)
        assert entry.last_stable_offset == 2
        unknown = await write_marker(harness, producer.producer_id, producer.epoch, topic="nowhere")
        assert unknown == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        old = await write_marker(harness, producer.producer_id, producer.epoch - 1)
        assert old == ErrorCode.INVALID_PRODUCER_EPOCH

    run_transactions(scenario, {"transaction.partition.verification.enable": "false"})


def test_transactions_are_listed_by_state_producer_id_and_duration(run_transactions):
    async def scenario(harness):
        rests, runs = TransactionalProducer(harness, "rests"), TransactionalProducer(harness, "runs")
        await rests.init()
        await runs.init()
        await asyncio.sleep(10)
        await runs.add()

        async def listed(states=(), producers=(), longer_than_ms=-1, version=1):
            request = ListTransactionsRequest(list(states), list(producers), longer_than_ms)
            response = await harness.request(LIST_TRANSACTIONS, version, request)
            result = {
                state.transactional_id: state.transaction_state for state in response.transaction_states
            }
            return result, response.unknown_state_filters

        both = {"rests": "Empty", "runs": "Ongoing"}
        assert await listed() == (both, [])
        assert await listed(version=0) == (both, [])
        assert await listed(["Ongoing", "Nonsense"]) == ({"runs": "Ongoing"}, ["Nonsense"])
        assert await listed(producers=[rests.producer_id]) == ({"rests": "Empty"}, [])
        assert "runs" not in (await listed(longer_than_ms=5_000))[0]

    run_transactions(scenario)
