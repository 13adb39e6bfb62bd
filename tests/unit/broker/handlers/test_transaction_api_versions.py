"""Every transaction API in every supported version."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.handlers import HANDLERS
from odradek.model.errors import ErrorCode
from odradek.model.ids import OFFSETS_TOPIC
from odradek.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from odradek.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from odradek.wire.messages.describe_transactions import DescribeTransactionsRequest
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.list_transactions import ListTransactionsRequest
from odradek.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

from .transactional_client import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
    PRODUCE,
    SETTINGS,
    TRANSACTION_KEY,
    TXN_OFFSET_COMMIT,
    WRITE_TXN_MARKERS,
    TransactionalProducer,
    committed,
    create_coordinators,
    fetch_offset,
    write_marker,
)

VERSIONS = {handler.api_key: handler.versions for handler in HANDLERS}


def versions_of(api_key: int, since: int = 0) -> Any:
    return pytest.mark.parametrize("version", [item for item in VERSIONS[api_key] if item >= since])


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


@versions_of(FIND_COORDINATOR, since=1)
def test_find_coordinator(run_scenario, version):
    async def scenario(harness):
        async def find():
            request = FindCoordinatorRequest(key_type=TRANSACTION_KEY)
            if version >= 4:
                request.coordinator_keys = ["ledger"]
            else:
                request.key = "ledger"
            response = await harness.request(FIND_COORDINATOR, version, request)
            return response.coordinators[0] if version >= 4 else response

        assert (await find()).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await create_coordinators(harness)
        result = await find()
        assert (result.error_code, result.node_id, result.host) == (0, harness.broker.broker_id, "broker")

    run_scenario(scenario, SETTINGS)


@versions_of(INIT_PRODUCER_ID)
def test_init_producer_id(run_transactions, version):
    async def scenario(harness):
        producer = TransactionalProducer(harness)
        assert await producer.init(version) == 0
        assert (producer.producer_id >= 0, producer.epoch) == (True, 0)
        first = producer.producer_id
        assert await producer.init(version) == 0
        assert (producer.producer_id, producer.epoch) == (first, 1)
        if version >= 3:
            assert await producer.init(version, bump_epoch=True) == 0
            assert (producer.producer_id, producer.epoch) == (first, 2)
        too_long = await harness.request(INIT_PRODUCER_ID, version, InitProducerIdRequest("ledger", 900_001))
        assert too_long.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT

    run_transactions(scenario)


@versions_of(ADD_PARTITIONS)
def test_add_partitions_to_txn(run_transactions, version):
    async def scenario(harness):
        producer = TransactionalProducer(harness)
        await producer.init()
        assert await producer.add("orders", 0, 1, version=version) == {0: 0, 1: 0}
        assert await producer.state() == "Ongoing"
        stranger = TransactionalProducer(harness)
        stranger.producer_id, stranger.epoch = producer.producer_id + 1, 0
        assert await stranger.add(version=version) == {0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
        if version < 4:
            named = [AddPartitionsToTxnTopic("orders", [1])]
            request = AddPartitionsToTxnRequest([], "", 1, 0, named)
            response = await harness.request(ADD_PARTITIONS, version, request)
            result = response.results_by_topic_v3_and_below[0].results_by_partition[0]
            assert (result.partition_index, result.partition_error_code) == (1, ErrorCode.INVALID_REQUEST)

    run_transactions(scenario)


@versions_of(ADD_OFFSETS)
def test_add_offsets_to_txn(run_transactions, version):
    async def scenario(harness):
        producer = TransactionalProducer(harness)
        await producer.init()
        assert await producer.add_offsets("g", version) == 0
        described = await harness.request(DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(["ledger"]))
        [topic] = described.transaction_states[0].topics
        assert (topic.topic, topic.partitions) == (
            OFFSETS_TOPIC,
            [harness.broker._group_coordinator.partition_of("g")],
        )
        producer.name = ""
        assert await producer.add_offsets("g", version) == ErrorCode.INVALID_REQUEST

    run_transactions(scenario)


@versions_of(END_TXN)
def test_end_txn(run_transactions, version):
    async def scenario(harness):
        producer = TransactionalProducer(harness)
        await producer.init()
        assert await producer.end(version=version) == ErrorCode.INVALID_TXN_STATE
        await producer.add()
        await producer.write(b"a")
        assert await producer.end(version=version) == 0
        assert await producer.wait_until_complete() == "CompleteCommit"
        assert await committed(harness) == [b"a"]
        nobody = TransactionalProducer(harness, "nobody")
        assert await nobody.end(version=version) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        nobody.name = ""
        assert await nobody.end(version=version) == ErrorCode.INVALID_REQUEST

    run_transactions(scenario)


@versions_of(TXN_OFFSET_COMMIT)
def test_txn_offset_commit(run_transactions, version):
    async def scenario(harness):
        producer = TransactionalProducer(harness)
        await producer.init()
        await producer.add_offsets()
        assert await producer.commit_offset(7, version=version) == 0
        assert await producer.commit_offset(7, version=version, partition=5) == (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        assert await producer.end() == 0
        await producer.wait_until_complete()
        assert await fetch_offset(harness) == (0, 7)
        await harness.broker._group_coordinator.stop()
        assert await producer.commit_offset(8, version=version) == ErrorCode.COORDINATOR_NOT_AVAILABLE

    run_transactions(scenario)


@versions_of(TXN_OFFSET_COMMIT)
def test_txn_offset_commit_while_the_group_is_loading(run_transactions, version):
    async def scenario(harness):
        producer = TransactionalProducer(harness)
        await producer.init()
        await producer.add_offsets()
        number = harness.broker._group_coordinator.partition_of("g")
        runtime, partition = (
            harness.broker._group_coordinator._runtime,
            harness.broker._replica_manager.get_partition(OFFSETS_TOPIC, number),
        )
        runtime.unload(number)
        runtime.load(partition)
        known = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        expected = known if version >= 2 else ErrorCode.COORDINATOR_NOT_AVAILABLE
        async with runtime._reading:
            assert await producer.commit_offset(7, version=version) == expected

    run_transactions(scenario)


@versions_of(WRITE_TXN_MARKERS)
def test_write_txn_markers(run_transactions, version):
    async def scenario(harness):
        producer = TransactionalProducer(harness)
        await producer.init()
        await producer.add("orders", 0, 1)
        await producer.write(b"a")
        await producer.write(b"b", partition=1)
        topics = [WritableTxnMarkerTopic("orders", [0, 1, 5])]
        markers = [
            WritableTxnMarker(producer.producer_id, producer.epoch, True, topics, 3),
            WritableTxnMarker(producer.producer_id + 1, 0, False, topics[:0], 3),
        ]
        response = await harness.request(WRITE_TXN_MARKERS, version, WriteTxnMarkersRequest(markers))
        first, second = response.markers
        assert (first.producer_id, second.producer_id) == (producer.producer_id, producer.producer_id + 1)
        codes = [(part.partition_index, part.error_code) for part in first.topics[0].partitions]
        assert codes == [(0, 0), (1, 0), (5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        assert second.topics == []
        assert await committed(harness) == [b"a"]
        stale = await write_marker(
            harness, producer.producer_id, producer.epoch, coordinator_epoch=2, version=version
        )
        assert stale == ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert (await harness.request(WRITE_TXN_MARKERS, version, WriteTxnMarkersRequest([]))).markers == []

    run_transactions(scenario)


@versions_of(DESCRIBE_PRODUCERS)
def test_describe_producers(run_transactions, version):
    async def scenario(harness):
        producer = TransactionalProducer(harness)
        await producer.init()
        await producer.transact(b"a", b"b")
        await producer.add()
        await producer.write(b"c")
        topics = [TopicRequest("orders", [0, 1, 7]), TopicRequest("a/b", [0]), TopicRequest("nowhere", [0])]
        response = await harness.request(DESCRIBE_PRODUCERS, version, DescribeProducersRequest(topics))
        busy, idle, missing = response.topics[0].partitions
        [state] = busy.active_producers
        assert (state.producer_id, state.producer_epoch, state.last_sequence) == (producer.producer_id, 0, 2)
        assert (state.coordinator_epoch, state.current_txn_start_offset) == (0, 3)
        assert state.last_timestamp == harness.cluster.clock.wall_ms()
        assert (idle.error_code, idle.active_producers) == (0, [])
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert response.topics[1].partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert response.topics[2].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run_transactions(scenario)


@versions_of(DESCRIBE_TRANSACTIONS)
def test_describe_transactions(run_transactions, version):
    async def scenario(harness):
        producer = TransactionalProducer(harness, timeout_ms=12_345)
        await producer.init()
        await producer.add("orders", 1, 0)
        now_ms = harness.cluster.clock.wall_ms()
        request = DescribeTransactionsRequest(["ledger", "", "nobody"])
        response = await harness.request(DESCRIBE_TRANSACTIONS, version, request)
        result, empty, nobody = response.transaction_states
        assert (result.error_code, result.transactional_id) == (0, "ledger")
        assert (result.transaction_state, result.transaction_timeout_ms) == ("Ongoing", 12_345)
        assert result.transaction_start_time_ms == now_ms
        assert (result.producer_id, result.producer_epoch) == (producer.producer_id, producer.epoch)
        assert [(topic.topic, topic.partitions) for topic in result.topics] == [("orders", [0, 1])]
        assert empty.error_code == ErrorCode.INVALID_REQUEST
        assert nobody.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        await harness.broker._transaction_coordinator.stop()
        [missing] = (
            await harness.request(DESCRIBE_TRANSACTIONS, version, DescribeTransactionsRequest(["ledger"]))
        ).transaction_states
        assert missing.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    run_transactions(scenario)


@versions_of(LIST_TRANSACTIONS)
def test_list_transactions(run_transactions, version):
    async def scenario(harness):
        producer = TransactionalProducer(harness)
        await producer.init()
        response = await harness.request(LIST_TRANSACTIONS, version, ListTransactionsRequest([], []))
        [result] = response.transaction_states
        assert (response.error_code, response.unknown_state_filters) == (0, [])
        assert (result.transactional_id, result.producer_id) == ("ledger", producer.producer_id)
        assert result.transaction_state == "Empty"
        runtime = harness.broker._transaction_coordinator._runtime
        runtime.unload(0)
        async with runtime._reading:
            runtime.load(harness.broker._replica_manager.get_partition("__transaction_state", 0))
            loading = await harness.request(LIST_TRANSACTIONS, version, ListTransactionsRequest([], []))
        assert loading.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert loading.transaction_states == []

    run_transactions(scenario)


@versions_of(PRODUCE, since=3)
def test_produce_in_a_transaction(run_transactions, version):
    async def scenario(harness):
        producer = TransactionalProducer(harness)
        await producer.init()
        expected = ErrorCode.TRANSACTION_ABORTABLE if version >= 11 else ErrorCode.INVALID_TXN_STATE
        assert await producer.write(b"a", version=version) == expected
        await producer.add()
        assert await producer.write(b"a", version=version) == 0
        assert await producer.write(b"b", version=version) == 0
        assert await producer.end() == 0
        await producer.wait_until_complete()
        assert await committed(harness) == [b"a", b"b"]

    run_transactions(scenario)
