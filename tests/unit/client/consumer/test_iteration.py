"""Loops over a consumer take many records at once; only those that a loop was given count as read."""

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
from odradek.records.codec import ConsumerRecord

A0, A1 = PLACES = (TopicPartition("a", 0), TopicPartition("a", 1))
BROKER = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
RECORDS = 60
BATCH = 7


async def fill(stage: ConsumerFixture) -> None:
    await stage.create("a", len(PLACES))
    for place in PLACES:
        for start in range(0, RECORDS, BATCH):
            await stage.write(place, *(b"%d" % n for n in range(start, min(start + BATCH, RECORDS))))


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


class Reading:
    """A consumer, and where it must be in each partition."""

    def __init__(self, reader: Consumer) -> None:
        self.reader = reader
        self.places = dict.fromkeys(PLACES, 0)
        self.paused: set[TopicPartition] = set()

    def left(self) -> int:
        return sum(RECORDS - offset for place, offset in self.places.items() if place not in self.paused)

    def given(self, place: TopicPartition, offset: int, value: bytes) -> None:
        assert place not in self.paused
        assert offset == self.places[place], f"{place}: {offset} was given after {self.places[place]}"
        assert int(value) == offset
        self.places[place] = offset + 1

    def all_given(self, records: list[ConsumerRecord]) -> None:
        for record in records:
            self.given(TopicPartition(record.topic, record.partition), record.offset, record.value)

    # What a program does.

    async def loop(self, count: int, _: TopicPartition) -> None:
        async with asyncio.timeout(60):
            self.all_given(await loop_over(self.reader, min(count, self.left())))

    async def loop_and_fail(self, count: int, _: TopicPartition) -> None:
        with suppress(ZeroDivisionError):
            while self.left():
                record = await anext(self.reader)
                self.all_given([record])
                count -= 1
                assert 1 / min(count, self.left())

    async def loop_and_look(self, count: int, place: TopicPartition) -> None:
        for _ in range(min(count, self.left())):
            self.all_given([await anext(self.reader)])
            if count % 3 == 0:
                await self.look(count, place)

    async def poll(self, count: int, _: TopicPartition) -> None:
        self.all_given(await self.reader.poll(0.1, max_records=count))

    async def poll_columns(self, count: int, _: TopicPartition) -> None:
        for row in (await self.reader.poll_arrow(0.1, max_records=count)).to_pylist():
            self.given(TopicPartition(row["topic"], row["partition"]), row["offset"], row["value"])

    async def look(self, _: int, place: TopicPartition) -> None:
        assert await self.reader.position(place) == self.places[place]

    async def commit(self, _: int, place: TopicPartition) -> None:
        await self.reader.commit()
        committed = await self.reader.committed(*PLACES)
        assert {each: found and found.offset for each, found in committed.items()} == self.places

    async def seek(self, count: int, place: TopicPartition) -> None:
        self.places[place] = count
        self.reader.seek(place, count)

    async def begin_anew(self, _: int, place: TopicPartition) -> None:
        self.places[place] = 0
        self.reader.seek_to_beginning(place)
        await self.reader.position(place)

    async def pause(self, _: int, place: TopicPartition) -> None:
        self.paused.add(place)
        self.reader.pause(place)

    async def resume(self, _: int, place: TopicPartition) -> None:
        self.paused.discard(place)
        self.reader.resume(place)

    async def drop_and_assign(self, _: int, place: TopicPartition) -> None:
        self.reader.assign([each for each in PLACES if each != place])
        self.reader.assign(PLACES)
        self.paused.discard(place)
        self.reader.seek(place, self.places[place])

    async def work(self, count: int, _: TopicPartition) -> None:
        await asyncio.sleep(count / 100)


LOOPS = [Reading.loop, Reading.loop_and_fail, Reading.loop_and_look]
BETWEEN = [
    *(Reading.poll, Reading.poll_columns, Reading.look, Reading.commit, Reading.seek, Reading.begin_anew),
    *(Reading.pause, Reading.resume, Reading.drop_and_assign, Reading.work),
]
deeds_of = st.sampled_from(LOOPS) | st.sampled_from(BETWEEN)
steps = st.tuples(deeds_of, st.integers(1, 40), st.sampled_from(PLACES))


@given(st.lists(steps, max_size=25), st.sampled_from([1, 3, 500]), st.booleans())
def test_records_follow_positions_whatever_a_program_does_between_loops(
    deeds: list[Any], records_max: int, deserializes: bool
) -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        await fill(stage)
        options = {"value_deserializer": lambda value: bytes(value)} if deserializes else {}
        reader = stage.reader(
            *PLACES,
            group_id="g",
            enable_auto_commit=False,
            max_poll_records=records_max,
            max_partition_fetch_bytes=300,
            **options,
        )
        for place in PLACES:
            await reader.position(place)
        reading = Reading(reader)
        for deed, count, place in deeds:
            await deed(reading, count, place)
        for place in PLACES:
            await reading.look(0, place)
        await reading.commit(0, A0)

    play(scenario, BROKER)


def test_a_quick_loop_takes_many_records_at_once_and_a_slow_one_takes_them_one_by_one() -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        await fill(stage)
        reader = stage.reader(A0)
        took: list[int] = []
        take = reader._engine._buffer.take

        def noting(records_max: int) -> list[ConsumerRecord]:
            records = take(records_max)
            took.extend([len(records)] if records else [])
            return records

        reader._engine._buffer.take = noting  # type: ignore[method-assign]
        await loop_over(reader, 40)
        assert max(took) > 10
        reader.seek(A0, 0)
        took.clear()
        seen = 0
        async for _ in reader:
            await asyncio.sleep(1)
            if (seen := seen + 1) == 20:
                break
        assert took == [1] * 20

    play(scenario, BROKER)


def test_a_slow_loop_stays_in_its_group_and_commits_what_it_was_given() -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        await fill(stage)
        options = {"group_id": "g", "auto_offset_reset": "earliest", "max_poll_interval_ms": 10_000}
        reader = stage.consumer(**options, auto_commit_interval_ms=1000)
        reader.subscribe(["a"])
        other = stage.consumer(**options)
        seen = dict.fromkeys(PLACES, 0)
        async for record in reader:
            place = TopicPartition("a", record.partition)
            committed = (await other.committed(place))[place]
            assert committed is None or committed.offset <= seen[place]
            seen[place] = record.offset + 1
            await asyncio.sleep(3)
            if sum(seen.values()) == 30:
                break
        assert reader.metrics()["rebalance-total"] == 1
        await reader.close()
        found = await other.committed(*PLACES)
        assert {place: 0 if each is None else each.offset for place, each in found.items()} == seen

    play(scenario, BROKER)


def test_a_record_that_cannot_be_deserialized_is_met_after_those_before_it_and_stays_next() -> None:
    def read(value: bytes) -> int:
        return 1 // (int(value) - 20) and int(value)

    async def scenario(stage: ConsumerFixture) -> None:
        await fill(stage)
        reader = stage.reader(A0, value_deserializer=read)
        seen: list[int] = []
        for _ in range(2):
            with pytest.raises(SerializationFailed, match="offset 20 "):
                await loop_into(seen, reader)
        assert seen == list(range(20))
        assert await reader.position(A0) == 20
        reader.seek(A0, 21)
        assert [record.offset for record in await loop_over(reader, 3)] == [21, 22, 23]

    play(scenario, BROKER)


def test_what_is_given_back_is_neither_deserialized_nor_shown_to_interceptors_twice() -> None:
    deserialized: list[bytes] = []
    shown: list[int] = []

    class Shown(ConsumerInterceptor):
        def on_consume(self, records: list[Any]) -> list[Any]:
            shown.extend(record.offset for record in records)
            return [record for record in records if record.offset % 2]

    def read(value: bytes) -> bytes:
        deserialized.append(value)
        return value

    async def scenario(stage: ConsumerFixture) -> None:
        await fill(stage)
        reader = stage.reader(A0, value_deserializer=read, interceptors=[Shown()])
        seen = []
        for count in (9, 3, 5):
            seen += [record.offset for record in await loop_over(reader, count)]
            assert await reader.position(A0) == seen[-1] + 1
        seen += [record.offset for record in await reader.poll(1, max_records=10)]
        assert seen == list(range(1, 44, 2))
        assert shown == list(range(44))
        assert deserialized == [b"%d" % offset for offset in range(len(deserialized))]
        assert reader.metrics()["records-consumed-total"] == 44

    play(scenario, BROKER)


def test_what_is_given_back_is_not_fetched_again() -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        await fill(stage)
        reader = stage.reader(A0)
        await loop_over(reader, 1)
        await asyncio.sleep(1)  # all is fetched meanwhile
        read_bytes = reader.metrics()["bytes-consumed-total"]
        fetched = reader.metrics()["fetch-total"]
        for count in range(2, 9):
            await loop_over(reader, count)
            await reader.position(A0)
        assert reader.metrics()["fetch-total"] <= fetched + 1  # the one that waits at the end
        assert reader.metrics()["bytes-consumed-total"] > read_bytes
        assert await reader.position(A0) == sum(range(9))

    play(scenario, BROKER)


def test_loops_inside_loops_share_the_records() -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        await fill(stage)
        reader = stage.reader(A0)
        seen = []
        async for outer in reader:
            seen.append(outer.offset)
            seen += [record.offset for record in await loop_over(reader, 4)]
            if len(seen) == 50:
                break
        assert seen == list(range(50))

    play(scenario, BROKER)


def test_a_loop_that_goes_on_while_another_task_waits_in_a_call_is_refused() -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        await fill(stage)
        reader = stage.reader(A0)
        await loop_over(reader, 20)
        other = asyncio.create_task(reader.end_offsets(PLACES))
        await asyncio.sleep(0)
        with pytest.raises(ConcurrentUse):
            await anext(reader)
        await other
        assert (await anext(reader)).offset == 20

    play(scenario, BROKER)
