"""TransactionManager of the whole producer against a whole broker in memory, on virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.simulation.producer_fixture import FETCH, ProducerFixture, run_with_producer

from odradek.client.producer.producer import Producer
from odradek.client.values import GroupMetadata, OffsetAndMetadata
from odradek.model.client_errors import (
    ClientError,
    CommitFailed,
    InvalidState,
    ProducerFenced,
    RecordTooLarge,
    TimedOut,
    TransactionAborted,
)
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.ports.files import FileSlice
from odradek.records.codec import RecordReader
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

OFFSET_FETCH = 9
TOPIC = "letters"
SETTINGS = {
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "1",
}
UNTIL_COMPLETE_S = 0.2
"""Markers are written after the answer to a commit: a moment later they are there."""


async def committed(studio: ProducerFixture, partition: int = 0) -> list[bytes]:
    """The values that a reader of committed records sees."""
    await asyncio.sleep(UNTIL_COMPLETE_S)
    found: list[bytes] = []
    offset = 0
    while True:
        part = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        asked = FetchTopic(topic=TOPIC, partitions=[part])
        request = FetchRequest(
            topics=[asked], min_bytes=1, max_wait_ms=0, max_bytes=1 << 24, isolation_level=1
        )
        answer = await studio.ask(FETCH, 12, request)
        entry = answer.responses[0].partitions[0]
        data = entry.records
        plain = data.read() if isinstance(data, FileSlice) else bytes(data or b"")
        aborted = [(one.producer_id, one.first_offset) for one in entry.aborted_transactions or ()]
        reader = RecordReader(plain, TOPIC, partition, offset, aborted=aborted)
        found += [one.value for one in reader.take(1 << 20)]
        if reader.next_offset == offset:
            return found
        offset = reader.next_offset


async def committed_offset(studio: ProducerFixture, group: str) -> int:
    await asyncio.sleep(UNTIL_COMPLETE_S)
    topics = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])]
    answer = await studio.ask(OFFSET_FETCH, 5, OffsetFetchRequest(group_id=group, topics=topics))
    offset: int = answer.topics[0].partitions[0].committed_offset
    return offset


async def ready(studio: ProducerFixture, transactional_id: str = "t", **options: Any) -> Producer:
    producer = studio.producer(transactional_id=transactional_id, **options)
    await producer.init_transactions()
    return producer


async def send(producer: Producer, *values: bytes, partition: int = 0) -> list[Any]:
    return [await producer.send(TOPIC, value, partition=partition) for value in values]


def play(scenario: Any, **broker: str) -> None:
    async def with_topic(studio: ProducerFixture) -> None:
        await studio.create(TOPIC, 2)
        await scenario(studio)

    run_with_producer(
        with_topic, {**SETTINGS, **{name.replace("_", "."): value for name, value in broker.items()}}
    )


def test_records_are_there_once_their_transaction_is_committed() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        producer = await ready(studio)
        await producer.begin_transaction()
        for delivery in await send(producer, b"one", b"two"):
            await delivery
        await send(producer, b"elsewhere", partition=1)
        assert await committed(studio) == []
        await producer.commit_transaction()
        assert await committed(studio) == [b"one", b"two"]
        assert await committed(studio, 1) == [b"elsewhere"]

    play(scenario)


def test_a_commit_sends_what_still_lingers() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        producer = await ready(studio, linger_ms=3_600_000, delivery_timeout_ms=8_000_000)
        await producer.begin_transaction()
        deliveries = await send(producer, b"one", b"two")
        await producer.commit_transaction()
        assert [(await delivery).offset for delivery in deliveries] == [0, 1]
        assert await committed(studio) == [b"one", b"two"]

    play(scenario)


def test_records_of_an_aborted_transaction_are_never_there() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        producer = await ready(studio, linger_ms=3_600_000, delivery_timeout_ms=8_000_000)
        await producer.begin_transaction()
        written = await send(producer, b"written")
        await producer.flush()
        unsent = await send(producer, b"unsent")
        await producer.abort_transaction()
        assert (await written[0]).offset == 0
        with pytest.raises(TransactionAborted, match="aborted"):
            await unsent[0]
        await producer.begin_transaction()
        await send(producer, b"next")
        await producer.commit_transaction()
        assert await committed(studio) == [b"next"]

    play(scenario)


def test_many_transactions_one_after_the_other() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        producer = await ready(studio)
        for number in range(20):
            await producer.begin_transaction()
            await send(producer, b"%d" % number)
            await (producer.abort_transaction() if number % 3 == 0 else producer.commit_transaction())
        assert await committed(studio) == [b"%d" % number for number in range(20) if number % 3]

    play(scenario)


def test_a_twin_fences_the_one_before_for_good_and_clearly() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        first = await ready(studio)
        await first.begin_transaction()
        for delivery in await send(first, b"of the first"):
            await delivery
        second = await ready(studio)
        with pytest.raises(ProducerFenced, match="another one has been initialized with the same id"):
            await first.commit_transaction()
        for call in (first.begin_transaction, first.abort_transaction, first.commit_transaction):
            with pytest.raises(ProducerFenced):
                await call()
        with pytest.raises(ProducerFenced):
            await first.send(TOPIC, b"more")
        await second.begin_transaction()
        await send(second, b"of the second")
        await second.commit_transaction()
        assert await committed(studio) == [b"of the second"]

    play(scenario)


def test_records_of_a_zombie_are_refused() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        zombie = await ready(studio)
        await zombie.begin_transaction()
        for delivery in await send(zombie, b"before"):
            await delivery
        await ready(studio)
        late = await send(zombie, b"after")
        with pytest.raises(ClientError):
            await late[0]
        with pytest.raises(InvalidState, match="can only be aborted"):
            await zombie.commit_transaction()
        with pytest.raises(ProducerFenced):
            await zombie.abort_transaction()
        assert await committed(studio) == []

    play(scenario)


def test_a_transaction_outlives_its_coordinator_and_leader() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        producer = await ready(studio)
        await producer.begin_transaction()
        for delivery in await send(producer, b"before"):
            await delivery
        await studio.stop_broker()
        await studio.start_broker()
        await send(producer, b"after")
        await producer.commit_transaction()
        assert await committed(studio) == [b"before", b"after"]

    play(scenario)


def test_a_call_that_timed_out_is_made_again_and_no_other() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        producer = await ready(studio, max_block_ms=1000)
        await producer.begin_transaction()
        await send(producer, b"one")
        await producer.flush()
        await studio.stop_broker()
        with pytest.raises(
            TimedOut, match="commit_transaction has not ended within 1000 ms; it goes on"
        ) as late:
            await producer.commit_transaction()
        assert "the last attempt failed: " in str(late.value)
        with pytest.raises(InvalidState, match="the last commit_transaction is not known yet"):
            await producer.abort_transaction()
        with pytest.raises(InvalidState):
            await producer.send(TOPIC, b"two")
        await studio.start_broker()
        await producer.commit_transaction()
        assert await committed(studio) == [b"one"]

    play(scenario)


def test_the_outcome_of_a_call_that_timed_out_is_kept_for_the_next_one() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.stop_broker()
        producer = studio.producer(transactional_id="t", max_block_ms=1000)
        with pytest.raises(TimedOut, match="init_transactions"):
            await producer.init_transactions()
        await studio.start_broker()
        await asyncio.sleep(30)
        with pytest.raises(InvalidState, match="init_transactions is not known yet"):
            await producer.begin_transaction()
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.commit_transaction()

    play(scenario)


def test_a_transaction_that_takes_too_long_is_fenced() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        producer = await ready(studio, transaction_timeout_ms=5000)
        await producer.begin_transaction()
        for delivery in await send(producer, b"late"):
            await delivery
        await asyncio.sleep(60)
        with pytest.raises(ProducerFenced, match=r"took longer than transaction\.timeout\.ms"):
            await producer.commit_transaction()
        assert await committed(studio) == []

    play(scenario)


def test_a_timeout_that_the_broker_does_not_grant_is_told_at_once() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        producer = studio.producer(transactional_id="t", transaction_timeout_ms=60_000)
        with pytest.raises(ClientError, match=r"transaction\.max\.timeout\.ms"):
            await producer.init_transactions()

    play(scenario, transaction_max_timeout_ms="10000")


@pytest.mark.parametrize("group", ["g", GroupMetadata("g")])
def test_offsets_count_with_the_transaction(group: GroupMetadata | str) -> None:
    async def scenario(studio: ProducerFixture) -> None:
        producer = await ready(studio)
        await producer.begin_transaction()
        offsets = {TopicPartition(TOPIC, 0): OffsetAndMetadata(42, "note")}
        await producer.send_offsets_to_transaction(offsets, group)
        await producer.commit_transaction()
        assert await committed_offset(studio, "g") == 42
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({TopicPartition(TOPIC, 0): OffsetAndMetadata(50)}, group)
        await producer.abort_transaction()
        assert await committed_offset(studio, "g") == 42

    play(scenario)


def test_offsets_of_a_member_that_the_group_does_not_know_fail_the_transaction_only() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        producer = await ready(studio)
        await producer.begin_transaction()
        offsets = {TopicPartition(TOPIC, 0): OffsetAndMetadata(42)}
        with pytest.raises(CommitFailed, match="the group has gone on without this consumer"):
            await producer.send_offsets_to_transaction(offsets, GroupMetadata("g", 3, "nobody"))
        with pytest.raises(InvalidState, match="call abort_transaction"):
            await producer.commit_transaction()
        await producer.abort_transaction()
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction(offsets, "g")
        await producer.commit_transaction()
        assert await committed_offset(studio, "g") == 42

    play(scenario)


def test_a_record_that_cannot_be_taken_fails_the_transaction_only() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        producer = await ready(studio, max_request_size=1000)
        await producer.begin_transaction()
        await send(producer, b"small")
        with pytest.raises(RecordTooLarge):
            await producer.send(TOPIC, bytes(2000))
        with pytest.raises(InvalidState, match="can only be aborted"):
            await producer.commit_transaction()
        await producer.abort_transaction()
        await producer.begin_transaction()
        await send(producer, b"fits")
        await producer.commit_transaction()
        assert await committed(studio) == [b"fits"]

    play(scenario)


def test_a_record_that_the_broker_refuses_fails_the_transaction_only() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("small", max_message_bytes="500")
        producer = await ready(studio)
        await producer.begin_transaction()
        refused = await producer.send("small", bytes(1000))
        with pytest.raises(RecordTooLarge):
            await refused
        with pytest.raises(InvalidState, match="MESSAGE_TOO_LARGE"):
            await producer.commit_transaction()
        await producer.abort_transaction()
        await producer.begin_transaction()
        await send(producer, b"fine")
        await producer.commit_transaction()
        assert await committed(studio) == [b"fine"]

    play(scenario)


def test_a_close_aborts_what_is_open() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        producer = await ready(studio)
        await producer.begin_transaction()
        for delivery in await send(producer, b"never"):
            await delivery
        await producer.close()
        plain = studio.producer()
        await (await plain.send(TOPIC, b"readable", partition=0))
        assert await committed(studio) == [b"readable"]

    play(scenario)


def test_a_close_lets_a_commit_that_timed_out_come_to_its_end() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        producer = await ready(studio, max_block_ms=1000)
        await producer.begin_transaction()
        await send(producer, b"one")
        await producer.flush()
        await studio.stop_broker()
        with pytest.raises(TimedOut):
            await producer.commit_transaction()
        closing = asyncio.get_running_loop().create_task(producer.close())
        await asyncio.sleep(5)
        await studio.start_broker()
        await closing
        assert await committed(studio) == [b"one"]

    play(scenario)


def test_calls_make_sense_in_their_order_only() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        plain = studio.producer()
        with pytest.raises(InvalidState, match=r"transactional\.id"):
            await plain.init_transactions()
        producer = studio.producer(transactional_id="t")
        with pytest.raises(InvalidState, match="call init_transactions"):
            await producer.begin_transaction()
        with pytest.raises(InvalidState, match="call init_transactions, then begin_transaction"):
            await producer.send(TOPIC, b"v", partition=0)
        await producer.init_transactions()
        with pytest.raises(InvalidState, match="call begin_transaction first"):
            await producer.send(TOPIC, b"v", partition=0)
        await producer.begin_transaction()
        await send(producer, b"v")
        await producer.commit_transaction()
        with pytest.raises(InvalidState, match="call begin_transaction first"):
            await producer.send(TOPIC, b"v", partition=0)

    play(scenario)


async def _transact(studio: ProducerFixture, producer: Producer, number: int, trouble: str) -> bool | None:
    """One transaction with trouble in its midst; whether it was committed, None if nobody knows."""
    await producer.begin_transaction()
    await send(producer, b"%d a" % number, partition=number % 2)
    if trouble == "cut":
        studio.cut_connections()
    elif trouble == "restart":
        await studio.stop_broker()
        await asyncio.sleep(number)
        await studio.start_broker()
    await send(producer, b"%d b" % number, partition=number % 2)
    if trouble == "abort":
        await producer.abort_transaction()
        return False
    ending = asyncio.get_running_loop().create_task(producer.commit_transaction())
    await asyncio.sleep(0.001 * (number % 5))
    if trouble == "cut late":
        studio.cut_connections()
    await ending
    return True


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.sampled_from(["none", "cut", "cut late", "restart", "abort"]), min_size=1, max_size=8),
    st.integers(0, 50),
)
def test_transactions_are_whole_or_not_there_whatever_breaks(troubles: list[str], seed: int) -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create(TOPIC, 2)
        producer = await ready(studio)
        expected: list[list[bytes]] = [[], []]
        for number, trouble in enumerate(troubles):
            if await _transact(studio, producer, number, trouble):
                expected[number % 2] += [b"%d a" % number, b"%d b" % number]
        await producer.close()
        assert [await committed(studio, partition) for partition in (0, 1)] == expected

    run_with_producer(scenario, SETTINGS, seed=seed, delay_max_ms=3)


def test_error_codes_reach_the_program() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        first = await ready(studio)
        await ready(studio)
        await first.begin_transaction()
        await send(first, b"v")
        with pytest.raises(ProducerFenced) as refused:
            await first.commit_transaction()
        assert refused.value.code is ErrorCode.PRODUCER_FENCED
        assert not refused.value.retriable

    play(scenario)
