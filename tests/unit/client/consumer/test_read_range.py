"""Ranges of partitions read one after another."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.simulation.consumer_fixture import ConsumerFixture, play

from odradek.client.consumer.consumer import Consumer
from odradek.model.ids import TopicPartition
from odradek.records.client.consumer import ColumnBuilder
from odradek.records.layout import POLL_COLUMNS

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


async def read_range(
    consumer: Consumer, partition: TopicPartition, start: int, stop: int, bytes_max: int = 10_000
) -> list[int]:
    """Return the offsets of a range, read as ``RangeConsumer`` does."""
    engine = consumer._engine
    await engine.start()
    engine.read_range(partition, start, stop)
    offsets: list[int] = []
    state = engine.subscription.of(partition)
    while not state.has_stopped:
        await engine.wait_for_records(5000)
        columns = ColumnBuilder(POLL_COLUMNS, bytes_max)
        engine.take_columns(100, columns)
        offsets += memoryview(columns.finish().offsets).cast("B").cast("q").tolist()
    return offsets


async def write_records(fixture: ConsumerFixture, *partitions: TopicPartition) -> None:
    for partition in partitions:
        for start in range(0, 30, 5):
            await fixture.write(partition, *(b"%d" % index for index in range(start, start + 5)))


def test_no_fetch_is_in_flight_after_range() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a", 2)
        await write_records(fixture, A0, A1)
        consumer = fixture.consumer(auto_offset_reset="none", fetch_max_wait_ms=3_600_000)
        assert await read_range(consumer, A0, 3, 30) == list(range(3, 30))
        assert consumer._engine._fetcher._in_flight == {}
        began_ms = fixture.memory.clock.monotonic_ms()
        assert await read_range(consumer, A1, 0, 30) == list(range(30))
        assert await read_range(consumer, A0, 29, 30) == [29]
        assert fixture.memory.clock.monotonic_ms() - began_ms < 1000

    play(scenario)


def test_next_range_uses_buffered_records() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await write_records(fixture, A0)
        consumer = fixture.consumer(auto_offset_reset="none")
        assert await read_range(consumer, A0, 0, 7) == list(range(7))
        fetched = consumer.metrics()["bytes-consumed-total"]
        buffered_bytes = consumer._engine._buffer.size_bytes
        assert buffered_bytes > 0
        sent = _fetch_count(consumer)
        assert await read_range(consumer, A0, 7, 22) == list(range(7, 22))
        assert _fetch_count(consumer) == sent
        assert consumer.metrics()["bytes-consumed-total"] > fetched
        assert await read_range(consumer, A0, 2, 4) == [2, 3]
        assert _fetch_count(consumer) > sent

    play(scenario)


def _fetch_count(consumer: Consumer) -> float:
    return next(session._epoch for session in consumer._engine._fetcher._sessions.values())


def test_ranges_of_alternating_topics_need_one_metadata_request() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.create("b")
        await write_records(fixture, A0, B0)
        consumer = fixture.consumer(auto_offset_reset="none")
        for partition in (A0, B0):
            await read_range(consumer, partition, 0, 5)
        metadata = consumer._engine._network.metadata
        for partition in (A0, B0, A0):
            await read_range(consumer, partition, 5, 9)
        assert consumer._engine._network.metadata is metadata

    play(scenario)


@settings(max_examples=15)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=6), st.sampled_from([1, 40, 10_000]))
def test_adjacent_ranges_read_each_record_once(boundaries: list[int], bytes_max: int) -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await write_records(fixture, A0)
        consumer = fixture.consumer(auto_offset_reset="none", max_partition_fetch_bytes=200)
        offsets: list[int] = []
        for start, stop in pairwise([0, *sorted(boundaries), 30]):
            offsets += await read_range(consumer, A0, start, stop, bytes_max)
        assert offsets == list(range(30))

    play(scenario)
