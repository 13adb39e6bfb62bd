"""Batches that wait take more records: how far, for how long, and that nothing else changes by it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.simulation.producer_fixture import ProducerFixture, run_with_producer

from odradek.client.producer.accumulator.batch_growth import BatchGrowth, steps
from odradek.model.client_errors import BufferFull, TimedOut
from odradek.records.codec import ProducerBatch


def batch_of(size_bytes: int, capacity_bytes: int = 1000, created_ms: int = 0) -> ProducerBatch:
    batch = ProducerBatch("t", 0, capacity_bytes, created_ms)
    batch.append(0, None, bytes(size_bytes - 100))
    return batch


@given(st.integers(61, 1 << 20), st.integers(0, 1 << 22))
def test_steps_lead_from_the_common_size_to_the_largest(batch_bytes: int, backlog_bytes: int) -> None:
    found = steps(batch_bytes, backlog_bytes)
    sizes = [batch_bytes, *found]
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == max(batch_bytes, backlog_bytes)
    assert all(larger <= 4 * smaller for smaller, larger in zip(sizes, found, strict=False))


def test_a_batch_grows_to_the_next_step_that_holds_the_record() -> None:
    growth = BatchGrowth((4000, 16_000), 10_000)
    assert growth.next_bytes(batch_of(990), 100, 0) == 4000
    assert growth.next_bytes(batch_of(990), 5000, 0) == 16_000
    assert growth.next_bytes(batch_of(990, 4000), 100, 0) == 16_000
    assert growth.next_bytes(batch_of(990), 20_000, 0) == 0
    assert growth.next_bytes(batch_of(990, 16_000), 100, 0) == 0


def test_an_old_batch_does_not_grow_as_its_records_expire_together() -> None:
    growth = BatchGrowth((4000,), 5000)
    assert growth.next_bytes(batch_of(990, created_ms=100), 100, 600) == 4000
    assert growth.next_bytes(batch_of(990, created_ms=100), 100, 601) == 0


def test_what_a_broker_refused_is_not_grown_to_again() -> None:
    growth = BatchGrowth((4000, 16_000), 10_000)
    growth.was_too_large("t", 16_000)
    assert growth.next_bytes(batch_of(990), 100, 0) == 4000
    assert growth.next_bytes(batch_of(990, 4000), 100, 0) == 0
    growth.was_too_large("t", 3999)
    growth.was_too_large("t", 16_000)
    assert growth.next_bytes(batch_of(990), 100, 0) == 0


async def backlog(studio: ProducerFixture, count: int, **options: Any) -> tuple[Any, list[bytes], list[Any]]:
    """A producer with one request at a time under way, and many records behind it."""
    how = {"batch_size": 1000, "max_in_flight_requests_per_connection": 1, **options}
    producer = studio.producer(**how)
    await (await producer.send("letters", b"first"))
    sent = [b"%05d" % number * 20 for number in range(count)]
    deliveries = [await producer.send("letters", value) for value in sent]
    return producer, [b"first", *sent], deliveries


def test_what_waits_is_in_few_large_batches_in_the_order_of_sending() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer, sent, deliveries = await backlog(studio, 300)
        assert [(await delivery).offset for delivery in deliveries] == list(range(1, 301))
        assert await studio.values("letters") == sent
        assert producer.metrics()["batch-size-max"] > 30_000
        assert producer.metrics()["request-total"] < 15

    run_with_producer(scenario, delay_max_ms=5)


@pytest.mark.parametrize("options", [{"batch_backlog_size": 0}, {"batch_size": 0}])
def test_batches_do_not_grow_where_they_must_not(options: dict[str, Any]) -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer, sent, _ = await backlog(studio, 50, **options)
        await producer.flush()
        assert await studio.values("letters") == sent
        assert producer.metrics()["batch-size-max"] <= 1000

    run_with_producer(scenario, delay_max_ms=5)


@pytest.mark.parametrize("options", [{"batch_backlog_size": 5000}, {"max_request_size": 5000}])
def test_no_batch_outgrows_its_bounds(options: dict[str, Any]) -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer, sent, _ = await backlog(studio, 300, **options)
        await producer.flush()
        assert await studio.values("letters") == sent
        assert 4000 < producer.metrics()["batch-size-max"] <= 5000

    run_with_producer(scenario, delay_max_ms=5)


def test_growing_leaves_half_of_the_memory_to_new_batches_and_gives_all_of_it_back() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters", 2)
        producer = studio.producer(batch_size=1000, buffer_memory=40_000, max_block_ms=500)
        await producer.partitions_for("letters")
        await studio.stop_broker()
        for _ in range(200):
            await producer.send("letters", bytes(100), partition=0)
        assert producer.metrics()["buffer-available-bytes"] >= 16_000
        await producer.send("letters", bytes(100), partition=1)
        with pytest.raises(BufferFull):
            await producer.send_many("letters", [bytes(100)] * 1000, partition=0)
        assert 0 <= producer.metrics()["buffer-available-bytes"] < 1000
        await studio.start_broker()
        await producer.flush()
        assert producer.metrics()["buffer-available-bytes"] == 40_000

    run_with_producer(scenario)


def test_a_batch_that_has_grown_beyond_what_the_topic_takes_is_cut_and_others_stay_smaller() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters", max_message_bytes="5000")
        producer, sent, deliveries = await backlog(studio, 400)
        assert [(await delivery).offset for delivery in deliveries] == list(range(1, 401))
        more = [b"more %04d" % number * 10 for number in range(400)]
        cuts = []
        for _ in range(3):
            cuts.append(producer.metrics()["batch-split-total"])
            for value in more:
                await producer.send("letters", value)
            await producer.flush()
        assert await studio.values("letters") == sent + more * 3
        # Half of what was refused is tried each time, until it is little enough.
        assert 0 < cuts[0] < cuts[1] == cuts[2] < 6
        assert producer.metrics()["buffer-available-bytes"] == producer.metrics()["buffer-total-bytes"]

    run_with_producer(scenario, delay_max_ms=5)


def test_records_of_a_batch_that_has_grown_expire_no_more_than_a_second_early() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer(batch_size=1000, delivery_timeout_ms=20_000, request_timeout_ms=2000)
        await (await producer.send("letters", b"first"))
        await studio.stop_broker()
        waited_ms: list[int] = []
        for _ in range(100):
            began = studio.clock.monotonic_ms()

            def note(metadata: object, error: object, began: int = began) -> None:
                assert metadata is None
                assert isinstance(error, TimedOut)
                waited_ms.append(studio.clock.monotonic_ms() - began)

            await producer.send("letters", bytes(100), on_delivery=note)
            await asyncio.sleep(0.05)
        await asyncio.sleep(25)
        assert len(waited_ms) == 100
        # One that is nearly full goes on taking records; so it is with batches that cannot grow.
        assert min(waited_ms) >= 18_000
        assert producer.metrics()["buffer-available-bytes"] == producer.metrics()["buffer-total-bytes"]

    run_with_producer(scenario)


def test_compressed_batches_grow_and_are_read_as_they_were_sent() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer, sent, _ = await backlog(studio, 500, compression_type="gzip", linger_ms=2)
        await producer.flush()
        assert await studio.values("letters") == sent
        assert producer.metrics()["batch-size-max"] > 8000

    run_with_producer(scenario, delay_max_ms=5)
