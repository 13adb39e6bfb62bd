"""Growth of queued batches: sizes, limits, expiry and compression."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.simulation.producer_fixture import ProducerFixture, run_with_producer

from odradek.client.producer.accumulator.batch_growth import BatchGrowth, growth_steps
from odradek.model.client_errors import BufferFull, TimedOut
from odradek.records.client.producer import ProducerBatch


def batch_of(size_bytes: int, capacity_bytes: int = 1000, created_ms: int = 0) -> ProducerBatch:
    batch = ProducerBatch("t", 0, capacity_bytes, created_ms)
    batch.append(0, None, bytes(size_bytes - 100))
    return batch


@given(st.integers(61, 1 << 20), st.integers(0, 1 << 22))
def test_growth_steps_lead_from_batch_size_to_backlog_size(batch_bytes: int, backlog_bytes: int) -> None:
    steps = growth_steps(batch_bytes, backlog_bytes)
    sizes = [batch_bytes, *steps]
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == max(batch_bytes, backlog_bytes)
    assert all(larger <= 4 * smaller for smaller, larger in zip(sizes, steps, strict=False))


def test_batch_grows_to_the_next_step_that_fits_the_record() -> None:
    growth = BatchGrowth((4000, 16_000), 10_000)
    assert growth.next_bytes(batch_of(990), 100, 0) == 4000
    assert growth.next_bytes(batch_of(990), 5000, 0) == 16_000
    assert growth.next_bytes(batch_of(990, 4000), 100, 0) == 16_000
    assert growth.next_bytes(batch_of(990), 20_000, 0) == 0
    assert growth.next_bytes(batch_of(990, 16_000), 100, 0) == 0


def test_old_batch_does_not_grow() -> None:
    growth = BatchGrowth((4000,), 5000)
    assert growth.next_bytes(batch_of(990, created_ms=100), 100, 600) == 4000
    assert growth.next_bytes(batch_of(990, created_ms=100), 100, 601) == 0


def test_growth_is_limited_after_message_too_large() -> None:
    growth = BatchGrowth((4000, 16_000), 10_000)
    growth.on_batch_too_large("t", 16_000)
    assert growth.next_bytes(batch_of(990), 100, 0) == 4000
    assert growth.next_bytes(batch_of(990, 4000), 100, 0) == 0
    growth.on_batch_too_large("t", 3999)
    growth.on_batch_too_large("t", 16_000)
    assert growth.next_bytes(batch_of(990), 100, 0) == 0


async def backlog(fixture: ProducerFixture, count: int, **options: Any) -> tuple[Any, list[bytes], list[Any]]:
    """Return a producer with one request in flight and many records queued."""
    options = {"batch_size": 1000, "max_in_flight_requests_per_connection": 1, **options}
    producer = fixture.producer(**options)
    await (await producer.send("letters", b"first"))
    sent = [b"%05d" % number * 20 for number in range(count)]
    deliveries = [await producer.send("letters", value) for value in sent]
    return producer, [b"first", *sent], deliveries


def test_backlog_is_sent_in_few_large_batches_in_order() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer, sent, deliveries = await backlog(fixture, 300)
        assert [(await delivery).offset for delivery in deliveries] == list(range(1, 301))
        assert await fixture.values("letters") == sent
        assert producer.metrics()["batch-size-max"] > 30_000
        assert producer.metrics()["request-total"] < 15

    run_with_producer(scenario, delay_max_ms=5)


@pytest.mark.parametrize("options", [{"batch_backlog_size": 0}, {"batch_size": 0}])
def test_batches_do_not_grow_when_growth_is_disabled(options: dict[str, Any]) -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer, sent, _ = await backlog(fixture, 50, **options)
        await producer.flush()
        assert await fixture.values("letters") == sent
        assert producer.metrics()["batch-size-max"] <= 1000

    run_with_producer(scenario, delay_max_ms=5)


@pytest.mark.parametrize("options", [{"batch_backlog_size": 5000}, {"max_request_size": 5000}])
def test_batch_growth_respects_size_limits(options: dict[str, Any]) -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer, sent, _ = await backlog(fixture, 300, **options)
        await producer.flush()
        assert await fixture.values("letters") == sent
        assert 4000 < producer.metrics()["batch-size-max"] <= 5000

    run_with_producer(scenario, delay_max_ms=5)


def test_growth_leaves_half_of_the_memory_to_new_batches() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters", 2)
        producer = fixture.producer(batch_size=1000, buffer_memory=40_000, max_block_ms=500)
        await producer.partitions_for("letters")
        await fixture.stop_broker()
        for _ in range(200):
            await producer.send("letters", bytes(100), partition=0)
        assert producer.metrics()["buffer-available-bytes"] >= 16_000
        await producer.send("letters", bytes(100), partition=1)
        with pytest.raises(BufferFull):
            await producer.send_many("letters", [bytes(100)] * 1000, partition=0)
        assert 0 <= producer.metrics()["buffer-available-bytes"] < 1000
        await fixture.start_broker()
        await producer.flush()
        assert producer.metrics()["buffer-available-bytes"] == 40_000

    run_with_producer(scenario)


def test_grown_batch_too_large_for_the_topic_is_split_and_growth_limited() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters", max_message_bytes="5000")
        producer, sent, deliveries = await backlog(fixture, 400)
        assert [(await delivery).offset for delivery in deliveries] == list(range(1, 401))
        more = [b"more %04d" % number * 10 for number in range(400)]
        splits = []
        for _ in range(3):
            splits.append(producer.metrics()["batch-split-total"])
            for value in more:
                await producer.send("letters", value)
            await producer.flush()
        assert await fixture.values("letters") == sent + more * 3
        # Growth is halved with each rejection, until batches are small enough.
        assert 0 < splits[0] < splits[1] == splits[2] < 6
        assert producer.metrics()["buffer-available-bytes"] == producer.metrics()["buffer-total-bytes"]

    run_with_producer(scenario, delay_max_ms=5)


def test_records_of_a_grown_batch_expire_at_most_a_second_early() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer(batch_size=1000, delivery_timeout_ms=20_000, request_timeout_ms=2000)
        await (await producer.send("letters", b"first"))
        await fixture.stop_broker()
        waited_ms: list[int] = []
        for _ in range(100):
            started = fixture.clock.monotonic_ms()

            def record_wait(metadata: object, error: object, started: int = started) -> None:
                assert metadata is None
                assert isinstance(error, TimedOut)
                waited_ms.append(fixture.clock.monotonic_ms() - started)

            await producer.send("letters", bytes(100), on_delivery=record_wait)
            await asyncio.sleep(0.05)
        await asyncio.sleep(25)
        assert len(waited_ms) == 100
        # A nearly full batch keeps taking records, as a batch that cannot grow does.
        assert min(waited_ms) >= 18_000
        assert producer.metrics()["buffer-available-bytes"] == producer.metrics()["buffer-total-bytes"]

    run_with_producer(scenario)


def test_compressed_batches_grow() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer, sent, _ = await backlog(fixture, 500, compression_type="gzip", linger_ms=2)
        await producer.flush()
        assert await fixture.values("letters") == sent
        assert producer.metrics()["batch-size-max"] > 8000

    run_with_producer(scenario, delay_max_ms=5)
