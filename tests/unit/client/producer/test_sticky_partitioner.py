"""Sticky partitions of records without a key, drawn by load."""

from __future__ import annotations

from collections import Counter
from typing import Any

from odradek.client.network.metadata import TopicMetadata, topic_metadata
from odradek.client.producer.accumulator.record_accumulator import RecordAccumulator
from odradek.client.producer.sticky_partitioner import PseudoRandom, StickyPartitioner
from odradek.client.values import PartitionInfo
from odradek.records.client.producer import ProducerBatch, RecordAppender

BATCH_BYTES = 1000


class Clock:
    now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000

    def wall_ms(self) -> int:
        return self.now_ms

    async def sleep_ms(self, duration_ms: int) -> None:
        raise AssertionError("not used")


class PartitionerFixture:
    def __init__(self, *leaders: int, **options: Any) -> None:
        self.clock = Clock()
        self.accumulator = RecordAccumulator(batch_bytes=BATCH_BYTES, linger_ms=0, delivery_timeout_ms=1000)
        self.blocked: dict[int, int] = {}
        options = {"adapts": True, "availability_timeout_ms": 0, **options}
        self.sticky_partitioner = StickyPartitioner(
            self.accumulator, self.clock, 7, self.blocked, batch_bytes=BATCH_BYTES, **options
        )
        self.appender = RecordAppender(lambda *args: None, lambda: 0)
        self.topic: TopicMetadata = topic_metadata(
            "t",
            bytes(16),
            [PartitionInfo("t", number, leader, (1,), (1,)) for number, leader in enumerate(leaders)],
        )
        self.appender.set_topic("t", len(leaders))

    def draws(self, count: int) -> Counter[int]:
        drawn: Counter[int] = Counter()
        for _ in range(count):
            drawn[self.sticky_partitioner.partition(self.appender, self.topic)] += 1
            self.appender.add_sticky_bytes("t", BATCH_BYTES)
        return drawn


def test_partition_is_kept_until_half_of_batch_size() -> None:
    fixture = PartitionerFixture(1, 1, 1)
    first = fixture.sticky_partitioner.partition(fixture.appender, fixture.topic)
    fixture.appender.add_sticky_bytes("t", BATCH_BYTES // 2 - 1)
    assert fixture.sticky_partitioner.partition(fixture.appender, fixture.topic) == first


def test_partitions_are_drawn_uniformly() -> None:
    drawn = PartitionerFixture(1, 1, 1).draws(3000)
    assert all(800 < drawn[number] < 1200 for number in range(3))


def test_partitions_without_leader_are_not_drawn() -> None:
    assert set(PartitionerFixture(1, -1, 1).draws(200)) == {0, 2}


def test_partition_with_a_long_queue_is_drawn_less() -> None:
    fixture = PartitionerFixture(1, 1)
    for _ in range(9):
        fixture.accumulator.add(ProducerBatch("t", 0, BATCH_BYTES, 0), 0)
    drawn = fixture.draws(1100)
    # Weight 1 for the long queue, 10 for the empty one.
    assert 50 < drawn[0] < 160


def test_queue_lengths_are_ignored_without_adaptive_partitioning() -> None:
    fixture = PartitionerFixture(1, 1, adapts=False)
    for _ in range(9):
        fixture.accumulator.add(ProducerBatch("t", 0, BATCH_BYTES, 0), 0)
    assert fixture.draws(1000)[0] > 400


def test_blocked_broker_is_excluded_after_availability_timeout() -> None:
    fixture = PartitionerFixture(1, 2, availability_timeout_ms=100)
    fixture.blocked[2] = 0
    fixture.clock.now_ms = 100
    assert set(fixture.draws(100)) == {0, 1}
    fixture.clock.now_ms = 101
    fixture.accumulator.drain([], 0, 0)
    assert set(fixture.draws(100)) == {0}
    fixture.blocked[1] = 0
    fixture.accumulator.drain([], 0, 0)
    assert set(fixture.draws(100)) == {0, 1}, "with no ready broker, all partitions are drawn"


def test_pseudo_random_is_uniform() -> None:
    random = PseudoRandom(3)
    counts = Counter(random.below(6) for _ in range(6000))
    assert all(850 < counts[number] < 1150 for number in range(6))
