"""Synchronous, asynchronous and automatic offset commits against a broker on virtual time."""

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
            fixture = ClientFixture(memory, await memory.start(BROKER))
            readers = GroupMembers(fixture)
            try:
                await readers.create("t", 2)
                await scenario(readers)
                await readers.close()
                await fixture.close()
            finally:
                await fixture.broker.stop()
                await memory.close()

        run_virtually(main)

    return run


async def alone(group: GroupMembers, name: str = "a", **options: Any) -> GroupMember:
    """Return a member that owns both partitions."""
    reader = await group.reader(name, **options).subscribe("t")
    while reader.assigned != {T0, T1}:
        await reader.poll(1000)
    return reader


async def committed(reader: GroupMember) -> list[int | None]:
    offsets = await reader.coordinator.committed([T0, T1], 10_000)
    return [None if offset is None else offset.offset for offset in (offsets[T0], offsets[T1])]


def test_committed_returns_metadata_and_epoch(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        reader = await alone(group)
        offset = OffsetAndMetadata(5, "metadata", 3)
        await reader.coordinator.commit({T0: offset}, 10_000)
        offsets = await reader.coordinator.committed([T0, T1, TopicPartition("missing", 0)], 10_000)
        assert offsets == {T0: offset, T1: None, TopicPartition("missing", 0): None}
        assert reader.committed_by_interceptor == [{T0: offset}]
        assert await reader.coordinator.committed([], 10_000) == {}

    play(scenario)


def test_commit_callbacks_run_in_order_inside_poll(play: Play) -> None:
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


def test_commit_callback_can_be_coroutine(play: Play) -> None:
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


def test_sync_commit_follows_pending_async_commits(play: Play) -> None:
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


def test_failed_async_commit_reaches_only_its_callback(play: Play) -> None:
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


@pytest.mark.parametrize("metadata", ["\ud800", 7, object()])
def test_invalid_commit_metadata_fails_callback(play: Play, metadata: Any) -> None:
    async def scenario(group: GroupMembers) -> None:
        reader = await alone(group)
        errors: list[ClientError | None] = []
        reader.coordinator.commit_async(
            {T0: OffsetAndMetadata(1, metadata)}, lambda _, error: errors.append(error)
        )
        await asyncio.sleep(1)
        await reader.poll()
        assert len(errors) == 1
        assert isinstance(errors[0], ClientError)
        with pytest.raises(ClientError):
            await reader.coordinator.commit({T0: OffsetAndMetadata(1, metadata)}, 1000)

    play(scenario)


def test_auto_commit_at_interval_and_on_close(play: Play) -> None:
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


def test_positions_are_committed_before_revocation(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        auto_commit = {"enable_auto_commit": True, "auto_commit_interval_ms": 3_600_000}
        other = await group.reader("other", group_id="h").subscribe("t")
        for strategy in ("range", "cooperative-sticky"):
            options = {"partition_assignment_strategy": strategy, "group_id": strategy, **auto_commit}
            reader = await alone(group, f"{strategy}-1", **options)
            reader.read_to(7)
            seen: list[list[int | None]] = []

            async def on_revoked(
                partitions: Any, reader: GroupMember = reader, seen: list[list[int | None]] = seen
            ) -> None:
                seen.append(await committed(reader))

            reader.on_partitions_revoked = on_revoked  # type: ignore[method-assign, assignment]
            reader.keep_polling()
            second = await group.polling(f"{strategy}-2", "t", **options)
            await group.until_shared([reader, second], [T0, T1])
            assert seen[0] == [7, 7]
        await other.close()

    play(scenario)


def test_listener_can_commit_partitions_being_revoked(play: Play) -> None:
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


def test_commit_fails_while_rebalancing(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        reader = await alone(group)
        second = await group.polling("b", "t")
        reader.keep_polling()
        await group.until_shared([reader, second], [T0, T1])
        await second.stop_polling()
        await reader.stop_polling()
        reader.coordinator.request_rejoin("test")
        assert not await reader.poll(1000)
        with pytest.raises(RequestRefused) as raised:
            await reader.coordinator.commit({T0: OffsetAndMetadata(1)}, 1000)
        assert raised.value.code is ErrorCode.REBALANCE_IN_PROGRESS
        assert raised.value.retriable

    play(scenario)


def test_manual_assignment_commits_without_generation(play: Play) -> None:
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


def test_commit_retries_until_coordinator_returns_or_timeout(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        reader = await alone(group)
        fixture = group.fixture
        await fixture.broker.stop()
        with pytest.raises(TimedOut, match="offsets not committed within 2000 ms"):
            await reader.coordinator.commit({T0: OffsetAndMetadata(1)}, 2000)
        with pytest.raises(TimedOut, match="committed offsets not received"):
            await reader.coordinator.committed([T0], 2000)
        waiting = asyncio.create_task(reader.coordinator.commit({T0: OffsetAndMetadata(2)}, 30_000))
        await asyncio.sleep(1)
        fixture.broker = await fixture.memory.start(BROKER)
        await waiting
        assert await committed(reader) == [2, None]

    play(scenario)


def test_committed_waits_for_open_transaction(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        reader = await alone(group)
        writer = await group.fixture.network_client()
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


def test_close_runs_all_commit_callbacks(play: Play) -> None:
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


def test_close_respects_timeout_without_broker(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        reader = await alone(group, enable_auto_commit=True)
        reader.read_to(3)
        called: list[Any] = []
        reader.coordinator.commit_async({T0: OffsetAndMetadata(1)}, lambda *args: called.append(args))
        group.fixture.network.partition("a", "broker")
        began_ms = reader.clock.monotonic_ms()
        await reader.close(5000)
        assert reader.clock.monotonic_ms() - began_ms <= 5500
        ((offsets, error),) = called
        assert offsets == {T0: OffsetAndMetadata(1)}
        assert isinstance(error, ClientError), "a commit without a response has failed"
        group.fixture.network.heal()

    play(scenario)


def test_auto_commit_schedule() -> None:
    auto = AutoCommit(True, 100)
    assert auto.wait_ms(0) is None
    assert not auto.is_due(0)
    assert auto.wait_ms(30) == 70
    assert not auto.is_due(99)
    assert auto.is_due(100)
    auto.start(100)
    assert not auto.is_due(250), "one is in flight"
    assert auto.wait_ms(250) is None
    auto.complete(250)
    assert auto.is_due(251)
    auto.start(251)
    auto.complete(260, retry_in_ms=10)
    assert not auto.is_due(269)
    assert auto.is_due(270), "a failed commit is retried early"
    assert not AutoCommit(False, 100).is_due(1000)


def test_idle_member_does_not_busy_loop(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        reader = await alone(group, enable_auto_commit=True, auto_commit_interval_ms=1000)
        for _ in range(5):
            await reader.poll()
            assert reader.coordinator.time_to_next_poll_ms(reader.clock.monotonic_ms()) > 0
            await asyncio.sleep(1)

    play(scenario)
