"""A whole consumer as a member of a group: where it begins, what it commits, what its listener may do."""

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


def member(stage: ConsumerFixture, **options: Any) -> Consumer:
    return stage.consumer(**{"group_id": "g", "auto_offset_reset": "earliest", **options})


def test_a_member_goes_on_where_the_last_one_committed_on_its_way_out() -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        await stage.create("a")
        await stage.write(A0, b"0", b"1", b"2")
        first = member(stage, max_poll_records=2)
        first.subscribe(["a"])
        assert values_of(await first.poll(10)) == [b"0", b"1"]
        assert first.assignment() == {A0}
        await first.close()
        second = member(stage)
        second.subscribe(["a"])
        assert values_of(await second.poll(10)) == [b"2"]

    play(scenario, BROKER)


def test_without_automatic_commits_only_what_was_committed_counts() -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        await stage.create("a")
        await stage.write(A0, b"0", b"1", b"2")
        first = member(stage, enable_auto_commit=False)
        first.subscribe(["a"])
        assert len(await read_some(first, 3, 10)) == 3
        await first.commit({A0: OffsetAndMetadata(1, "one")})
        assert await first.committed(A0, A1) == {A0: OffsetAndMetadata(1, "one"), A1: None}
        await first.close()
        second = member(stage, enable_auto_commit=False)
        second.subscribe(["a"])
        assert values_of(await second.poll(10)) == [b"1", b"2"]
        await second.commit()
        assert await second.committed(A0) == {A0: OffsetAndMetadata(3, "", 0)}

    play(scenario, BROKER)


def test_what_was_polled_is_committed_from_time_to_time_and_never_what_was_not() -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        await stage.create("a")
        await stage.write(A0, b"0", b"1", b"2", b"3")
        reader = member(stage, max_poll_records=1, auto_commit_interval_ms=100)
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


def test_commits_without_waiting_are_told_of_in_a_later_poll() -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        await stage.create("a")
        await stage.write(A0, b"0", b"1")
        reader = member(stage, enable_auto_commit=False)
        reader.subscribe(["a"])
        await read_some(reader, 2, 10)
        told: list[tuple[Any, ClientError | None]] = []
        reader.commit_async({A0: 1}, lambda offsets, error: told.append((offsets, error)))
        reader.commit_async(on_commit=lambda offsets, error: told.append((offsets, error)))
        await asyncio.sleep(1)
        assert told == []
        await reader.poll(1)
        assert told == [
            ({A0: OffsetAndMetadata(1)}, None),
            ({A0: OffsetAndMetadata(2, "", 0)}, None),
        ]

    play(scenario, BROKER)


class Listener:
    """Notes what comes and goes, and uses the consumer while it hears of it."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.heard: list[tuple[str, list[TopicPartition]]] = []

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.heard.append(("assigned", list(partitions)))
        for partition in partitions:
            self.consumer.seek(partition, 1)
        await self.consumer.end_offsets(partitions)

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.heard.append(("revoked", list(partitions)))
        await self.consumer.commit()

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.heard.append(("lost", list(partitions)))


def test_a_listener_may_seek_and_commit() -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        await stage.create("a", 2)
        await stage.write(A0, b"0", b"1", b"2")
        reader = member(stage, enable_auto_commit=False)
        listener = Listener(reader)
        reader.subscribe(["a"], listener=listener)
        assert values_of(await read_some(reader, 2, 10)) == [b"1", b"2"]
        await reader.unsubscribe()
        assert [name for name, partitions in listener.heard if partitions] == ["assigned", "revoked"]
        reader.assign([A0])
        assert await reader.position(A0) == 3

    play(scenario, BROKER)


def test_a_listener_cannot_poll_and_what_it_raises_comes_out_of_the_poll() -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        await stage.create("a")
        reader = member(stage)

        class Poller:
            async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
                await reader.poll(1)

        reader.subscribe(["a"], listener=Poller())  # type: ignore[arg-type]
        with pytest.raises(InvalidState, match="poll was called inside poll"):
            await reader.poll(30)

    play(scenario, BROKER)


def test_a_listener_after_a_wakeup_belongs_to_the_next_poll() -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        await stage.create("a")
        reader = member(stage)
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
        await stage.write(A0, b"0", b"1")
        assert values_of(await reader.poll(30)) == [b"1"]
        assert [name for name, partitions in listener.heard if partitions] == ["assigned"]

    play(scenario, BROKER)


def test_a_poll_that_is_cancelled_while_its_listener_works_leaves_all_in_order() -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        await stage.create("a")
        await stage.write(A0, b"0", b"1")
        reader = member(stage)

        class Slow(Listener):
            async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
                await asyncio.sleep(5)
                await super().on_partitions_assigned(partitions)

        listener = Slow(reader)
        reader.subscribe(["a"], listener=listener)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await reader.poll(30)
        assert values_of(await reader.poll(30)) == [b"1"]
        assert listener.heard == [("assigned", [A0])]
        await reader.commit()

    play(scenario, BROKER)


def test_members_share_and_hand_over_without_loss() -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        await stage.create("a", 2)
        seen: list[tuple[int, int]] = []

        async def run(consumer: Consumer, rounds: int) -> None:
            consumer.subscribe(["a"])
            for _ in range(rounds):
                seen.extend((record.partition, record.offset) for record in await consumer.poll(0.2))
            await consumer.close()

        async def write() -> None:
            for index in range(40):
                await stage.write(A0, b"%d" % index)
                await stage.write(A1, b"%d" % index)
                await asyncio.sleep(0.1)

        first = asyncio.create_task(run(member(stage), 25))
        second = asyncio.create_task(run(member(stage), 60))
        await asyncio.gather(write(), first, second)
        last = member(stage)
        last.subscribe(["a"])
        seen.extend((record.partition, record.offset) for record in await read_some(last, 80, 5))
        assert sorted(set(seen)) == [(partition, offset) for partition in (0, 1) for offset in range(40)]
        assert len(seen) == 80

    play(scenario, BROKER)


def test_a_pattern_finds_topics_that_come_later() -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        await stage.create("a")
        await stage.write(A0, b"0")
        reader = member(stage, metadata_max_age_ms=1000)
        reader.subscribe(pattern="a.*")
        assert values_of(await reader.poll(10)) == [b"0"]
        await stage.create("ab")
        await stage.create("b")
        await stage.write(TopicPartition("ab", 0), b"1")
        await stage.write(TopicPartition("b", 0), b"2")
        assert values_of(await read_some(reader, 1, 30)) == [b"1"]
        assert reader.subscription() == {"a", "ab"}

    play(scenario, BROKER)


def test_a_member_of_a_group_may_assign_by_itself_and_still_commit() -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        await stage.create("a")
        await stage.write(A0, b"0", b"1")
        reader = member(stage, max_poll_records=1)
        reader.assign([A0])
        assert values_of(await reader.poll(10)) == [b"0"]
        await reader.commit()
        await reader.close()
        again = member(stage)
        again.assign([A0])
        assert values_of(await again.poll(10)) == [b"1"]

    play(scenario, BROKER)


def test_who_refused_a_member_is_told_with_the_group() -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        await stage.create("a")
        first = member(stage, partition_assignment_strategy="range")
        first.subscribe(["a"])
        await first.poll(5)
        second = member(stage, partition_assignment_strategy="sticky")
        second.subscribe(["a"])
        with pytest.raises(RequestRefused, match="could not join group g") as refused:
            await second.poll(5)
        assert "broker:9092" in str(refused.value.broker)

    play(scenario, BROKER)
