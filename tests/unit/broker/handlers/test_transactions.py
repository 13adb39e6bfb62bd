"""Transactions in a whole broker: what counts, who is fenced off, what is left after failures."""

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
    Transactor,
    committed,
    fetch_offset,
    settle,
    write_marker,
)

DELETE_TOPICS, JOIN_GROUP = 20, 11


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


# What counts.


def test_what_is_committed_is_read_and_what_is_aborted_is_not(play_transactions):
    async def scenario(town):
        one = Transactor(town)
        assert await one.init() == 0
        await one.transact(b"a", b"b")
        await one.transact(b"never", commits=False)
        await one.transact(b"c")
        assert await committed(town) == [b"a", b"b", b"c"]
        entry = await town.fetch("orders", isolation_level=COMMITTED)
        assert entry.last_stable_offset == entry.high_watermark == 7

    play_transactions(scenario)


def test_a_transaction_counts_in_all_of_its_partitions_or_in_none(play_transactions):
    async def scenario(town):
        one = Transactor(town)
        await one.init()
        for commits, expected in ((False, []), (True, [b"x"])):
            assert await one.add("orders", 0, 1) == {0: 0, 1: 0}
            assert [await one.write(b"x", partition=number) for number in (0, 1)] == [0, 0]
            assert [await committed(town, partition=number) for number in (0, 1)] == [[], []]
            assert await one.end(commits=commits) == 0
            await one.rest()
            assert [await committed(town, partition=number) for number in (0, 1)] == [expected, expected]

    play_transactions(scenario)


def test_a_commit_that_is_asked_for_again_is_answered_again(play_transactions):
    async def scenario(town):
        one = Transactor(town)
        await one.init()
        await one.transact(b"a")
        assert await one.end() == 0
        assert await one.end(commits=False) == ErrorCode.INVALID_TXN_STATE
        assert await committed(town) == [b"a"]

    play_transactions(scenario)


def test_partitions_join_together_or_not_at_all(play_transactions):
    async def scenario(town):
        one = Transactor(town)
        await one.init()
        assert await one.add("orders", 0, 7) == {
            0: ErrorCode.OPERATION_NOT_ATTEMPTED,
            7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert await one.add(OFFSETS_TOPIC, 0) == {0: ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        assert await one.state() == "Empty"
        assert await one.write(b"a") == ErrorCode.TRANSACTION_ABORTABLE

    play_transactions(scenario)


def test_whoever_verifies_for_others_hears_of_each_partition_and_each_transaction(play_transactions):
    async def scenario(town):
        one = Transactor(town)
        await one.init()
        await one.add("orders", 1)
        asked = [AddPartitionsToTxnTopic("orders", [0, 1])]
        request = AddPartitionsToTxnRequest(
            [
                AddPartitionsToTxnTransaction("ledger", one.producer_id, one.epoch, True, asked),
                AddPartitionsToTxnTransaction("", one.producer_id, one.epoch, True, asked),
                AddPartitionsToTxnTransaction("other", one.producer_id, one.epoch, True, asked),
            ]
        )
        answer = await town.ask(ADD_PARTITIONS, 5, request)
        told = [
            [code.partition_error_code for code in result.topic_results[0].results_by_partition]
            for result in answer.results_by_transaction
        ]
        assert told == [
            [ErrorCode.TRANSACTION_ABORTABLE, 0],
            [ErrorCode.INVALID_REQUEST] * 2,
            [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2,
        ]
        none = await town.ask(ADD_PARTITIONS, 5, AddPartitionsToTxnRequest([]))
        assert (none.error_code, none.results_by_transaction) == (0, [])

    play_transactions(scenario)


# Who may write.


def test_a_second_instance_fences_the_first_and_aborts_what_it_left(play_transactions):
    async def scenario(town):
        first, second = Transactor(town), Transactor(town)
        await first.init()
        await first.add()
        assert await first.write(b"left behind") == 0
        assert await second.init() == 0
        assert second.producer_id == first.producer_id
        assert second.epoch > first.epoch
        assert await committed(town) == []
        assert await first.write(b"zombie") == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await first.add("orders", 1) == {1: ErrorCode.PRODUCER_FENCED}
        assert await first.end() == ErrorCode.PRODUCER_FENCED
        assert await first.end(version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await first.add("orders", 1, version=1) == {1: ErrorCode.INVALID_PRODUCER_EPOCH}
        assert await first.add_offsets() == ErrorCode.PRODUCER_FENCED
        assert await first.add_offsets(version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await first.init(goes_on=True) == ErrorCode.PRODUCER_FENCED
        assert await first.init(3, goes_on=True) == ErrorCode.INVALID_PRODUCER_EPOCH
        await second.transact(b"mine")
        assert await committed(town) == [b"mine"]

    play_transactions(scenario)


def test_a_fenced_instance_begins_nothing_in_a_partition_it_has_not_written_to(play_transactions):
    async def scenario(town):
        first, second = Transactor(town), Transactor(town)
        await first.init()
        await second.init()
        await second.add("orders", 1)
        assert await first.write(b"zombie", partition=1) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert (await town.fetch("orders", partition=1)).high_watermark == 0

    play_transactions(scenario)


def test_a_write_without_its_partition_in_the_transaction_is_refused(play_transactions):
    async def scenario(town):
        one = Transactor(town)
        await one.init()
        assert await one.write(b"a") == ErrorCode.TRANSACTION_ABORTABLE
        assert await one.write(b"a", version=10) == ErrorCode.INVALID_TXN_STATE
        await one.add()
        assert await one.write(b"a") == 0
        assert await one.end() == 0
        await one.rest()
        late = await one.write(b"late")
        assert late == ErrorCode.TRANSACTION_ABORTABLE
        entry = await town.fetch("orders", isolation_level=COMMITTED)
        assert entry.last_stable_offset == entry.high_watermark == 2

    play_transactions(scenario)


def test_once_a_partition_has_the_transaction_open_its_coordinator_is_asked_no_more(play_transactions):
    async def scenario(town):
        one = Transactor(town)
        await one.init()
        await one.add("orders", 0, 1)
        asked: list[Any] = []
        transactions = town.broker._transactions
        town.broker._dispatcher._context.verification._coordinators = _Listening(transactions, asked)
        for value in (b"a", b"b", b"c"):
            assert await one.write(value) == 0
        assert await one.write(b"d", partition=1) == 0
        assert [command.partitions for command in asked] == [(("orders", 0),), (("orders", 1),)]

    play_transactions(scenario)


class _Listening:
    def __init__(self, transactions: Any, asked: list[Any]) -> None:
        self._transactions, self._asked = transactions, asked

    def submit(self, transactional_id: str, command: Any, reply: Any) -> None:
        self._asked.append(command)
        self._transactions.submit(transactional_id, command, reply)


def test_writes_are_not_verified_where_that_is_turned_off(play_transactions):
    async def scenario(town):
        one = Transactor(town)
        await one.init()
        assert await one.write(b"a") == 0

    play_transactions(scenario, {"transaction.partition.verification.enable": "false"})


def test_while_the_coordinator_cannot_say_a_producer_is_told_to_try_again(play_transactions):
    async def scenario(town):
        one = Transactor(town)
        await one.init()
        await one.add()
        await town.broker._transactions.stop()
        assert await one.write(b"a") == ErrorCode.NOT_ENOUGH_REPLICAS

    play_transactions(scenario)


def test_an_unanswered_write_outside_of_its_transaction_ends_the_connection(play_transactions):
    async def scenario(town):
        one = Transactor(town)
        await one.init()
        other = await town.memory.connect()
        data = [TopicProduceData("orders", [PartitionProduceData(0, one.batch(b"a"))])]
        with pytest.raises(ConnectionEnded):
            await other.request(PRODUCE, 11, ProduceRequest("ledger", 0, 1000, data))

    play_transactions(scenario)


def test_records_of_a_transaction_need_a_transactional_id_and_one_producer(play_transactions):
    async def scenario(town):
        one, two = Transactor(town), Transactor(town, "other")
        await one.init()
        await two.init()
        await one.add("orders", 0, 1)

        async def produce(name, *batches):
            parts = [PartitionProduceData(number, batch) for number, batch in enumerate(batches)]
            request = ProduceRequest(name, -1, 1000, [TopicProduceData("orders", parts)])
            answer = await town.ask(PRODUCE, 11, request)
            return [part.error_code for part in answer.responses[0].partition_responses]

        unnamed = await produce(None, one.batch(b"a"), one.batch(b"b"))
        assert unnamed == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2
        mixed = await produce("ledger", one.batch(b"a"), two.batch(b"b"))
        assert mixed == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
        assert await produce("ledger", one.batch(b"a"), one.batch(b"b")) == [0, 0]

    play_transactions(scenario)


@pytest.mark.parametrize(("timeout_ms", "named"), [(0, 0), (-1, 0), (900_001, 0), (1, 5)])
def test_who_asks_for_nonsense_becomes_no_producer(play_transactions, timeout_ms, named):
    async def scenario(town):
        answer = await town.ask(
            INIT_PRODUCER_ID, 5, InitProducerIdRequest("ledger", timeout_ms, named or -1, -1)
        )
        expected = ErrorCode.INVALID_REQUEST if named else ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert (answer.error_code, answer.producer_id) == (expected, -1)

    play_transactions(scenario)


# Offsets.


def test_offsets_of_a_transaction_count_from_its_commit_on(play_transactions):
    async def scenario(town):
        one = Transactor(town)
        await one.init()
        for offset, commits, before, after in ((5, True, -1, 5), (9, False, 5, 5)):
            assert await one.add_offsets() == 0
            assert await one.commit_offset(offset) == 0
            assert await fetch_offset(town) == (0, before)
            assert (await fetch_offset(town, stable=True))[0] == ErrorCode.UNSTABLE_OFFSET_COMMIT
            assert await one.end(commits=commits) == 0
            await one.rest()
            assert await fetch_offset(town, stable=True) == (0, after)

    play_transactions(scenario)


def test_offsets_need_their_group_in_the_transaction(play_transactions):
    async def scenario(town):
        one = Transactor(town)
        await one.init()
        assert await one.commit_offset(5) == ErrorCode.TRANSACTION_ABORTABLE
        assert await one.commit_offset(5, version=3) == ErrorCode.INVALID_TXN_STATE
        assert await one.commit_offset(5, group="") == ErrorCode.INVALID_GROUP_ID
        assert await one.commit_offset(5, partition=7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await fetch_offset(town, stable=True) == (0, -1)

    play_transactions(scenario)


def test_offsets_of_a_member_that_is_none_are_refused(play_transactions):
    async def scenario(town):
        one = Transactor(town)
        await one.init()
        await one.add_offsets()
        joined = await _join(town)
        stranger = {"generation_id": joined.generation_id, "member_id": "who"}
        assert await one.commit_offset(5, **stranger) == ErrorCode.UNKNOWN_MEMBER_ID
        old = {"generation_id": joined.generation_id - 1, "member_id": joined.member_id}
        assert await one.commit_offset(5, **old) == ErrorCode.ILLEGAL_GENERATION

    play_transactions(scenario)


async def _join(town: Any) -> Any:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    request = JoinGroupRequest("g", 10_000, 60_000, "", protocol_type="consumer", protocols=protocols)
    request.member_id = (await town.ask(JOIN_GROUP, 9, request)).member_id
    return await town.ask(JOIN_GROUP, 9, request)


# Time passes.


def test_a_transaction_that_hangs_is_aborted_after_its_timeout_and_one_check(play_transactions):
    async def scenario(town):
        one = Transactor(town, timeout_ms=5_000)
        await one.init()
        await one.add()
        await one.write(b"hangs")
        await town.produce("orders", b"behind")
        await asyncio.sleep(4)
        assert await committed(town) == []
        await asyncio.sleep(5 + 1)
        assert await committed(town) == [b"behind"]
        assert await one.end() == ErrorCode.PRODUCER_FENCED
        assert await one.init() == 0
        await one.transact(b"again")
        assert await committed(town) == [b"behind", b"again"]

    play_transactions(scenario, {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "5000"})


def test_an_id_that_nobody_uses_is_forgotten(play_transactions):
    async def scenario(town):
        one = Transactor(town)
        await one.init()
        await one.transact(b"a")
        assert len((await _listed(town)).transaction_states) == 1
        await asyncio.sleep(120)
        assert (await _listed(town)).transaction_states == []
        assert await one.add() == {0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}

    settings = {
        "transactional.id.expiration.ms": "60000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "10000",
    }
    play_transactions(scenario, settings)


async def _listed(town: Any, *states: str) -> Any:
    return await town.ask(LIST_TRANSACTIONS, 1, ListTransactionsRequest(list(states), [], -1))


# Failures.


def test_a_deleted_topic_does_not_keep_its_transaction_from_ending(play_transactions):
    async def scenario(town):
        await town.create("doomed")
        one = Transactor(town)
        await one.init()
        await one.add("doomed", 0)
        await one.add()
        assert await one.write(b"lost", topic="doomed") == 0
        assert await one.write(b"kept") == 0
        doomed = DeleteTopicsRequest(topics=[DeleteTopicState("doomed")], timeout_ms=5_000)
        assert (await town.ask(DELETE_TOPICS, 6, doomed)).responses[0].error_code == 0
        while town.broker.image.topic("doomed") is not None:
            await asyncio.sleep(0.01)
        assert await one.end() == 0
        assert await one.rest() == "CompleteCommit"
        assert await committed(town) == [b"kept"]

    play_transactions(scenario)


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_transaction_outlives_the_broker_that_coordinates_it(outlive, end, commits):
    async def scenario(cluster, begin):
        settings = {**SETTINGS, "log.flush.interval.messages": "1"}
        town = await begin(settings)
        await settle(town)
        await town.create("orders", 2)
        one = Transactor(town)
        await one.init()
        await one.add()
        await one.write(b"a")
        await one.add_offsets()
        assert await one.commit_offset(5) == 0
        await getattr(town.memory, end)()
        town = one.town = await begin(settings)
        await settle(town)
        assert await one.state() == "Ongoing"
        assert (await fetch_offset(town, stable=True))[0] == ErrorCode.UNSTABLE_OFFSET_COMMIT
        assert await one.write(b"b") == 0
        assert await one.end(commits=commits) == 0
        await one.rest()
        assert await committed(town) == ([b"a", b"b"] if commits else [])
        assert await fetch_offset(town, stable=True) == (0, 5 if commits else -1)
        await town.memory.stop()

    outlive(scenario)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_what_was_settled_when_the_broker_went_is_carried_out_by_the_next(outlive, end):
    """Its markers are held up, as if partitions could not be written to just then."""

    async def scenario(cluster, begin):
        settings = {**SETTINGS, "log.flush.interval.messages": "1"}
        town = await begin(settings)
        await settle(town)
        await town.create("orders", 2)
        one = Transactor(town)
        await one.init()
        await one.add("orders", 0, 1)
        await one.write(b"a")
        await one.write(b"b", partition=1)
        town.broker._transactions._marker_tasks._is_stopped = True
        assert await one.end() == 0
        assert await one.state() == "PrepareCommit"
        assert await committed(town) == []
        assert await one.add() == {0: ErrorCode.CONCURRENT_TRANSACTIONS}
        assert await one.write(b"too early", partition=1) == 0  # the transaction is open there
        await getattr(town.memory, end)()
        town = one.town = await begin(settings)
        await settle(town)
        assert await one.rest() == "CompleteCommit"
        assert await committed(town) == [b"a"]
        await town.memory.stop()

    outlive(scenario)


# Looking in, and helping.


def test_one_who_looks_after_the_cluster_may_abort_what_hangs(play_transactions):
    async def scenario(town):
        one = Transactor(town)
        await one.init()
        assert await one.write(b"hangs") == 0
        assert await committed(town) == []
        assert await write_marker(town, one.producer_id, one.epoch, coordinator_epoch=-1) == 0
        assert await committed(town) == []
        entry = await town.fetch("orders", isolation_level=COMMITTED)
        assert entry.last_stable_offset == 2
        unknown = await write_marker(town, one.producer_id, one.epoch, topic="nowhere")
        assert unknown == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        old = await write_marker(town, one.producer_id, one.epoch - 1)
        assert old == ErrorCode.INVALID_PRODUCER_EPOCH

    play_transactions(scenario, {"transaction.partition.verification.enable": "false"})


def test_ids_are_listed_by_state_producer_and_age(play_transactions):
    async def scenario(town):
        rests, runs = Transactor(town, "rests"), Transactor(town, "runs")
        await rests.init()
        await runs.init()
        await asyncio.sleep(10)
        await runs.add()

        async def listed(states=(), producers=(), longer_than_ms=-1, version=1):
            request = ListTransactionsRequest(list(states), list(producers), longer_than_ms)
            answer = await town.ask(LIST_TRANSACTIONS, version, request)
            found = {one.transactional_id: one.transaction_state for one in answer.transaction_states}
            return found, answer.unknown_state_filters

        both = {"rests": "Empty", "runs": "Ongoing"}
        assert await listed() == (both, [])
        assert await listed(version=0) == (both, [])
        assert await listed(["Ongoing", "Nonsense"]) == ({"runs": "Ongoing"}, ["Nonsense"])
        assert await listed(producers=[rests.producer_id]) == ({"rests": "Empty"}, [])
        assert "runs" not in (await listed(longer_than_ms=5_000))[0]

    play_transactions(scenario)
