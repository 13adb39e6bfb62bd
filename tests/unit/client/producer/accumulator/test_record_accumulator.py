"""Record accumulator: ready batches, order, expiry, splits, retries and flushes."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.client.producer.accumulator.record_accumulator import NEVER_MS, RecordAccumulator, Retry
from odradek.model.ids import TopicPartition
from odradek.records.client.producer import ProducerBatch

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
NODE = 7


class Leaders:
    """All partitions have the same leader, except the given ones."""

    def __init__(self, **exceptions: tuple[int, int]) -> None:
        self.exceptions = exceptions

    def leader(self, partition: TopicPartition) -> tuple[int, int]:
        return self.exceptions.get(f"{partition.topic}{partition.partition}", (NODE, 3))


def new_accumulator(**options: Any) -> RecordAccumulator:
    options = {"batch_bytes": 1000, "linger_ms": 10, "delivery_timeout_ms": 100, **options}
    return RecordAccumulator(**options)


def new_batch(partition: TopicPartition, now_ms: int, *values: bytes, sequence: int = -1) -> ProducerBatch:
    batch = ProducerBatch(partition.topic, partition.partition, 1000, now_ms)
    for value in values or (b"v",):
        assert batch.append(0, None, value, None) is not None
    batch.base_sequence = sequence
    return batch


def add_batch(
    accumulator: RecordAccumulator, partition: TopicPartition, now_ms: int, *values: bytes
) -> ProducerBatch:
    batch = new_batch(partition, now_ms, *values)
    accumulator.add(batch, 1000)
    return batch


def test_open_batch_lingers() -> None:
    accumulator = new_accumulator()
    add_batch(accumulator, A0, 100)
    ready = accumulator.ready(Leaders(), 105)
    assert ready.nodes == {}
    assert ready.next_check_ms == 110
    assert accumulator.ready(Leaders(), 110).nodes == {NODE: [A0]}


def test_batch_with_a_successor_is_ready_immediately() -> None:
    accumulator = new_accumulator()
    first = add_batch(accumulator, A0, 100)
    add_batch(accumulator, A0, 100)
    assert not first.is_open
    assert accumulator.ready(Leaders(), 100).nodes == {NODE: [A0]}
    assert accumulator.drain([A0], 10_000, 100) == [first]
    assert accumulator.ready(Leaders(), 100).nodes == {}


def test_oversized_record_does_not_linger() -> None:
    accumulator = new_accumulator()
    add_batch(accumulator, A0, 100, bytes(5000))
    assert accumulator.ready(Leaders(), 100).nodes == {NODE: [A0]}


@pytest.mark.parametrize("reason", ["closing", "flush", "memory"])
def test_no_linger_while_closing_flushing_or_short_of_memory(reason: str) -> None:
    accumulator = new_accumulator()
    add_batch(accumulator, A0, 100)
    if reason == "flush":
        accumulator.begin_flush(lambda: None)
    accumulator.closing = reason == "closing"
    assert accumulator.ready(Leaders(), 100, skip_linger=reason == "memory").nodes == {NODE: [A0]}


def test_batch_without_leader_waits_and_its_topic_is_reported() -> None:
    accumulator = new_accumulator()
    add_batch(accumulator, A0, 0)
    ready = accumulator.ready(Leaders(a0=(-1, -1)), 1000)
    assert ready.nodes == {}
    assert ready.leaderless_topics == {"a"}
    assert ready.next_check_ms == NEVER_MS


def test_muted_partition_is_not_ready() -> None:
    accumulator = new_accumulator()
    add_batch(accumulator, A0, 0)
    accumulator.mute(A0)
    assert accumulator.ready(Leaders(), 50).nodes == {}
    accumulator.unmute(A0)
    assert accumulator.ready(Leaders(), 50).nodes == {NODE: [A0]}


def test_drain_takes_one_batch_per_partition_up_to_the_request_size() -> None:
    accumulator = new_accumulator()
    first, second = add_batch(accumulator, A0, 0, bytes(500)), add_batch(accumulator, A1, 0, bytes(500))
    assert accumulator.drain([A0, A1], 900, 50) == [first]
    assert accumulator.drain([A1], 900, 50) == [second]
    assert not accumulator.has_queued


def test_drained_partition_moves_behind_the_others() -> None:
    accumulator = new_accumulator()
    for partition in (A0, A0, A1):
        add_batch(accumulator, partition, 0, bytes(900))
    order = []
    for _ in range(3):
        (batch,) = accumulator.drain(accumulator.ready(Leaders(), 50).nodes[NODE], 1000, 50)
        order.append(batch.partition)
    assert order == [0, 1, 0]


def test_drained_batch_is_sealed() -> None:
    sealed = []
    accumulator = new_accumulator(on_sealed=lambda topic, partition: sealed.append((topic, partition)))
    batch = add_batch(accumulator, A0, 0)
    accumulator.drain([A0], 1000, 50)
    assert batch.append(0, None, b"late", None) is None
    assert sealed == [("a", 0)]


def test_retried_batch_backs_off_and_goes_first() -> None:
    accumulator = new_accumulator()
    batch = add_batch(accumulator, A0, 0)
    accumulator.drain([A0], 1000, 10)
    later = add_batch(accumulator, A0, 10)
    accumulator.requeue(batch, Retry(60, 3))
    ready = accumulator.ready(Leaders(), 59)
    assert ready.nodes == {}
    assert ready.next_check_ms == 60
    assert accumulator.drain(accumulator.ready(Leaders(), 60).nodes[NODE], 1000, 60) == [batch]
    assert accumulator.tail(A0) is later
    assert batch.in_retry


def test_new_leader_epoch_skips_the_backoff() -> None:
    accumulator = new_accumulator()
    batch = add_batch(accumulator, A0, 0)
    accumulator.drain([A0], 1000, 10)
    accumulator.requeue(batch, Retry(60, 3))
    assert accumulator.ready(Leaders(a0=(NODE, 4)), 20).nodes == {NODE: [A0]}


@pytest.mark.parametrize("requeue_order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_requeued_batches_are_ordered_by_sequence(requeue_order: tuple[int, ...]) -> None:
    accumulator = new_accumulator()
    last_sequence = 2**31 - 1
    batches = [new_batch(A0, 0, sequence=number) for number in (last_sequence, 0, 1)]
    fresh = add_batch(accumulator, A0, 0)
    for index in requeue_order:
        accumulator.requeue(batches[index], Retry(0, 3))
    drained = [accumulator.drain([A0], 1000, 50)[0] for _ in range(4)]
    assert drained == [*batches, fresh]


def test_batches_expire_oldest_first() -> None:
    accumulator = new_accumulator()
    first, second = add_batch(accumulator, A0, 0), add_batch(accumulator, A0, 50)
    assert accumulator.take_expired(99) == []
    assert accumulator.expiry_check_ms == 100
    assert accumulator.take_expired(100) == [first]
    assert accumulator.take_expired(149) == []
    assert accumulator.take_expired(150) == [second]
    assert accumulator.expiry_check_ms == NEVER_MS


def test_requeued_batch_expires_by_its_creation_time() -> None:
    accumulator = new_accumulator()
    batch = add_batch(accumulator, A0, 0)
    accumulator.drain([A0], 1000, 10)
    add_batch(accumulator, A0, 90)
    assert accumulator.take_expired(95) == []
    accumulator.requeue(batch, Retry(500, 3))
    assert accumulator.take_expired(100) == [batch]


def test_split_batch_is_replaced_by_its_parts_in_order() -> None:
    accumulator = new_accumulator()
    batch = add_batch(accumulator, A0, 0, *(bytes([number]) * 200 for number in range(4)))
    accumulator.drain([A0], 10_000, 0)
    batch.base_sequence, batch.producer_id, batch.producer_epoch = 10, 5, 1
    later = add_batch(accumulator, A0, 0)
    parts = accumulator.split(batch)
    accumulator.remove(batch)
    assert len(parts) > 1
    assert sum(part.count for part in parts) == 4
    assert [part.base_sequence for part in parts][:2] == [10, 10 + parts[0].count]
    assert {(part.producer_id, part.producer_epoch) for part in parts} == {(5, 1)}
    drained = []
    while accumulator.has_queued:
        drained += accumulator.drain([A0], 10_000, 50)
    assert drained == [*parts, later]
    assert set(accumulator.incomplete) == {*parts, later}


def test_grown_batch_is_ready_immediately_and_counts_as_queued() -> None:
    accumulator = new_accumulator()
    batch = add_batch(accumulator, A0, 0, bytes(800))
    assert accumulator.queued_bytes == 0
    accumulator.on_batch_grown(batch, 4000)
    assert accumulator.ready(Leaders(), 0).nodes == {NODE: [A0]}
    assert accumulator.queued_bytes == batch.size_bytes
    assert batch.extend(4000) is not None
    batch.append(0, None, bytes(2000))
    accumulator.on_batch_grown(batch, 16_000)
    assert accumulator.queued_bytes == batch.size_bytes
    assert accumulator.queue_length(A0) == 2, "a grown batch counts as several"
    assert accumulator.drain([A0], 10_000, 0) == [batch]
    assert accumulator.queued_bytes == 0
    assert accumulator.remove(batch) == 16_000


def test_parts_share_the_memory_of_the_split_batch() -> None:
    accumulator = new_accumulator()
    batch = add_batch(accumulator, A0, 0, bytes(300), bytes(300), bytes(300))
    accumulator.drain([A0], 10_000, 0)
    parts = accumulator.split(batch)
    assert accumulator.remove(batch) == 0
    assert sum(accumulator.remove(part) for part in parts) == 1000


def test_flush_waits_only_for_earlier_batches() -> None:
    accumulator = new_accumulator()
    done: list[str] = []
    batch = add_batch(accumulator, A0, 0)
    accumulator.begin_flush(lambda: done.append("flush"))
    later = add_batch(accumulator, A0, 0)
    accumulator.remove(later)
    assert done == []
    accumulator.remove(batch)
    assert done == ["flush"]


def test_flush_waits_for_the_parts_of_a_split_batch() -> None:
    accumulator = new_accumulator()
    done: list[str] = []
    batch = add_batch(accumulator, A0, 0, bytes(300), bytes(300))
    accumulator.drain([A0], 10_000, 0)
    accumulator.begin_flush(lambda: done.append("flush"))
    parts = accumulator.split(batch)
    accumulator.remove(batch)
    assert done == []
    for part in parts:
        accumulator.remove(part)
    assert done == ["flush"]


def test_flush_without_batches_completes_immediately() -> None:
    done: list[str] = []
    new_accumulator().begin_flush(lambda: done.append("flush"))
    assert done == ["flush"]


def test_queued_bytes_counts_sealed_batches() -> None:
    accumulator = new_accumulator()
    batch = add_batch(accumulator, A0, 0, bytes(100))
    assert accumulator.queued_bytes == 0, "an open batch is not queued"
    add_batch(accumulator, A0, 0)
    assert accumulator.queued_bytes == batch.size_bytes
    accumulator.drain([A0], 1000, 0)
    assert accumulator.queued_bytes == 0
    accumulator.requeue(batch, Retry(0, 0))
    assert accumulator.queued_bytes == batch.size_bytes
    accumulator.take_all()
    assert accumulator.queued_bytes == 0


def test_take_never_sent_returns_batches_without_sequence() -> None:
    accumulator = new_accumulator()
    fresh = add_batch(accumulator, A0, 0)
    sequenced = new_batch(A0, 0, sequence=4)
    accumulator.requeue(sequenced, Retry(0, 0))
    assert accumulator.take_never_sent() == [fresh]
    assert accumulator.drain([A0], 1000, 0) == [sequenced]


def test_requeued_batches_without_sequence_keep_their_order() -> None:
    accumulator = new_accumulator()
    batches = [new_batch(A0, 0), new_batch(A0, 0), new_batch(A0, 5)]
    fresh = add_batch(accumulator, A0, 5)
    for batch in batches:
        accumulator.requeue(batch, Retry(0, 3))
    assert [accumulator.drain([A0], 1000, 50)[0] for _ in range(4)] == [*batches, fresh]
