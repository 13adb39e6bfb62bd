"""Whatever breaks in between: each record's fate is told once and in order; nothing is doubled or moved."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.simulation.producer_fixture import ProducerFixture, run_with_producer

from odradek.model.client_errors import ClientError

PARTITIONS = 3

steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, 40)),
        st.tuples(st.just("sleep"), st.integers(1, 60)),
        st.tuples(st.just("cut"), st.just(0)),
        st.tuples(st.just("restart"), st.integers(0, 400)),
        st.tuples(st.just("flush"), st.just(0)),
    ),
    min_size=1,
    max_size=14,
)


class Book:
    """What was sent to each partition, and what was told of it."""

    def __init__(self) -> None:
        self.sent: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        self.told: dict[int, list[tuple[bytes, int | None]]] = {number: [] for number in range(PARTITIONS)}
        self.count = 0

    def next(self) -> tuple[int, bytes]:
        self.count += 1
        partition = self.count % PARTITIONS
        value = b"%d." % self.count * 10
        self.sent[partition].append(value)
        return partition, value

    def on_delivery(self, partition: int, value: bytes) -> Any:
        def told(metadata: Any, error: BaseException | None) -> None:
            self.told[partition].append((value, None if error is not None else metadata.offset))

        return told


async def play(studio: ProducerFixture, plan: list[tuple[str, int]], book: Book, producer: Any) -> None:
    for what, amount in plan:
        if what == "send":
            for _ in range(amount):
                partition, value = book.next()
                told = book.on_delivery(partition, value)
                await producer.send("letters", value, partition=partition, on_delivery=told)
        elif what == "sleep":
            await asyncio.sleep(amount / 1000)
        elif what == "cut":
            studio.cut_connections()
        elif what == "restart":
            await studio.stop_broker()
            await asyncio.sleep(amount / 1000)
            await studio.start_broker()
        else:
            await producer.flush()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps, st.integers(0, 100), st.sampled_from([1, 2, 5]), st.integers(200, 1500))
def test_records_are_written_once_in_order_and_told_once_in_order(
    plan: list[tuple[str, int]], seed: int, in_flight: int, batch_bytes: int
) -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters", PARTITIONS)
        producer = studio.producer(
            batch_size=batch_bytes,
            buffer_memory=max(4 * batch_bytes, 2000),
            max_in_flight_requests_per_connection=in_flight,
        )
        book = Book()
        await play(studio, plan, book, producer)
        await producer.flush()
        for partition, sent in book.sent.items():
            assert await studio.values("letters", partition) == sent
            assert book.told[partition] == [(value, offset) for offset, value in enumerate(sent)]
        assert producer.metrics()["buffer-available-bytes"] == max(4 * batch_bytes, 2000)

    run_with_producer(scenario, seed=seed, delay_max_ms=8, splits=True)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps, st.integers(0, 100), st.integers(0, 60), st.sampled_from([0, 0, 1, 5, 30]))
def test_a_close_at_any_moment_tells_every_record_once_and_in_order(
    plan: list[tuple[str, int]], seed: int, moment_ms: int, patience_ms: int
) -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters", PARTITIONS)
        producer = studio.producer(batch_size=400, delivery_timeout_ms=1000, request_timeout_ms=500)
        await producer.partitions_for("letters")
        book = Book()
        playing = asyncio.ensure_future(play(studio, plan, book, producer))
        await asyncio.sleep(moment_ms / 1000)
        await producer.close(patience_ms / 1000)
        refused = (await asyncio.gather(playing, return_exceptions=True))[0]
        assert refused is None or isinstance(refused, ClientError)
        for partition, sent in book.sent.items():
            told = [value for value, _ in book.told[partition]]
            # The record whose send raised was never taken, and is the last of all.
            was_taken = refused is None or book.count % PARTITIONS != partition
            assert told == sent or (not was_taken and told == sent[:-1])
            offsets = [offset for _, offset in book.told[partition] if offset is not None]
            assert offsets == sorted(offsets)

    run_with_producer(scenario, seed=seed, delay_max_ms=8, splits=True)
