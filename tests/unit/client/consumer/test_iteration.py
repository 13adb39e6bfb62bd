"""Iteration over a consumer: records are taken in batches, and only yielded ones count as consumed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.simulation.consumer_fixture import ConsumerFixture, play

from odradek.client.consumer.consumer import Consumer
from odradek.client.interceptors import ConsumerInterceptor
from odradek.model.client_errors import ConcurrentUse, SerializationFailed
from odradek.model.ids import TopicPartition
from odradek.records.client.consumer import ConsumerRecord

A0, A1 = PARTITIONS = (TopicPartition("a", 0), TopicPartition("a", 1))
BROKER = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
RECORDS = 60
BATCH = 7


async def fill(fixture: ConsumerFixture) -> None:
    await fixture.create("a", len(PARTITIONS))
    for partition in PARTITIONS:
        for start in range(0, RECORDS, BATCH):
            await fixture.write(partition, *(b"%d" % n for n in range(start, min(start + BATCH, RECORDS))))


async def loop_into(offsets: list[int], reader: Consumer) -> None:
    async for record in reader:
        offsets.append(record.offset)


async def loop_over(reader: Consumer, count: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    if count:
        async for record in reader:
            records.append(record)
            if len(records) == count:
                break
    return records


class IterationModel:
    """A consumer, and its expected position in each partition."""

    def __init__(self, reader: Consumer) -> None:
        self.reader = reader
        self.positions = dict.fromkeys(PARTITIONS, 0)
        self.paused: set[TopicPartition] = set()

    def remaining(self) -> int:
        return sum(
            RECORDS - offset for partition, offset in self.positions.items() if partition not in self.paused
        )

    def check(self, partition: TopicPartition, offset: int, value: bytes | None) -> None:
        assert partition not in self.paused
        expected = self.positions[partition]
        assert offset == expected, f"{partition}: got offset {offset}, expected {expected}"
        assert value is not None
        assert int(value) == offset
        self.positions[partition] = offset + 1

    def check_all(self, records: list[ConsumerRecord]) -> None:
        for record in records:
            self.check(TopicPartition(record.topic, record.partition), record.offset, record.value)

    # Steps of a program.

    async def loop(self, count: int, _: TopicPartition) -> None:
        async with asyncio.timeout(60):
            self.check_all(await loop_over(self.reader, min(count, self.remaining())))

    async def loop_and_fail(self, count: int, _: TopicPartition) -> None:
        with suppress(ZeroDivisionError):
            while self.remaining():
                record = await anext(self.reader)
                self.check_all([record])
                count -= 1
                assert 1 / min(count, self.remaining())

    async def loop_and_check_position(self, count: int, partition: TopicPartition) -> None:
        for _ in range(min(count, self.remaining())):
            self.check_all([await anext(self.reader)])
            if count % 3 == 0:
                await self.check_position(count, partition)

    async def poll(self, count: int, _: TopicPartition) -> None:
        self.check_all(await self.reader.poll(0.1, max_records=count))

    async def poll_columns(self, count: int, _: TopicPartition) -> None:
        for row in (await self.reader.poll_arrow(0.1, max_records=count)).to_pylist():
            self.check(TopicPartition(row["topic"], row["partition"]), row["offset"], row["value"])

    async def check_position(self, _: int, partition: TopicPartition) -> None:
        assert await self.reader.position(partition) == self.positions[partition]

    async def commit(self, _: int, partition: TopicPartition) -> None:
        await self.reader.commit()
        committed = await self.reader.committed(*PARTITIONS)
        assert {tp: offset and offset.offset for tp, offset in committed.items()} == self.positions

    async def seek(self, count: int, partition: TopicPartition) -> None:
        self.positions[partition] = count
        self.reader.seek(partition, count)

    async def seek_to_beginning(self, _: int, partition: TopicPartition) -> None:
        self.positions[partition] = 0
        self.reader.seek_to_beginning(partition)
        await self.reader.position(partition)

    async def pause(self, _: int, partition: TopicPartition) -> None:
        self.paused.add(partition)
        self.reader.pause(partition)

    async def resume(self, _: int, partition: TopicPartition) -> None:
        self.paused.discard(partition)
        self.reader.resume(partition)

    async def reassign(self, _: int, partition: TopicPartition) -> None:
        self.reader.assign([other for other in PARTITIONS if other != partition])
        self.reader.assign(PARTITIONS)
        self.paused.discard(partition)
        self.reader.seek(partition, self.positions[partition])

    async def sleep(self, count: int, _: TopicPartition) -> None:
        await asyncio.sleep(count / 100)


LOOPS = [IterationModel.loop, IterationModel.loop_and_fail, IterationModel.loop_and_check_position]
BETWEEN = [
    *(
        IterationModel.poll,
        IterationModel.poll_columns,
        IterationModel.check_position,
        IterationModel.commit,
        IterationModel.seek,
        IterationModel.seek_to_beginning,
    ),
    *(IterationModel.pause, IterationModel.resume, IterationModel.reassign, IterationModel.sleep),
]
actions = st.sampled_from(LOOPS) | st.sampled_from(BETWEEN)
steps = st.tuples(actions, st.integers(1, 40), st.sampled_from(PARTITIONS))


@given(st.lists(steps, max_size=25), st.sampled_from([1, 3, 500]), st.booleans())
def test_iteration_agrees_with_positions(program: list[Any], records_max: int, deserializes: bool) -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fill(fixture)
        options = {"value_deserializer": lambda value: bytes(value)} if deserializes else {}
        reader = fixture.reader(
            *PARTITIONS,
            group_id="g",
            enable_auto_commit=False,
            max_poll_records=records_max,
            max_partition_fetch_bytes=300,
            **options,
        )
        for partition in PARTITIONS:
            await reader.position(partition)
        model = IterationModel(reader)
        for action, count, partition in program:
            await action(model, count, partition)
        for partition in PARTITIONS:
            await model.check_position(0, partition)
        await model.commit(0, A0)

    play(scenario, BROKER)


@pytest.mark.sources
def test_batch_size_follows_speed_of_loop() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fill(fixture)
        reader = fixture.reader(A0)
        batch_sizes: list[int] = []
        take = reader._engine._buffer.take

        def recording_take(records_max: int) -> list[ConsumerRecord]:
            records = take(records_max)
            batch_sizes.extend([len(records)] if records else [])
            return records

        reader._engine._buffer.take = recording_take  # type: ignore[method-assign]
        await loop_over(reader, 40)
        assert max(batch_sizes) > 10
        reader.seek(A0, 0)
        batch_sizes.clear()
        seen = 0
        async for _ in reader:
            await asyncio.sleep(1)
            if (seen := seen + 1) == 20:
                break
        assert batch_sizes == [1] * 20

    play(scenario, BROKER)


def test_slow_loop_stays_in_group_and_commits_consumed_records() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fill(fixture)
        options = {"group_id": "g", "auto_offset_reset": "earliest", "max_poll_interval_ms": 10_000}
        reader = fixture.consumer(**options, auto_commit_interval_ms=1000)
        reader.subscribe(["a"])
        other = fixture.consumer(**options)
        seen = dict.fromkeys(PARTITIONS, 0)
        async for record in reader:
            partition = TopicPartition("a", record.partition)
            committed = (await other.committed(partition))[partition]
            assert committed is None or committed.offset <= seen[partition]
            seen[partition] = record.offset + 1
            await asyncio.sleep(3)
            if sum(seen.values()) == 30:
                break
        assert reader.metrics()["rebalance-total"] == 1
        await reader.close()
        offsets = await other.committed(*PARTITIONS)
        committed_offsets = {
            partition: 0 if offset is None else offset.offset for partition, offset in offsets.items()
        }
        assert committed_offsets == seen

    play(scenario, BROKER)


def test_deserialization_error_in_loop_keeps_position() -> None:
    def deserialize(value: bytes) -> int:
        return 1 // (int(value) - 20) and int(value)

    async def scenario(fixture: ConsumerFixture) -> None:
        await fill(fixture)
        reader = fixture.reader(A0, value_deserializer=deserialize)
        seen: list[int] = []
        for _ in range(2):
            with pytest.raises(SerializationFailed, match="offset 20 "):
                await loop_into(seen, reader)
        assert seen == list(range(20))
        assert await reader.position(A0) == 20
        reader.seek(A0, 21)
        assert [record.offset for record in await loop_over(reader, 3)] == [21, 22, 23]

    play(scenario, BROKER)


def test_returned_records_are_not_processed_twice() -> None:
    deserialized: list[bytes] = []
    intercepted: list[int] = []

    class EvenFilter(ConsumerInterceptor):
        def on_consume(self, records: list[Any]) -> list[Any]:
            intercepted.extend(record.offset for record in records)
            return [record for record in records if record.offset % 2]

    def deserialize(value: bytes) -> bytes:
        deserialized.append(value)
        return value

    async def scenario(fixture: ConsumerFixture) -> None:
        await fill(fixture)
        reader = fixture.reader(A0, value_deserializer=deserialize, interceptors=[EvenFilter()])
        seen = []
        for count in (9, 3, 5):
            seen += [record.offset for record in await loop_over(reader, count)]
            assert await reader.position(A0) == seen[-1] + 1
        seen += [record.offset for record in await reader.poll(1, max_records=10)]
        assert seen == list(range(1, 44, 2))
        assert intercepted == list(range(44))
        assert deserialized == [b"%d" % offset for offset in range(len(deserialized))]
        assert reader.metrics()["records-consumed-total"] == 44

    play(scenario, BROKER)


def test_returned_records_are_not_fetched_again() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fill(fixture)
        reader = fixture.reader(A0)
        await loop_over(reader, 1)
        await asyncio.sleep(1)  # everything is fetched meanwhile
        read_bytes = reader.metrics()["bytes-consumed-total"]
        fetched = reader.metrics()["fetch-total"]
        for count in range(2, 9):
            await loop_over(reader, count)
            await reader.position(A0)
        assert reader.metrics()["fetch-total"] <= fetched + 1  # the fetch in flight at the log end
        assert reader.metrics()["bytes-consumed-total"] > read_bytes
        assert await reader.position(A0) == sum(range(9))

    play(scenario, BROKER)


def test_nested_loops_share_records() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fill(fixture)
        reader = fixture.reader(A0)
        seen = []
        async for outer in reader:
            seen.append(outer.offset)
            seen += [record.offset for record in await loop_over(reader, 4)]
            if len(seen) == 50:
                break
        assert seen == list(range(50))

    play(scenario, BROKER)


def test_iteration_during_call_of_another_task_fails() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fill(fixture)
        reader = fixture.reader(A0)
        await loop_over(reader, 20)
        other = asyncio.create_task(reader.end_offsets(PARTITIONS))
        await asyncio.sleep(0)
        with pytest.raises(ConcurrentUse):
            await anext(reader)
        await other
        assert (await anext(reader)).offset == 20

    play(scenario, BROKER)
