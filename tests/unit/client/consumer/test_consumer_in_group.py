"""A consumer as a group member: start offsets, commits, rebalance listeners."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.support.simulation.consumer_fixture import ConsumerFixture, play, read_some, values_of

from odradek.client.consumer.consumer import Consumer
from odradek.client.values import OffsetAndMetadata
from odradek.model.client_errors import ClientError, ConcurrentUse, InvalidState, RequestRefused, WakeupError
from odradek.model.ids import TopicPartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
BROKER = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
}


def member(fixture: ConsumerFixture, **options: Any) -> Consumer:
    return fixture.consumer(**{"group_id": "g", "auto_offset_reset": "earliest", **options})


def test_member_starts_at_offset_committed_on_close() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.write(A0, b"0", b"1", b"2")
        first = member(fixture, max_poll_records=2)
        first.subscribe(["a"])
        assert values_of(await first.poll(10)) == [b"0", b"1"]
        assert first.assignment() == {A0}
        await first.close()
        second = member(fixture)
        second.subscribe(["a"])
        assert values_of(await second.poll(10)) == [b"2"]

    play(scenario, BROKER)


def test_manual_commit() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.write(A0, b"0", b"1", b"2")
        first = member(fixture, enable_auto_commit=False)
        first.subscribe(["a"])
        assert len(await read_some(first, 3, 10)) == 3
        await first.commit({A0: OffsetAndMetadata(1, "one")})
        assert await first.committed(A0, A1) == {A0: OffsetAndMetadata(1, "one"), A1: None}
        await first.close()
        second = member(fixture, enable_auto_commit=False)
        second.subscribe(["a"])
        assert values_of(await second.poll(10)) == [b"1", b"2"]
        await second.commit()
        assert await second.committed(A0) == {A0: OffsetAndMetadata(3, "", 0)}

    play(scenario, BROKER)


def test_auto_commit_covers_exactly_polled_records() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.write(A0, b"0", b"1", b"2", b"3")
        reader = member(fixture, max_poll_records=1, auto_commit_interval_ms=100)
        reader.subscribe(["a"])
        for count in range(4):
            assert len(await reader.poll(10)) == 1
            await asyncio.sleep(1)
            reader.pause(A0)
            assert await reader.poll(0.5) == []
            reader.resume(A0)
            await asyncio.sleep(1)
            assert (await reader.committed(A0))[A0] == OffsetAndMetadata(count + 1, "", 0)

    play(scenario, BROKER)


def test_commit_async_calls_back_in_later_poll() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.write(A0, b"0", b"1")
        reader = member(fixture, enable_auto_commit=False)
        reader.subscribe(["a"])
        await read_some(reader, 2, 10)
        completed: list[tuple[Any, ClientError | None]] = []
        reader.commit_async({A0: 1}, lambda offsets, error: completed.append((offsets, error)))
        reader.commit_async(on_commit=lambda offsets, error: completed.append((offsets, error)))
        await asyncio.sleep(1)
        assert completed == []
        await reader.poll(1)
        assert completed == [
            ({A0: OffsetAndMetadata(1)}, None),
            ({A0: OffsetAndMetadata(2, "", 0)}, None),
        ]

    play(scenario, BROKER)


class Listener:
    """Records its calls, and uses the consumer in them."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.calls: list[tuple[str, list[TopicPartition]]] = []

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append(("assigned", list(partitions)))
        for partition in partitions:
            self.consumer.seek(partition, 1)
        await self.consumer.end_offsets(partitions)

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append(("revoked", list(partitions)))
        await self.consumer.commit()

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append(("lost", list(partitions)))


def test_listener_can_seek_and_commit() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a", 2)
        await fixture.write(A0, b"0", b"1", b"2")
        reader = member(fixture, enable_auto_commit=False)
        listener = Listener(reader)
        reader.subscribe(["a"], listener=listener)
        assert values_of(await read_some(reader, 2, 10)) == [b"1", b"2"]
        await reader.unsubscribe()
        assert [name for name, partitions in listener.calls if partitions] == ["assigned", "revoked"]
        reader.assign([A0])
        assert await reader.position(A0) == 3

    play(scenario, BROKER)


def test_poll_inside_listener_raises_in_outer_poll() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        reader = member(fixture)

        class PollingListener:
            async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
                await reader.poll(1)

        reader.subscribe(["a"], listener=PollingListener())
        with pytest.raises(InvalidState, match="poll must not be called inside poll"):
            await reader.poll(30)

    play(scenario, BROKER)


def test_listener_called_after_wakeup_belongs_to_next_poll() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        reader = member(fixture)
        listener = Listener(reader)
        reader.subscribe(["a"], listener=listener)
        reader.wakeup()
        with pytest.raises(WakeupError):
            await reader.poll(30)
        for _ in range(20):
            reader.wakeup()
            with pytest.raises((WakeupError, ConcurrentUse)):
                await reader.poll(30)
            await asyncio.sleep(0.01)
        await fixture.write(A0, b"0", b"1")
        assert values_of(await reader.poll(30)) == [b"1"]
        assert [name for name, partitions in listener.calls if partitions] == ["assigned"]

    play(scenario, BROKER)


def test_poll_cancelled_during_listener_can_be_continued() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.write(A0, b"0", b"1")
        reader = member(fixture)

        class SlowListener(Listener):
            async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
                await asyncio.sleep(5)
                await super().on_partitions_assigned(partitions)

        listener = SlowListener(reader)
        reader.subscribe(["a"], listener=listener)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await reader.poll(30)
        assert values_of(await reader.poll(30)) == [b"1"]
        assert listener.calls == [("assigned", [A0])]
        await reader.commit()

    play(scenario, BROKER)


def test_rebalance_loses_no_records() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a", 2)
        seen: list[tuple[int, int]] = []

        async def run(consumer: Consumer, rounds: int) -> None:
            consumer.subscribe(["a"])
            for _ in range(rounds):
                seen.extend((record.partition, record.offset) for record in await consumer.poll(0.2))
            await consumer.close()

        async def write() -> None:
            for index in range(40):
                await fixture.write(A0, b"%d" % index)
                await fixture.write(A1, b"%d" % index)
                await asyncio.sleep(0.1)

        first = asyncio.create_task(run(member(fixture), 25))
        second = asyncio.create_task(run(member(fixture), 60))
        await asyncio.gather(write(), first, second)
        last = member(fixture)
        last.subscribe(["a"])
        seen.extend((record.partition, record.offset) for record in await read_some(last, 80, 5))
        assert sorted(set(seen)) == [(partition, offset) for partition in (0, 1) for offset in range(40)]
        assert len(seen) == 80

    play(scenario, BROKER)


def test_pattern_subscription_includes_new_topics() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.write(A0, b"0")
        reader = member(fixture, metadata_max_age_ms=1000)
        reader.subscribe(pattern="a.*")
        assert values_of(await reader.poll(10)) == [b"0"]
        await fixture.create("ab")
        await fixture.create("b")
        await fixture.write(TopicPartition("ab", 0), b"1")
        await fixture.write(TopicPartition("b", 0), b"2")
        assert values_of(await read_some(reader, 1, 30)) == [b"1"]
        assert reader.subscription() == {"a", "ab"}

    play(scenario, BROKER)


def test_manual_assignment_can_commit_to_group() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.write(A0, b"0", b"1")
        reader = member(fixture, max_poll_records=1)
        reader.assign([A0])
        assert values_of(await reader.poll(10)) == [b"0"]
        await reader.commit()
        await reader.close()
        restarted = member(fixture)
        restarted.assign([A0])
        assert values_of(await restarted.poll(10)) == [b"1"]

    play(scenario, BROKER)


def test_join_error_names_group_and_broker() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        first = member(fixture, partition_assignment_strategy="range")
        first.subscribe(["a"])
        await first.poll(5)
        second = member(fixture, partition_assignment_strategy="sticky")
        second.subscribe(["a"])
        with pytest.raises(RequestRefused, match="JoinGroup of group g") as error:
            await second.poll(5)
        assert "broker:9092" in str(error.value.broker)

    play(scenario, BROKER)
