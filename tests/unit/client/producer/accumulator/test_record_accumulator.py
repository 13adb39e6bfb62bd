"""Lines of batches: what may go, in which order, and what becomes of time, size and retries."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.client.producer.accumulator.record_accumulator import NEVER_MS, RecordAccumulator, Retry
from odradek.model.ids import TopicPartition
from odradek.records.codec import ProducerBatch

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
NODE = 7


class Leaders:
    """All partitions have the same leader, unless told otherwise."""

    def __init__(self, **others: tuple[int, int]) -> None:
        self.others = others

    def leader(self, partition: TopicPartition) -> tuple[int, int]:
        return self.others.get(f"{partition.topic}{partition.partition}", (NODE, 3))


def accumulator(**how: Any) -> RecordAccumulator:
    how = {"batch_bytes": 1000, "linger_ms": 10, "delivery_timeout_ms": 100, **how}
    return RecordAccumulator(**how)


def filled(partition: TopicPartition, now_ms: int, *values: bytes, sequence: int = -1) -> ProducerBatch:
    batch = ProducerBatch(partition.topic, partition.partition, 1000, now_ms)
    for value in values or (b"v",):
        assert batch.append(0, None, value, None) is not None
    batch.base_sequence = sequence
    return batch


def opened(lines: RecordAccumulator, partition: TopicPartition, now_ms: int, *values: bytes) -> ProducerBatch:
    batch = filled(partition, now_ms, *values)
    lines.add(batch, 1000)
    return batch


def test_a_batch_with_room_lingers() -> None:
    lines = accumulator()
    opened(lines, A0, 100)
    ready = lines.ready(Leaders(), 105)
    assert ready.nodes == {}
    assert ready.next_check_ms == 110
    assert lines.ready(Leaders(), 110).nodes == {NODE: [A0]}


def test_a_batch_with_another_behind_it_goes_at_once() -> None:
    lines = accumulator()
    first = opened(lines, A0, 100)
    opened(lines, A0, 100)
    assert not first.is_open
    assert lines.ready(Leaders(), 100).nodes == {NODE: [A0]}
    assert lines.drain([A0], 10_000, 100) == [first]
    assert lines.ready(Leaders(), 100).nodes == {}


def test_an_oversized_record_does_not_linger() -> None:
    lines = accumulator()
    opened(lines, A0, 100, bytes(5000))
    assert lines.ready(Leaders(), 100).nodes == {NODE: [A0]}


@pytest.mark.parametrize("why", ["closing", "flush", "pressing"])
def test_nothing_lingers_under_pressure(why: str) -> None:
    lines = accumulator()
    opened(lines, A0, 100)
    if why == "flush":
        lines.begin_flush(lambda: None)
    lines.closing = why == "closing"
    assert lines.ready(Leaders(), 100, pressing=why == "pressing").nodes == {NODE: [A0]}


def test_without_a_leader_a_batch_waits_and_its_topic_is_told() -> None:
    lines = accumulator()
    opened(lines, A0, 0)
    ready = lines.ready(Leaders(a0=(-1, -1)), 1000)
    assert ready.nodes == {}
    assert ready.leaderless_topics == {"a"}
    assert ready.next_check_ms == NEVER_MS


def test_a_muted_partition_waits() -> None:
    lines = accumulator()
    opened(lines, A0, 0)
    lines.mute(A0)
    assert lines.ready(Leaders(), 50).nodes == {}
    lines.unmute(A0)
    assert lines.ready(Leaders(), 50).nodes == {NODE: [A0]}


def test_a_request_holds_one_batch_of_each_partition_up_to_its_size() -> None:
    lines = accumulator()
    first, second = opened(lines, A0, 0, bytes(500)), opened(lines, A1, 0, bytes(500))
    assert lines.drain([A0, A1], 900, 50) == [first]
    assert lines.drain([A1], 900, 50) == [second]
    assert not lines.has_queued


def test_who_was_served_goes_behind_the_others() -> None:
    lines = accumulator()
    for partition in (A0, A0, A1):
        opened(lines, partition, 0, bytes(900))
    order = []
    for _ in range(3):
        (batch,) = lines.drain(lines.ready(Leaders(), 50).nodes[NODE], 1000, 50)
        order.append(batch.partition)
    assert order == [0, 1, 0]


def test_a_drained_batch_takes_no_more() -> None:
    told = []
    lines = accumulator(sealed=lambda topic, partition: told.append((topic, partition)))
    batch = opened(lines, A0, 0)
    lines.drain([A0], 1000, 50)
    assert batch.append(0, None, b"late", None) is None
    assert told == [("a", 0)]


def test_a_retried_batch_rests_and_goes_first() -> None:
    lines = accumulator()
    batch = opened(lines, A0, 0)
    lines.drain([A0], 1000, 10)
    later = opened(lines, A0, 10)
    lines.requeue(batch, Retry(60, 3))
    ready = lines.ready(Leaders(), 59)
    assert ready.nodes == {}
    assert ready.next_check_ms == 60
    assert lines.drain(lines.ready(Leaders(), 60).nodes[NODE], 1000, 60) == [batch]
    assert lines.tail(A0) is later
    assert batch.in_retry


def test_a_new_leader_ends_the_rest() -> None:
    lines = accumulator()
    batch = opened(lines, A0, 0)
    lines.drain([A0], 1000, 10)
    lines.requeue(batch, Retry(60, 3))
    assert lines.ready(Leaders(a0=(NODE, 4)), 20).nodes == {NODE: [A0]}


@pytest.mark.parametrize("back", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_numbered_batches_come_back_in_the_order_of_numbers(back: tuple[int, ...]) -> None:
    lines = accumulator()
    wraps = 2**31 - 1
    batches = [filled(A0, 0, sequence=number) for number in (wraps, 0, 1)]
    fresh = opened(lines, A0, 0)
    for index in back:
        lines.requeue(batches[index], Retry(0, 3))
    taken = [lines.drain([A0], 1000, 50)[0] for _ in range(4)]
    assert taken == [*batches, fresh]


def test_time_is_up_for_whole_batches_oldest_first() -> None:
    lines = accumulator()
    first, second = opened(lines, A0, 0), opened(lines, A0, 50)
    assert lines.expired(99) == []
    assert lines.expiry_check_ms == 100
    assert lines.expired(100) == [first]
    assert lines.expired(149) == []
    assert lines.expired(150) == [second]
    assert lines.expiry_check_ms == NEVER_MS


def test_time_is_up_for_a_batch_that_came_back_old() -> None:
    lines = accumulator()
    batch = opened(lines, A0, 0)
    lines.drain([A0], 1000, 10)
    opened(lines, A0, 90)
    assert lines.expired(95) == []
    lines.requeue(batch, Retry(500, 3))
    assert lines.expired(100) == [batch]


def test_a_split_batch_is_replaced_by_its_parts_in_order() -> None:
    lines = accumulator()
    batch = opened(lines, A0, 0, *(bytes([number]) * 200 for number in range(4)))
    lines.drain([A0], 10_000, 0)
    batch.base_sequence, batch.producer_id, batch.producer_epoch = 10, 5, 1
    later = opened(lines, A0, 0)
    parts = lines.split(batch)
    lines.completed(batch)
    assert len(parts) > 1
    assert sum(part.count for part in parts) == 4
    assert [part.base_sequence for part in parts][:2] == [10, 10 + parts[0].count]
    assert {(part.producer_id, part.producer_epoch) for part in parts} == {(5, 1)}
    taken = []
    while lines.has_queued:
        taken += lines.drain([A0], 10_000, 50)
    assert taken == [*parts, later]
    assert set(lines.incomplete) == {*parts, later}


def test_a_batch_that_had_to_grow_goes_at_once_and_counts_as_queued() -> None:
    lines = accumulator()
    batch = opened(lines, A0, 0, bytes(800))
    assert lines.queued_bytes == 0
    lines.grew(batch, 4000)
    assert lines.ready(Leaders(), 0).nodes == {NODE: [A0]}
    assert lines.queued_bytes == batch.size_bytes
    assert batch.extend(4000) is not None
    batch.append(0, None, bytes(2000))
    lines.grew(batch, 16_000)
    assert lines.queued_bytes == batch.size_bytes
    assert lines.line_length(A0) == 2, "one that has grown counts for several"
    assert lines.drain([A0], 10_000, 0) == [batch]
    assert lines.queued_bytes == 0
    assert lines.completed(batch) == 16_000


def test_parts_hold_the_memory_of_the_whole() -> None:
    lines = accumulator()
    batch = opened(lines, A0, 0, bytes(300), bytes(300), bytes(300))
    lines.drain([A0], 10_000, 0)
    parts = lines.split(batch)
    assert lines.completed(batch) == 0
    assert sum(lines.completed(part) for part in parts) == 1000


def test_a_flush_waits_for_what_was_there_and_not_for_later_ones() -> None:
    lines = accumulator()
    done: list[str] = []
    batch = opened(lines, A0, 0)
    lines.begin_flush(lambda: done.append("flush"))
    later = opened(lines, A0, 0)
    lines.completed(later)
    assert done == []
    lines.completed(batch)
    assert done == ["flush"]


def test_a_flush_waits_for_the_parts_of_a_split_batch() -> None:
    lines = accumulator()
    done: list[str] = []
    batch = opened(lines, A0, 0, bytes(300), bytes(300))
    lines.drain([A0], 10_000, 0)
    lines.begin_flush(lambda: done.append("flush"))
    parts = lines.split(batch)
    lines.completed(batch)
    assert done == []
    for part in parts:
        lines.completed(part)
    assert done == ["flush"]


def test_a_flush_of_nothing_is_done_at_once() -> None:
    done: list[str] = []
    accumulator().begin_flush(lambda: done.append("flush"))
    assert done == ["flush"]


def test_what_waits_is_counted_while_it_waits() -> None:
    lines = accumulator()
    batch = opened(lines, A0, 0, bytes(100))
    assert lines.queued_bytes == 0, "an open batch is not waiting"
    opened(lines, A0, 0)
    assert lines.queued_bytes == batch.size_bytes
    lines.drain([A0], 1000, 0)
    assert lines.queued_bytes == 0
    lines.requeue(batch, Retry(0, 0))
    assert lines.queued_bytes == batch.size_bytes
    lines.take_all()
    assert lines.queued_bytes == 0


def test_only_what_was_never_numbered_is_taken_from_an_aborted_transaction() -> None:
    lines = accumulator()
    fresh = opened(lines, A0, 0)
    numbered = filled(A0, 0, sequence=4)
    lines.requeue(numbered, Retry(0, 0))
    assert lines.take_never_sent() == [fresh]
    assert lines.drain([A0], 1000, 0) == [numbered]


def test_batches_without_numbers_that_fail_one_after_another_keep_their_order() -> None:
    lines = accumulator()
    batches = [filled(A0, 0), filled(A0, 0), filled(A0, 5)]
    fresh = opened(lines, A0, 5)
    for batch in batches:
        lines.requeue(batch, Retry(0, 3))
    assert [lines.drain([A0], 1000, 50)[0] for _ in range(4)] == [*batches, fresh]
