"""Transactional producer against an in-memory broker, on virtual time."""

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
from odradek.records.client.consumer import RecordReader
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
MARKER_DELAY_S = 0.2
"""Markers are written shortly after the EndTxn response."""


async def committed(fixture: ProducerFixture, partition: int = 0) -> list[bytes | None]:
    """Return the values that a read_committed consumer sees."""
    await asyncio.sleep(MARKER_DELAY_S)
    values: list[bytes | None] = []
    offset = 0
    while True:
        part = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        fetch_topic = FetchTopic(topic=TOPIC, partitions=[part])
        request = FetchRequest(
            topics=[fetch_topic], min_bytes=1, max_wait_ms=0, max_bytes=1 << 24, isolation_level=1
        )
        response = await fixture.ask(FETCH, 12, request)
        entry = response.responses[0].partitions[0]
        data = entry.records
        plain = data.read() if isinstance(data, FileSlice) else bytes(data or b"")
        aborted = [
            (transaction.producer_id, transaction.first_offset)
            for transaction in entry.aborted_transactions or ()
        ]
        reader = RecordReader(plain, TOPIC, partition, offset, aborted=aborted)
        values += [record.value for record in reader.take(1 << 20)]
        if reader.next_offset == offset:
            return values
        offset = reader.next_offset


async def committed_offset(fixture: ProducerFixture, group: str) -> int:
    await asyncio.sleep(MARKER_DELAY_S)
    topics = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])]
    response = await fixture.ask(OFFSET_FETCH, 5, OffsetFetchRequest(group_id=group, topics=topics))
    offset: int = response.topics[0].partitions[0].committed_offset
    return offset


async def ready(fixture: ProducerFixture, transactional_id: str = "t", **options: Any) -> Producer:
    producer = fixture.producer(transactional_id=transactional_id, **options)
    await producer.init_transactions()
    return producer


async def send(producer: Producer, *values: bytes, partition: int = 0) -> list[Any]:
    return [await producer.send(TOPIC, value, partition=partition) for value in values]


def run_with_topic(scenario: Any, **broker: str) -> None:
    async def with_topic(fixture: ProducerFixture) -> None:
        await fixture.create(TOPIC, 2)
        await scenario(fixture)

    run_with_producer(
        with_topic, {**SETTINGS, **{name.replace("_", "."): value for name, value in broker.items()}}
    )


def test_committed_records_are_visible() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        producer = await ready(fixture)
        await producer.begin_transaction()
        for delivery in await send(producer, b"one", b"two"):
            await delivery
        await send(producer, b"elsewhere", partition=1)
        assert await committed(fixture) == []
        await producer.commit_transaction()
        assert await committed(fixture) == [b"one", b"two"]
        assert await committed(fixture, 1) == [b"elsewhere"]

    run_with_topic(scenario)


def test_commit_sends_lingering_records() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        producer = await ready(fixture, linger_ms=3_600_000, delivery_timeout_ms=8_000_000)
        await producer.begin_transaction()
        deliveries = await send(producer, b"one", b"two")
        await producer.commit_transaction()
        assert [(await delivery).offset for delivery in deliveries] == [0, 1]
        assert await committed(fixture) == [b"one", b"two"]

    run_with_topic(scenario)


def test_aborted_records_are_not_visible() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        producer = await ready(fixture, linger_ms=3_600_000, delivery_timeout_ms=8_000_000)
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
        assert await committed(fixture) == [b"next"]

    run_with_topic(scenario)


def test_consecutive_transactions() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        producer = await ready(fixture)
        for number in range(20):
            await producer.begin_transaction()
            await send(producer, b"%d" % number)
            await (producer.abort_transaction() if number % 3 == 0 else producer.commit_transaction())
        assert await committed(fixture) == [b"%d" % number for number in range(20) if number % 3]

    run_with_topic(scenario)


def test_second_producer_with_the_same_id_fences_the_first() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        first = await ready(fixture)
        await first.begin_transaction()
        for delivery in await send(first, b"of the first"):
            await delivery
        second = await ready(fixture)
        with pytest.raises(
            ProducerFenced, match=r"another producer was initialized with the same transactional.id"
        ):
            await first.commit_transaction()
        for call in (first.begin_transaction, first.abort_transaction, first.commit_transaction):
            with pytest.raises(ProducerFenced):
                await call()
        with pytest.raises(ProducerFenced):
            await first.send(TOPIC, b"more")
        await second.begin_transaction()
        await send(second, b"of the second")
        await second.commit_transaction()
        assert await committed(fixture) == [b"of the second"]

    run_with_topic(scenario)


def test_records_of_a_fenced_producer_are_rejected() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        fenced = await ready(fixture)
        await fenced.begin_transaction()
        for delivery in await send(fenced, b"before"):
            await delivery
        await ready(fixture)
        late = await send(fenced, b"after")
        with pytest.raises(ClientError):
            await late[0]
        with pytest.raises(InvalidState, match="can only be aborted"):
            await fenced.commit_transaction()
        with pytest.raises(ProducerFenced):
            await fenced.abort_transaction()
        assert await committed(fixture) == []

    run_with_topic(scenario)


def test_transaction_survives_a_broker_restart() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        producer = await ready(fixture)
        await producer.begin_transaction()
        for delivery in await send(producer, b"before"):
            await delivery
        await fixture.stop_broker()
        await fixture.start_broker()
        await send(producer, b"after")
        await producer.commit_transaction()
        assert await committed(fixture) == [b"before", b"after"]

    run_with_topic(scenario)


def test_timed_out_commit_must_be_called_again() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        producer = await ready(fixture, max_block_ms=1000)
        await producer.begin_transaction()
        await send(producer, b"one")
        await producer.flush()
        await fixture.stop_broker()
        with pytest.raises(
            TimedOut, match="commit_transaction not completed within 1000 ms; it continues"
        ) as late:
            await producer.commit_transaction()
        assert "last attempt failed: " in str(late.value)
        with pytest.raises(InvalidState, match="the result of commit_transaction is not known yet"):
            await producer.abort_transaction()
        with pytest.raises(InvalidState):
            await producer.send(TOPIC, b"two")
        await fixture.start_broker()
        await producer.commit_transaction()
        assert await committed(fixture) == [b"one"]

    run_with_topic(scenario)


def test_result_of_a_timed_out_call_is_kept_for_the_next_one() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.stop_broker()
        producer = fixture.producer(transactional_id="t", max_block_ms=1000)
        with pytest.raises(TimedOut, match="init_transactions"):
            await producer.init_transactions()
        await fixture.start_broker()
        await asyncio.sleep(30)
        with pytest.raises(InvalidState, match="the result of init_transactions is not known yet"):
            await producer.begin_transaction()
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.commit_transaction()

    run_with_topic(scenario)


def test_transaction_longer_than_its_timeout_is_fenced() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        producer = await ready(fixture, transaction_timeout_ms=5000)
        await producer.begin_transaction()
        for delivery in await send(producer, b"late"):
            await delivery
        await asyncio.sleep(60)
        with pytest.raises(ProducerFenced, match=r"exceeded transaction\.timeout\.ms"):
            await producer.commit_transaction()
        assert await committed(fixture) == []

    run_with_topic(scenario)


def test_transaction_timeout_above_the_broker_maximum_fails() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        producer = fixture.producer(transactional_id="t", transaction_timeout_ms=60_000)
        with pytest.raises(ClientError, match=r"transaction\.max\.timeout\.ms"):
            await producer.init_transactions()

    run_with_topic(scenario, transaction_max_timeout_ms="10000")


@pytest.mark.parametrize("group", ["g", GroupMetadata("g")])
def test_offsets_are_committed_with_the_transaction(group: GroupMetadata | str) -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        producer = await ready(fixture)
        await producer.begin_transaction()
        offsets = {TopicPartition(TOPIC, 0): OffsetAndMetadata(42, "note")}
        await producer.send_offsets_to_transaction(offsets, group)
        await producer.commit_transaction()
        assert await committed_offset(fixture, "g") == 42
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({TopicPartition(TOPIC, 0): OffsetAndMetadata(50)}, group)
        await producer.abort_transaction()
        assert await committed_offset(fixture, "g") == 42

    run_with_topic(scenario)


def test_offsets_of_an_unknown_member_fail_the_transaction_only() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        producer = await ready(fixture)
        await producer.begin_transaction()
        offsets = {TopicPartition(TOPIC, 0): OffsetAndMetadata(42)}
        with pytest.raises(CommitFailed, match="the consumer is no longer a member of the group"):
            await producer.send_offsets_to_transaction(offsets, GroupMetadata("g", 3, "nobody"))
        with pytest.raises(InvalidState, match="call abort_transaction"):
            await producer.commit_transaction()
        await producer.abort_transaction()
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction(offsets, "g")
        await producer.commit_transaction()
        assert await committed_offset(fixture, "g") == 42

    run_with_topic(scenario)


def test_rejected_record_fails_the_transaction_only() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        producer = await ready(fixture, max_request_size=1000)
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
        assert await committed(fixture) == [b"fits"]

    run_with_topic(scenario)


def test_record_rejected_by_the_broker_fails_the_transaction_only() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("small", max_message_bytes="500")
        producer = await ready(fixture)
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
        assert await committed(fixture) == [b"fine"]

    run_with_topic(scenario)


def test_close_aborts_an_open_transaction() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        producer = await ready(fixture)
        await producer.begin_transaction()
        for delivery in await send(producer, b"never"):
            await delivery
        await producer.close()
        plain = fixture.producer()
        await (await plain.send(TOPIC, b"readable", partition=0))
        assert await committed(fixture) == [b"readable"]

    run_with_topic(scenario)


def test_close_completes_a_timed_out_commit() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        producer = await ready(fixture, max_block_ms=1000)
        await producer.begin_transaction()
        await send(producer, b"one")
        await producer.flush()
        await fixture.stop_broker()
        with pytest.raises(TimedOut):
            await producer.commit_transaction()
        closing = asyncio.get_running_loop().create_task(producer.close())
        await asyncio.sleep(5)
        await fixture.start_broker()
        await closing
        assert await committed(fixture) == [b"one"]

    run_with_topic(scenario)


def test_calls_in_the_wrong_order_are_rejected() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        plain = fixture.producer()
        with pytest.raises(InvalidState, match=r"transactional\.id"):
            await plain.init_transactions()
        producer = fixture.producer(transactional_id="t")
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

    run_with_topic(scenario)


async def _transact(fixture: ProducerFixture, producer: Producer, number: int, failure: str) -> bool | None:
    """Run one transaction with a failure; return whether it was committed."""
    await producer.begin_transaction()
    await send(producer, b"%d a" % number, partition=number % 2)
    if failure == "cut":
        fixture.cut_connections()
    elif failure == "restart":
        await fixture.stop_broker()
        await asyncio.sleep(number)
        await fixture.start_broker()
    await send(producer, b"%d b" % number, partition=number % 2)
    if failure == "abort":
        await producer.abort_transaction()
        return False
    ending = asyncio.get_running_loop().create_task(producer.commit_transaction())
    await asyncio.sleep(0.001 * (number % 5))
    if failure == "cut late":
        fixture.cut_connections()
    await ending
    return True


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.sampled_from(["none", "cut", "cut late", "restart", "abort"]), min_size=1, max_size=8),
    st.integers(0, 50),
)
def test_transactions_are_atomic_under_failures(failures: list[str], seed: int) -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create(TOPIC, 2)
        producer = await ready(fixture)
        expected: list[list[bytes]] = [[], []]
        for number, failure in enumerate(failures):
            if await _transact(fixture, producer, number, failure):
                expected[number % 2] += [b"%d a" % number, b"%d b" % number]
        await producer.close()
        assert [await committed(fixture, partition) for partition in (0, 1)] == expected

    run_with_producer(scenario, SETTINGS, seed=seed, delay_max_ms=3)


def test_fencing_has_the_producer_fenced_error_code() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        first = await ready(fixture)
        await ready(fixture)
        await first.begin_transaction()
        await send(first, b"v")
        with pytest.raises(ProducerFenced) as raised:
            await first.commit_transaction()
        assert raised.value.code is ErrorCode.PRODUCER_FENCED
        assert not raised.value.retriable

    run_with_topic(scenario)
