"""Records without a key stick to a partition until it has its share, and then the next is drawn by load."""

from __future__ import annotations

from collections import Counter
from typing import Any

from odradek.client.network.metadata import TopicMetadata, topic_metadata
from odradek.client.producer.accumulator.record_accumulator import RecordAccumulator
from odradek.client.producer.sticky_partitioner import PseudoRandom, StickyPartitioner
from odradek.client.values import PartitionInfo
from odradek.records.codec import ProducerBatch, RecordAppender

BATCH_BYTES = 1000


class Clock:
    now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms

    async def sleep_ms(self, duration_ms: int) -> None:
        raise AssertionError("nobody sleeps here")


class Scene:
    def __init__(self, *leaders: int, **how: Any) -> None:
        self.clock = Clock()
        self.lines = RecordAccumulator(batch_bytes=BATCH_BYTES, linger_ms=0, delivery_timeout_ms=1000)
        self.blocked: dict[int, int] = {}
        how = {"adapts": True, "availability_timeout_ms": 0, **how}
        self.sticking = StickyPartitioner(
            self.lines, self.clock, 7, self.blocked, batch_bytes=BATCH_BYTES, **how
        )
        self.appender = RecordAppender(lambda *given: None)
        self.topic: TopicMetadata = topic_metadata(
            "t",
            bytes(16),
            [PartitionInfo("t", number, leader, (1,), (1,)) for number, leader in enumerate(leaders)],
        )
        self.appender.set_topic("t", len(leaders))

    def draws(self, count: int) -> Counter[int]:
        drawn: Counter[int] = Counter()
        for _ in range(count):
            drawn[self.sticking.partition(self.appender, self.topic)] += 1
            self.appender.add_sticky_bytes("t", BATCH_BYTES)
        return drawn


def test_a_partition_is_kept_until_it_has_its_share() -> None:
    scene = Scene(1, 1, 1)
    first = scene.sticking.partition(scene.appender, scene.topic)
    scene.appender.add_sticky_bytes("t", BATCH_BYTES // 2 - 1)
    assert scene.sticking.partition(scene.appender, scene.topic) == first


def test_all_partitions_are_drawn_alike() -> None:
    drawn = Scene(1, 1, 1).draws(3000)
    assert all(800 < drawn[number] < 1200 for number in range(3))


def test_partitions_without_a_leader_are_not_drawn() -> None:
    assert set(Scene(1, -1, 1).draws(200)) == {0, 2}


def test_a_long_line_is_drawn_less() -> None:
    scene = Scene(1, 1)
    for _ in range(9):
        scene.lines.add(ProducerBatch("t", 0, BATCH_BYTES, 0), 0)
    drawn = scene.draws(1100)
    # One ticket for the long line, ten for the empty one.
    assert 50 < drawn[0] < 160


def test_without_adapting_lines_do_not_matter() -> None:
    scene = Scene(1, 1, adapts=False)
    for _ in range(9):
        scene.lines.add(ProducerBatch("t", 0, BATCH_BYTES, 0), 0)
    assert scene.draws(1000)[0] > 400


def test_a_broker_that_takes_nothing_is_left_out_after_a_while() -> None:
    scene = Scene(1, 2, availability_timeout_ms=100)
    scene.blocked[2] = 0
    scene.clock.now_ms = 100
    assert set(scene.draws(100)) == {0, 1}
    scene.clock.now_ms = 101
    scene.lines.drain([], 0, 0)
    assert set(scene.draws(100)) == {0}
    scene.blocked[1] = 0
    scene.lines.drain([], 0, 0)
    assert set(scene.draws(100)) == {0, 1}, "with nobody left, all are as good as each other"


def test_dice_fall_evenly() -> None:
    dice = PseudoRandom(3)
    fallen = Counter(dice.below(6) for _ in range(6000))
    assert all(850 < fallen[number] < 1150 for number in range(6))
