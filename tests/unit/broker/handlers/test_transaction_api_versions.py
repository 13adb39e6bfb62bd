"""Every API of transactions in every version served: what its clients ask, and what they are told."""

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
    Transactor,
    committed,
    fetch_offset,
    settle,
    write_marker,
)

VERSIONS = {handler.api_key: handler.versions for handler in HANDLERS}


def versions_of(api_key: int, since: int = 0) -> Any:
    return pytest.mark.parametrize("version", [one for one in VERSIONS[api_key] if one >= since])


@pytest.fixture
def play_transactions(play: Any) -> Any:
    """Run a scenario on a broker that coordinates transactions, with a topic of two partitions."""

    def run(scenario: Any, settings: Any = None) -> None:
        async def main(town: Any) -> None:
            await settle(town)
            await town.create("orders", 2)
            await scenario(town)

        play(main, {**SETTINGS, **(settings or {})})

    return run


@versions_of(FIND_COORDINATOR, since=1)
def test_find_coordinator(play, version):
    async def scenario(town):
        async def find():
            request = FindCoordinatorRequest(key_type=TRANSACTION_KEY)
            if version >= 4:
                request.coordinator_keys = ["ledger"]
            else:
                request.key = "ledger"
            answer = await town.ask(FIND_COORDINATOR, version, request)
            return answer.coordinators[0] if version >= 4 else answer

        assert (await find()).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await settle(town)
        found = await find()
        assert (found.error_code, found.node_id, found.host) == (0, town.broker.broker_id, "broker")

    play(scenario, SETTINGS)


@versions_of(INIT_PRODUCER_ID)
def test_init_producer_id(play_transactions, version):
    async def scenario(town):
        one = Transactor(town)
        assert await one.init(version) == 0
        assert (one.producer_id >= 0, one.epoch) == (True, 0)
        first = one.producer_id
        assert await one.init(version) == 0
        assert (one.producer_id, one.epoch) == (first, 1)
        if version >= 3:
            assert await one.init(version, goes_on=True) == 0
            assert (one.producer_id, one.epoch) == (first, 2)
        too_long = await town.ask(INIT_PRODUCER_ID, version, InitProducerIdRequest("ledger", 900_001))
        assert too_long.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT

    play_transactions(scenario)


@versions_of(ADD_PARTITIONS)
def test_add_partitions_to_txn(play_transactions, version):
    async def scenario(town):
        one = Transactor(town)
        await one.init()
        assert await one.add("orders", 0, 1, version=version) == {0: 0, 1: 0}
        assert await one.state() == "Ongoing"
        stranger = Transactor(town)
        stranger.producer_id, stranger.epoch = one.producer_id + 1, 0
        assert await stranger.add(version=version) == {0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
        if version < 4:
            named = [AddPartitionsToTxnTopic("orders", [1])]
            request = AddPartitionsToTxnRequest([], "", 1, 0, named)
            answer = await town.ask(ADD_PARTITIONS, version, request)
            result = answer.results_by_topic_v3_and_below[0].results_by_partition[0]
            assert (result.partition_index, result.partition_error_code) == (1, ErrorCode.INVALID_REQUEST)

    play_transactions(scenario)


@versions_of(ADD_OFFSETS)
def test_add_offsets_to_txn(play_transactions, version):
    async def scenario(town):
        one = Transactor(town)
        await one.init()
        assert await one.add_offsets("g", version) == 0
        described = await town.ask(DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(["ledger"]))
        [topic] = described.transaction_states[0].topics
        assert (topic.topic, topic.partitions) == (OFFSETS_TOPIC, [town.broker._groups.partition_of("g")])
        one.name = ""
        assert await one.add_offsets("g", version) == ErrorCode.INVALID_REQUEST

    play_transactions(scenario)


@versions_of(END_TXN)
def test_end_txn(play_transactions, version):
    async def scenario(town):
        one = Transactor(town)
        await one.init()
        assert await one.end(version=version) == ErrorCode.INVALID_TXN_STATE
        await one.add()
        await one.write(b"a")
        assert await one.end(version=version) == 0
        assert await one.rest() == "CompleteCommit"
        assert await committed(town) == [b"a"]
        nobody = Transactor(town, "nobody")
        assert await nobody.end(version=version) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        nobody.name = ""
        assert await nobody.end(version=version) == ErrorCode.INVALID_REQUEST

    play_transactions(scenario)


@versions_of(TXN_OFFSET_COMMIT)
def test_txn_offset_commit(play_transactions, version):
    async def scenario(town):
        one = Transactor(town)
        await one.init()
        await one.add_offsets()
        assert await one.commit_offset(7, version=version) == 0
        assert await one.commit_offset(7, version=version, partition=5) == (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        assert await one.end() == 0
        await one.rest()
        assert await fetch_offset(town) == (0, 7)
        await town.broker._groups.stop()
        assert await one.commit_offset(8, version=version) == ErrorCode.COORDINATOR_NOT_AVAILABLE

    play_transactions(scenario)


@versions_of(TXN_OFFSET_COMMIT)
def test_a_group_that_loads(play_transactions, version):
    async def scenario(town):
        one = Transactor(town)
        await one.init()
        await one.add_offsets()
        number = town.broker._groups.partition_of("g")
        runtime, partition = town.broker._groups._runtime, town.broker._replicas.find(OFFSETS_TOPIC, number)
        runtime.unload(number)
        runtime.load(partition)
        known = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        expected = known if version >= 2 else ErrorCode.COORDINATOR_NOT_AVAILABLE
        async with runtime._reading:
            assert await one.commit_offset(7, version=version) == expected

    play_transactions(scenario)


@versions_of(WRITE_TXN_MARKERS)
def test_write_txn_markers(play_transactions, version):
    async def scenario(town):
        one = Transactor(town)
        await one.init()
        await one.add("orders", 0, 1)
        await one.write(b"a")
        await one.write(b"b", partition=1)
        topics = [WritableTxnMarkerTopic("orders", [0, 1, 5])]
        markers = [
            WritableTxnMarker(one.producer_id, one.epoch, True, topics, 3),
            WritableTxnMarker(one.producer_id + 1, 0, False, topics[:0], 3),
        ]
        answer = await town.ask(WRITE_TXN_MARKERS, version, WriteTxnMarkersRequest(markers))
        first, second = answer.markers
        assert (first.producer_id, second.producer_id) == (one.producer_id, one.producer_id + 1)
        codes = [(part.partition_index, part.error_code) for part in first.topics[0].partitions]
        assert codes == [(0, 0), (1, 0), (5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        assert second.topics == []
        assert await committed(town) == [b"a"]
        stale = await write_marker(town, one.producer_id, one.epoch, coordinator_epoch=2, version=version)
        assert stale == ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert (await town.ask(WRITE_TXN_MARKERS, version, WriteTxnMarkersRequest([]))).markers == []

    play_transactions(scenario)


@versions_of(DESCRIBE_PRODUCERS)
def test_describe_producers(play_transactions, version):
    async def scenario(town):
        one = Transactor(town)
        await one.init()
        await one.transact(b"a", b"b")
        await one.add()
        await one.write(b"c")
        topics = [TopicRequest("orders", [0, 1, 7]), TopicRequest("a/b", [0]), TopicRequest("nowhere", [0])]
        answer = await town.ask(DESCRIBE_PRODUCERS, version, DescribeProducersRequest(topics))
        busy, idle, missing = answer.topics[0].partitions
        [state] = busy.active_producers
        assert (state.producer_id, state.producer_epoch, state.last_sequence) == (one.producer_id, 0, 2)
        assert (state.coordinator_epoch, state.current_txn_start_offset) == (0, 3)
        assert state.last_timestamp == town.cluster.clock.wall_ms()
        assert (idle.error_code, idle.active_producers) == (0, [])
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert answer.topics[1].partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert answer.topics[2].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    play_transactions(scenario)


@versions_of(DESCRIBE_TRANSACTIONS)
def test_describe_transactions(play_transactions, version):
    async def scenario(town):
        one = Transactor(town, timeout_ms=12_345)
        await one.init()
        await one.add("orders", 1, 0)
        now_ms = town.cluster.clock.wall_ms()
        request = DescribeTransactionsRequest(["ledger", "", "nobody"])
        answer = await town.ask(DESCRIBE_TRANSACTIONS, version, request)
        found, empty, nobody = answer.transaction_states
        assert (found.error_code, found.transactional_id) == (0, "ledger")
        assert (found.transaction_state, found.transaction_timeout_ms) == ("Ongoing", 12_345)
        assert found.transaction_start_time_ms == now_ms
        assert (found.producer_id, found.producer_epoch) == (one.producer_id, one.epoch)
        assert [(topic.topic, topic.partitions) for topic in found.topics] == [("orders", [0, 1])]
        assert empty.error_code == ErrorCode.INVALID_REQUEST
        assert nobody.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        await town.broker._transactions.stop()
        [gone] = (
            await town.ask(DESCRIBE_TRANSACTIONS, version, DescribeTransactionsRequest(["ledger"]))
        ).transaction_states
        assert gone.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    play_transactions(scenario)


@versions_of(LIST_TRANSACTIONS)
def test_list_transactions(play_transactions, version):
    async def scenario(town):
        one = Transactor(town)
        await one.init()
        answer = await town.ask(LIST_TRANSACTIONS, version, ListTransactionsRequest([], []))
        [found] = answer.transaction_states
        assert (answer.error_code, answer.unknown_state_filters) == (0, [])
        assert (found.transactional_id, found.producer_id) == ("ledger", one.producer_id)
        assert found.transaction_state == "Empty"
        runtime = town.broker._transactions._runtime
        runtime.unload(0)
        async with runtime._reading:
            runtime.load(town.broker._replicas.find("__transaction_state", 0))
            loading = await town.ask(LIST_TRANSACTIONS, version, ListTransactionsRequest([], []))
        assert loading.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert loading.transaction_states == []

    play_transactions(scenario)


@versions_of(PRODUCE, since=3)
def test_produce_in_a_transaction(play_transactions, version):
    async def scenario(town):
        one = Transactor(town)
        await one.init()
        expected = ErrorCode.TRANSACTION_ABORTABLE if version >= 11 else ErrorCode.INVALID_TXN_STATE
        assert await one.write(b"a", version=version) == expected
        await one.add()
        assert await one.write(b"a", version=version) == 0
        assert await one.write(b"b", version=version) == 0
        assert await one.end() == 0
        await one.rest()
        assert await committed(town) == [b"a", b"b"]

    play_transactions(scenario)
