"""Offsets that are committed at once, soon, or from time to time, against a whole broker on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.simulation.client_fixture import ClientFixture
from tests.support.simulation.group_members import GroupMember, GroupMembers

from odradek.client.consumer.group.auto_commit import AutoCommit
from odradek.client.network.network_client import CoordinatorType
from odradek.client.values import OffsetAndMetadata
from odradek.model.client_errors import ClientError, RequestRefused, TimedOut
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.testing.broker import MemoryCluster
from odradek.testing.clock import run_virtually
from odradek.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.wire.messages.end_txn import EndTxnRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

BROKER = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
Play = Callable[..., None]


@pytest.fixture
def play() -> Play:
    """Run a scenario with a topic of two partitions."""

    def run(scenario: Callable[[GroupMembers], Any]) -> None:
        async def main() -> None:
            memory = MemoryCluster()
            stage = ClientFixture(memory, await memory.start(BROKER))
            readers = GroupMembers(stage)
            try:
                await readers.create("t", 2)
                await scenario(readers)
                await readers.close()
                await stage.close()
            finally:
                await stage.broker.stop()
                await memory.close()

        run_virtually(main)

    return run


async def alone(group: GroupMembers, name: str = "a", **options: Any) -> GroupMember:
    """A member that has both partitions."""
    reader = await group.reader(name, **options).subscribe("t")
    while reader.assigned != {T0, T1}:
        await reader.poll(1000)
    return reader


async def committed(reader: GroupMember) -> list[int | None]:
    found = await reader.coordinator.committed([T0, T1], 10_000)
    return [None if each is None else each.offset for each in (found[T0], found[T1])]


def test_what_was_committed_is_told_with_its_note_and_epoch(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        reader = await alone(group)
        offset = OffsetAndMetadata(5, "a note", 3)
        await reader.coordinator.commit({T0: offset}, 10_000)
        found = await reader.coordinator.committed([T0, T1, TopicPartition("unheard-of", 0)], 10_000)
        assert found == {T0: offset, T1: None, TopicPartition("unheard-of", 0): None}
        assert reader.committed_by_interceptor == [{T0: offset}]
        assert await reader.coordinator.committed([], 10_000) == {}

    play(scenario)


def test_callbacks_come_in_order_inside_a_poll_and_not_before(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        reader = await alone(group)
        called: list[tuple[int, ClientError | None]] = []
        for offset in range(5):
            reader.coordinator.commit_async(
                {T0: OffsetAndMetadata(offset)},
                lambda offsets, error: called.append((offsets[T0].offset, error)),
            )
        await asyncio.sleep(1)
        assert called == []
        await reader.poll()
        assert called == [(offset, None) for offset in range(5)]
        assert await committed(reader) == [4, None]

    play(scenario)


def test_callbacks_may_be_coroutines(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        reader = await alone(group)
        called = []

        async def on_commit(offsets: Any, error: Any) -> None:
            await asyncio.sleep(0.01)
            called.append((dict(offsets), error))

        reader.coordinator.commit_async({T0: OffsetAndMetadata(1)}, on_commit)
        await reader.coordinator.commit({}, 1000)
        assert called == [({T0: OffsetAndMetadata(1)}, None)]

    play(scenario)


def test_a_commit_at_once_comes_after_those_that_were_to_be_made_soon(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        reader = await alone(group)
        called: list[int] = []
        for offset in (1, 2):
            reader.coordinator.commit_async(
                {T0: OffsetAndMetadata(offset)}, lambda offsets, _: called.append(offsets[T0].offset)
            )
        await reader.coordinator.commit({T0: OffsetAndMetadata(3)}, 10_000)
        assert called == [1, 2]
        assert await committed(reader) == [3, None]

    play(scenario)


def test_a_failed_commit_tells_its_callback_and_nobody_else(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        reader = await alone(group)
        errors: list[ClientError | None] = []
        too_long = OffsetAndMetadata(1, "x" * 5000)
        reader.coordinator.commit_async({T0: too_long}, lambda _, error: errors.append(error))
        reader.coordinator.commit_async({T0: too_long})
        await asyncio.sleep(1)
        await reader.poll()
        assert [error and error.code for error in errors] == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
        with pytest.raises(RequestRefused) as raised:
            await reader.coordinator.commit({T0: too_long}, 1000)
        assert raised.value.code is ErrorCode.OFFSET_METADATA_TOO_LARGE
        assert not raised.value.retriable
        assert reader.committed_by_interceptor == []

    play(scenario)


@pytest.mark.parametrize("note", ["\ud800", 7, object()])
def test_a_note_that_no_request_can_carry_is_told_to_the_callback_too(play: Play, note: Any) -> None:
    async def scenario(group: GroupMembers) -> None:
        reader = await alone(group)
        errors: list[ClientError | None] = []
        reader.coordinator.commit_async(
            {T0: OffsetAndMetadata(1, note)}, lambda _, error: errors.append(error)
        )
        await asyncio.sleep(1)
        await reader.poll()
        assert len(errors) == 1
        assert isinstance(errors[0], ClientError)
        with pytest.raises(ClientError):
            await reader.coordinator.commit({T0: OffsetAndMetadata(1, note)}, 1000)

    play(scenario)


def test_offsets_are_committed_from_time_to_time_and_at_the_end(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        reader = await alone(group, enable_auto_commit=True, auto_commit_interval_ms=5000)
        reader.read_to(7)
        reader.keep_polling()
        await asyncio.sleep(4)
        assert await committed(reader) == [None, None]
        await asyncio.sleep(2)
        assert await committed(reader) == [7, 7]
        reader.read_to(9)
        await reader.close()
        assert await committed(await alone(group, "b")) == [9, 9]

    play(scenario)


def test_what_was_read_is_committed_before_partitions_are_revoked(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        how = {"enable_auto_commit": True, "auto_commit_interval_ms": 3_600_000}
        other = await group.reader("other", group_id="h").subscribe("t")
        for strategy in ("range", "cooperative-sticky"):
            options = {"partition_assignment_strategy": strategy, "group_id": strategy, **how}
            reader = await alone(group, f"{strategy}-1", **options)
            reader.read_to(7)
            seen: list[list[int | None]] = []

            async def look(
                partitions: Any, reader: GroupMember = reader, seen: list[list[int | None]] = seen
            ) -> None:
                seen.append(await committed(reader))

            reader.on_partitions_revoked = look  # type: ignore[method-assign, assignment]
            reader.keep_polling()
            second = await group.polling(f"{strategy}-2", "t", **options)
            await group.until_shared([reader, second], [T0, T1])
            assert seen[0] == [7, 7]
        await other.close()

    play(scenario)


def test_a_listener_may_commit_what_it_is_about_to_lose(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        reader = await alone(group)

        async def commit(partitions: Any) -> None:
            await reader.coordinator.commit({tp: OffsetAndMetadata(11) for tp in partitions}, 5000)

        reader.on_partitions_revoked = commit  # type: ignore[method-assign, assignment]
        reader.keep_polling()
        second = await group.polling("b", "t")
        await group.until_shared([reader, second], [T0, T1])
        assert reader.failures == []
        assert await committed(reader) == [11, 11]

    play(scenario)


def test_between_giving_up_and_the_new_assignment_nothing_can_be_committed(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        reader = await alone(group)
        second = await group.polling("b", "t")
        reader.keep_polling()
        await group.until_shared([reader, second], [T0, T1])
        await second.stop_polling()
        await reader.stop_polling()
        reader.coordinator.request_rejoin("just so")
        assert not await reader.poll(1000)
        with pytest.raises(RequestRefused) as raised:
            await reader.coordinator.commit({T0: OffsetAndMetadata(1)}, 1000)
        assert raised.value.code is ErrorCode.REBALANCE_IN_PROGRESS
        assert raised.value.retriable

    play(scenario)


def test_partitions_that_were_assigned_by_hand_are_committed_without_a_generation(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        reader = group.reader("a", enable_auto_commit=True, auto_commit_interval_ms=1000)
        await reader.cluster.start()
        reader.subscription.assign([T0])
        assert await reader.poll()
        await reader.coordinator.commit({T0: OffsetAndMetadata(1)}, 10_000)
        assert await committed(reader) == [1, None]
        reader.read_to(4)
        reader.keep_polling()
        await asyncio.sleep(3)
        assert await committed(reader) == [4, None]
        assert reader.coordinator.group_metadata().generation_id == -1

    play(scenario)


def test_a_commit_waits_for_the_coordinator_to_come_back_as_long_as_it_may(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        reader = await alone(group)
        stage = group.stage
        await stage.broker.stop()
        with pytest.raises(TimedOut, match="offsets were not committed within 2000 ms"):
            await reader.coordinator.commit({T0: OffsetAndMetadata(1)}, 2000)
        with pytest.raises(TimedOut, match="committed offsets were not told"):
            await reader.coordinator.committed([T0], 2000)
        waiting = asyncio.create_task(reader.coordinator.commit({T0: OffsetAndMetadata(2)}, 30_000))
        await asyncio.sleep(1)
        stage.broker = await stage.memory.start(BROKER)
        await waiting
        assert await committed(reader) == [2, None]

    play(scenario)


def test_offsets_of_an_open_transaction_are_waited_for(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        reader = await alone(group)
        writer = await group.stage.cluster()
        producer = await begin_with_offset(writer, 8)
        waiting = asyncio.create_task(committed(reader))
        await asyncio.sleep(3)
        assert not waiting.done()
        coordinator = await writer.coordinator(CoordinatorType.TRANSACTION, "x", 5000)
        await writer.send(coordinator, EndTxnRequest("x", producer, 0, True))
        assert await waiting == [8, None]

    play(scenario)


async def begin_with_offset(writer: Any, offset: int) -> int:
    coordinator = await writer.coordinator(CoordinatorType.TRANSACTION, "x", 30_000)
    opened = await writer.send(coordinator, InitProducerIdRequest("x", 60_000), version_max=4)
    assert opened.error_code == 0
    added = await writer.send(coordinator, AddOffsetsToTxnRequest("x", opened.producer_id, 0, "g"))
    assert added.error_code == 0
    partition = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=opened.producer_id,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
    )
    written = await writer.send(await writer.coordinator(CoordinatorType.GROUP, "g", 5000), request)
    assert written.topics[0].partitions[0].error_code == 0
    return int(opened.producer_id)


def test_closing_calls_back_for_all_commits(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        reader = await alone(group)
        called: list[int] = []
        for offset in range(3):
            reader.coordinator.commit_async(
                {T0: OffsetAndMetadata(offset)}, lambda offsets, _: called.append(offsets[T0].offset)
            )
        await reader.close()
        assert called == [0, 1, 2]

    play(scenario)


def test_closing_ends_in_time_when_nobody_answers(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        reader = await alone(group, enable_auto_commit=True)
        reader.read_to(3)
        called: list[Any] = []
        reader.coordinator.commit_async({T0: OffsetAndMetadata(1)}, lambda *what: called.append(what))
        group.stage.network.part("a", "broker")
        began_ms = reader.clock.monotonic_ms()
        await reader.close(5000)
        assert reader.clock.monotonic_ms() - began_ms <= 5500
        ((offsets, error),) = called
        assert offsets == {T0: OffsetAndMetadata(1)}
        assert isinstance(error, ClientError), "what was not answered has not succeeded"
        group.stage.network.heal()

    play(scenario)


def test_automatic_commits_come_at_intervals_one_at_a_time() -> None:
    auto = AutoCommit(True, 100)
    assert auto.wait_ms(0) is None
    assert not auto.is_due(0)
    assert auto.wait_ms(30) == 70
    assert not auto.is_due(99)
    assert auto.is_due(100)
    auto.begin(100)
    assert not auto.is_due(250), "one is under way"
    assert auto.wait_ms(250) is None
    auto.ended(250)
    assert auto.is_due(251)
    auto.begin(251)
    auto.ended(260, retry_in_ms=10)
    assert not auto.is_due(269)
    assert auto.is_due(270), "one that failed is made again soon"
    assert not AutoCommit(False, 100).is_due(1000)


def test_a_member_without_records_does_not_spin(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        reader = await alone(group, enable_auto_commit=True, auto_commit_interval_ms=1000)
        for _ in range(5):
            await reader.poll()
            assert reader.coordinator.patience_ms(reader.clock.monotonic_ms()) > 0
            await asyncio.sleep(1)

    play(scenario)
