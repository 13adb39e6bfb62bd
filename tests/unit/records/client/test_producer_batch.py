"""Batches of a producer: encoding, completion, deliveries, splitting."""

import asyncio
import copy
import gc
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.record_codecs import COMPILED, IMPLEMENTATIONS

from odradek.model.client_errors import InvalidState
from odradek.model.errors import LocalProtocolViolation
from odradek.model.protocol_enums import Compression
from odradek.records import codec
from odradek.records.compression import compress
from odradek.records.layout import BATCH_OVERHEAD, TRANSACTIONAL_BIT, RecordMetadata

blobs = st.none() | st.binary(max_size=60)
headers = st.none() | st.lists(st.tuples(st.text(max_size=8), blobs), max_size=3)
rows = st.lists(st.tuples(st.integers(-1, 2**42), blobs, blobs, headers), min_size=1, max_size=30)


@pytest.fixture(params=IMPLEMENTATIONS, ids=["compiled", "python"])
def implementation(request: pytest.FixtureRequest) -> SimpleNamespace:
    param: SimpleNamespace = request.param
    return param


class FakeWaiter:
    """Waiter that records its calls; ``on_wait`` may complete the batch."""

    def __init__(self, on_wait: Callable[[Any], None] = lambda _: None) -> None:
        self.delivered: list[tuple[Any, int]] = []
        self.waited: list[Any] = []
        self._on_wait = on_wait

    def deliver(self, batch: Any, calls: list[Any]) -> None:
        assert batch.done
        self.delivered.append((batch, len(calls)))
        for function, arguments in calls:
            function(*arguments)

    def wait(self, batch: Any, timeout_s: float | None) -> None:
        self.waited.append((batch, timeout_s))
        self._on_wait(batch)

    def future(self, batch: Any) -> Awaitable[object]:
        self._on_wait(batch)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done


def filled(
    implementation: SimpleNamespace, count: int, *, capacity: int = 1 << 20, waiter: object = None
) -> tuple[Any, list[Any]]:
    batch = implementation.ProducerBatch("orders", 3, capacity, 1_000, None, waiter)
    deliveries = [batch.append(1_000 + index, b"k%d" % index, bytes(20), None) for index in range(count)]
    assert None not in deliveries
    return batch, deliveries


@given(rows, st.sampled_from([100, 300, 1 << 20]), st.booleans())
def test_implementations_encode_equal_bytes_and_reject_the_same_records(
    source_rows: list[Any], capacity: int, pooled: bool
) -> None:
    seen = []
    for implementation in IMPLEMENTATIONS:
        batch = implementation.ProducerBatch("t", 0, capacity, 5, bytearray(capacity) if pooled else None)
        taken = [batch.append(*row) is not None for row in source_rows]
        state = (batch.count, batch.size_bytes, batch.base_timestamp, batch.max_timestamp, batch.is_open)
        plain = bytes(batch.plain_records())
        seen.append((taken, state, plain, bytes(batch.finish(TRANSACTIONAL_BIT, 7, 2, 40))))
    assert seen[0] == seen[1]
    taken, state, plain, sent = seen[0]
    assert state[1] == len(sent) == BATCH_OVERHEAD + len(plain)
    assert taken[0]
    decoded = codec.decode(sent)
    kept = [row for row, fits in zip(source_rows, taken, strict=True) if fits]
    assert [(r.timestamp, r.key, r.value, list(r.headers)) for r in decoded] == [
        (timestamp, key, value, list(headers or [])) for timestamp, key, value, headers in kept
    ]
    (header,) = codec.read_headers(sent)
    assert codec.has_valid_crc(sent, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 40)
    assert header.is_transactional
    assert header.max_timestamp == max(row[0] for row in kept)


def test_capacity_limits_all_but_the_first_record(implementation: SimpleNamespace) -> None:
    batch = implementation.ProducerBatch("t", 0, 200, 0, bytearray(200))
    assert batch.append(1, None, bytes(5_000), None) is not None
    assert batch.append(1, None, b"", None) is None
    assert len(batch.finish(0, -1, -1, -1)) > 5_000
    exact = implementation.ProducerBatch("t", 0, BATCH_OVERHEAD + 2 * 17, 0)
    assert [exact.append(1, None, bytes(10), None) is not None for _ in range(3)] == [True, True, False]
    assert exact.size_bytes == exact.capacity_bytes


def test_short_buffer_grows_to_the_capacity(implementation: SimpleNamespace) -> None:
    batch = implementation.ProducerBatch("t", 0, 10_000, 0, bytearray(100))
    count = 0
    while batch.append(count, None, bytes(90), None) is not None:
        count += 1
    assert count > 90
    assert [record.timestamp for record in codec.decode(batch.finish(0, -1, -1, -1))] == list(range(count))


@given(st.lists(st.integers(0, 300), min_size=1, max_size=30), st.lists(st.integers(200, 3000), max_size=6))
def test_extended_batch_equals_a_large_one(sizes: list[int], capacities: list[int]) -> None:
    for implementation in IMPLEMENTATIONS:
        large = implementation.ProducerBatch("t", 0, 100_000, 0)
        grown = implementation.ProducerBatch("t", 0, 200, 0)
        rooms = [*sorted(capacities), 100_000]
        for number, size in enumerate(sizes):
            large.append(number, None, bytes([number]) * size)
            while grown.append(number, None, bytes([number]) * size) is None:
                room = rooms.pop(0)
                assert grown.size_bytes > room or grown.extend(room) is not None
        assert bytes(grown.finish(0, 7, 1, 3)) == bytes(large.finish(0, 7, 1, 3))


def test_extend_returns_the_previous_buffer(implementation: SimpleNamespace) -> None:
    small, large = bytearray(200), bytearray(2000)
    batch = implementation.ProducerBatch("t", 0, 200, 0, small)
    batch.append(1, None, bytes(100))
    assert batch.append(1, None, bytes(100)) is None
    assert batch.extend(2000, large) is small
    small.clear()
    assert batch.capacity_bytes == 2000
    assert batch.append(1, None, bytes(1000)) is not None
    assert batch.extend(1000, bytearray(5000)) is None, "no batch shrinks"
    assert batch.extend(5000, bytearray(500)) is None, "its records would not fit"
    with pytest.raises(TypeError):
        batch.extend(5000, bytes(5000))
    batch.seal()
    assert batch.extend(5000) is None
    assert len(codec.decode(batch.finish(0, -1, -1, -1))) == 2
    batch.complete(0)
    assert batch.take_buffer() is large


def test_sealed_batch_rejects_records(implementation: SimpleNamespace) -> None:
    batch, _ = filled(implementation, 1)
    batch.seal()
    assert not batch.is_open
    assert batch.append(1, None, b"late", None) is None
    assert batch.count == 1


def test_record_size_upper_bound(implementation: SimpleNamespace) -> None:
    headers = [("name", b"value"), ("other", None)]
    bound = implementation.record_size_upper_bound(bytes(300), memoryview(bytes(70_000)), headers)
    batch = implementation.ProducerBatch("t", 0, BATCH_OVERHEAD + bound, 0, bytearray(BATCH_OVERHEAD + bound))
    batch.append(2**62, bytes(300), bytes(70_000), headers)
    assert batch.size_bytes <= BATCH_OVERHEAD + bound
    assert implementation.record_size_upper_bound(None, None) < 40


def test_fields_may_be_any_buffer_but_not_str(implementation: SimpleNamespace) -> None:
    batch = implementation.ProducerBatch("t", 0, 1000, 0)
    batch.append(1, bytearray(b"key"), memoryview(b"-value-")[1:6], iter([("h", memoryview(b"x"))]))
    for bad in ("text", 5):
        with pytest.raises(TypeError):
            batch.append(1, bad, None, None)
        with pytest.raises(TypeError):
            batch.append(1, None, bad, None)
    with pytest.raises(LocalProtocolViolation):
        batch.append(1, None, None, [(None, b"x")])
    with pytest.raises(LocalProtocolViolation):
        batch.append(-2, None, None, None)
    (record,) = codec.decode(batch.finish(0, -1, -1, -1))
    assert record[2:] == (b"key", b"value", (("h", b"x"),))


@pytest.mark.parametrize("kind", list(Compression)[1:])
def test_compressed_batch_can_be_finished_again(implementation: SimpleNamespace, kind: Compression) -> None:
    batch, _ = filled(implementation, 50)
    plain = bytes(batch.plain_records())
    first = bytes(batch.finish(int(kind), 5, 0, 10, compress(kind, batch.plain_records())))
    again = bytes(batch.finish(int(kind), 5, 1, 0))
    assert bytes(batch.plain_records()) == plain
    for sent, epoch, sequence in ((first, 0, 10), (again, 1, 0)):
        (header,) = codec.read_headers(sent)
        assert codec.has_valid_crc(sent, header)
        assert (header.producer_epoch, header.base_sequence, header.codec_id) == (epoch, sequence, kind)
        assert len(codec.decode(sent)) == 50
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)


def test_finish_rejects_empty_and_incomplete_batches(implementation: SimpleNamespace) -> None:
    with pytest.raises(LocalProtocolViolation, match="must have records"):
        implementation.ProducerBatch("t", 0, 1000, 0).finish(0, -1, -1, -1)
    batch, _ = filled(implementation, 1)
    with pytest.raises(LocalProtocolViolation, match="compressed"):
        batch.finish(int(Compression.ZSTD), -1, -1, -1)


def test_buffer_can_be_taken_once_the_batch_is_done(implementation: SimpleNamespace) -> None:
    pooled = bytearray(4096)
    batch = implementation.ProducerBatch("t", 0, 4096, 0, pooled)
    batch.append(1, None, b"value", None)
    with pytest.raises(LocalProtocolViolation):
        batch.take_buffer()
    batch.complete(9)
    assert batch.take_buffer() is pooled
    assert batch.take_buffer() is None
    for use in (batch.plain_records, lambda: batch.finish(0, -1, -1, -1)):
        with pytest.raises(LocalProtocolViolation, match="already taken"):
            use()
    assert batch.append(1, None, b"value", None) is None


def test_buffer_in_use_cannot_be_resized() -> None:
    pooled = bytearray(4096)
    batch = COMPILED.ProducerBatch("t", 0, 4096, 0, pooled)
    with pytest.raises(BufferError):
        pooled.clear()
    assert batch.append(1, None, b"value", None) is not None


def test_buffer_must_be_a_bytearray(implementation: SimpleNamespace) -> None:
    with pytest.raises(TypeError):
        implementation.ProducerBatch("t", 0, 100, 0, bytes(100))


def test_delivery_metadata(implementation: SimpleNamespace) -> None:
    batch, deliveries = filled(implementation, 3)
    assert not any(delivery.done() for delivery in deliveries)
    assert batch.complete(100)
    assert all(delivery.done() for delivery in deliveries)
    assert deliveries[2].result() == RecordMetadata("orders", 3, 102, 1_002, 2, 20)
    assert deliveries[0].exception() is None
    assert (deliveries[1].topic, deliveries[1].partition, deliveries[1].timestamp) == ("orders", 3, 1_001)


def test_log_append_time_and_unknown_offset_in_metadata(implementation: SimpleNamespace) -> None:
    batch, (delivery,) = filled(implementation, 1)
    batch.complete(7, 5_555)
    assert delivery.result().timestamp == 5_555
    unknown, (_, second) = filled(implementation, 2)
    unknown.complete(-1)
    assert second.result().offset == -1


def test_batch_completes_once(implementation: SimpleNamespace) -> None:
    waiter = FakeWaiter()
    calls: list[Any] = []
    batch = implementation.ProducerBatch("t", 0, 1000, 0, None, waiter)
    delivery = batch.append(1, None, b"v", None, lambda *outcome: calls.append(outcome))
    error = RuntimeError("first")
    assert batch.fail(error)
    assert not batch.fail(RuntimeError("second"))
    assert not batch.complete(5)
    assert not batch.fail_records({0: RuntimeError("third")}, RuntimeError("fourth"))
    assert waiter.delivered == [(batch, 1)]
    assert calls == [(None, error)]
    assert delivery.exception() is error
    with pytest.raises(RuntimeError, match="first"):
        delivery.result()
    with pytest.raises(LocalProtocolViolation):
        batch.split(100)


def test_callbacks_run_in_send_order(implementation: SimpleNamespace) -> None:
    seen: list[Any] = []
    batch = implementation.ProducerBatch("t", 0, 10_000, 0, None, FakeWaiter())
    deliveries = [
        batch.append(1, None, b"%d" % n, None, lambda metadata, error, n=n: seen.append((n, metadata.offset)))
        for n in range(4)
    ]
    deliveries[2].add_done_callback(lambda delivery: seen.append(("added", delivery.result().offset)))
    batch.complete(10)
    assert seen == [(0, 10), (1, 11), (2, 12), ("added", 12), (3, 13)]
    deliveries[1].add_done_callback(lambda delivery: seen.append(delivery))
    assert seen[-1] is deliveries[1]


def test_without_a_waiter_callbacks_run_immediately_and_result_raises(
    implementation: SimpleNamespace,
) -> None:
    seen: list[Any] = []
    batch = implementation.ProducerBatch("t", 0, 1000, 0)
    delivery = batch.append(1, None, None, None, lambda *outcome: seen.append(outcome))
    with pytest.raises(InvalidState):
        delivery.result()
    batch.complete(3)
    assert seen == [(RecordMetadata("t", 0, 3, 1, -1, -1), None)]


def test_record_errors_by_index(implementation: SimpleNamespace) -> None:
    batch, deliveries = filled(implementation, 3)
    bad, rest = ValueError("too old"), RuntimeError("in bad company")
    batch.fail_records({1: bad}, rest)
    assert [delivery.exception() for delivery in deliveries] == [rest, bad, rest]
    assert batch.outcome(0, 3) == (0, 3, rest)
    assert batch.outcome(1, 2) == (0, 2, bad)


def test_result_waits_through_the_waiter(implementation: SimpleNamespace) -> None:
    waiter = FakeWaiter(lambda batch: batch.complete(50))
    batch, (delivery,) = filled(implementation, 1, waiter=waiter)
    assert delivery.result(timeout_s=2.5).offset == 50
    assert waiter.waited == [(batch, 2.5)]
    assert delivery.exception() is None
    assert len(waiter.waited) == 1


def test_delivery_is_awaitable(implementation: SimpleNamespace) -> None:
    good, (first,) = filled(implementation, 1, waiter=FakeWaiter(lambda batch: batch.complete(50)))
    bad, (second,) = filled(implementation, 1, waiter=FakeWaiter(lambda batch: batch.fail(OSError("gone"))))

    async def both() -> int:
        assert (await first).offset == (await first).offset == 50
        with pytest.raises(OSError, match="gone"):
            await second
        return 1

    assert asyncio.run(both()) == 1
    assert good.done
    assert bad.done


@given(st.data(), rows)
def test_split_keeps_records_and_their_deliveries(data: st.DataObject, source_rows: list[Any]) -> None:
    capacity = data.draw(st.integers(0, 400))
    second_capacity = data.draw(st.integers(0, 200))
    seen = []
    for implementation in IMPLEMENTATIONS:
        calls: list[Any] = []
        waiter = FakeWaiter()
        batch = implementation.ProducerBatch("t", 0, 1 << 20, 5, None, waiter)
        deliveries = [
            batch.append(*row, lambda metadata, _, n=n, calls=calls: calls.append((n, metadata.offset)))
            for n, row in enumerate(source_rows)
        ]
        batch.attempts, batch.tag = 3, "tag"
        parts = batch.split(capacity)
        assert batch.done
        assert batch.is_split
        assert calls == []
        assert all((part.attempts, part.tag, part.is_open) == (3, "tag", False) for part in parts)
        parts[:1] = parts[0].split(second_capacity)
        assert all(part.count == 1 or part.size_bytes <= max(capacity, second_capacity) for part in parts)
        sent = []
        offset = 1_000
        for part in parts:
            sent.append(bytes(part.finish(0, -1, -1, -1)))
            assert batch.outcome(0, len(source_rows)) == (offset - 1_000, 0, None)
            part.complete(offset)
            offset += part.count
        assert [delivery.result().offset for delivery in deliveries] == list(range(1_000, offset))
        assert calls == [(n, 1_000 + n) for n in range(len(source_rows))]
        assert batch.outcome(0, len(source_rows)) == (len(source_rows), 0, None)
        records = [record for part in sent for record in codec.decode(part)]
        assert [(r.timestamp, r.key, r.value, list(r.headers)) for r in records] == [
            (timestamp, key, value, list(headers or [])) for timestamp, key, value, headers in source_rows
        ]
        seen.append(sent)
    assert seen[0] == seen[1]


def test_waiting_for_a_split_batch_waits_for_the_part(implementation: SimpleNamespace) -> None:
    steps: list[str] = []

    def split_or_complete(batch: Any) -> None:
        if steps:
            steps.append("complete")
            batch.complete(70)
        else:
            steps.append("split")
            batch.split(0)

    batch, deliveries = filled(implementation, 3, waiter=FakeWaiter(split_or_complete))
    assert deliveries[1].result().offset == 70
    assert steps == ["split", "complete"]
    assert not deliveries[2].done()
    assert batch.outcome(0, 3) == (1, 0, None)
    deliveries[2].batch.fail(OSError("gone"))
    good, bad, error = batch.outcome(0, 3)
    assert (good, bad) == (1, 1)
    assert isinstance(error, OSError)


def test_callback_added_after_a_split_is_called(implementation: SimpleNamespace) -> None:
    seen: list[Any] = []
    batch, deliveries = filled(implementation, 2, waiter=FakeWaiter())
    first, second = batch.split(0)
    deliveries[1].add_done_callback(seen.append)
    first.complete(1)
    assert seen == []
    second.complete(2)
    assert seen == [deliveries[1]]


def test_deliveries_cannot_be_constructed_or_pickled(implementation: SimpleNamespace) -> None:
    _, (delivery,) = filled(implementation, 1)
    with pytest.raises(TypeError):
        implementation.Delivery()
    with pytest.raises(TypeError):
        copy.copy(delivery)
    assert repr(delivery) == "<Delivery to orders-3, pending>"


def test_deliveries_are_not_tracked_by_the_collector() -> None:
    batch, (delivery,) = filled(COMPILED, 1)
    assert not gc.is_tracked(delivery)
    assert gc.is_tracked(batch)
