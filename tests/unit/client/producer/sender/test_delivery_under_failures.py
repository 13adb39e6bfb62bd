"""Under failures each record is completed once and in order, and none is duplicated or reordered."""

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


class History:
    """Records sent to each partition, and their completions."""

    def __init__(self) -> None:
        self.sent: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        self.completed: dict[int, list[tuple[bytes, int | None]]] = {
            number: [] for number in range(PARTITIONS)
        }
        self.count = 0

    def next(self) -> tuple[int, bytes]:
        self.count += 1
        partition = self.count % PARTITIONS
        value = b"%d." % self.count * 10
        self.sent[partition].append(value)
        return partition, value

    def on_delivery(self, partition: int, value: bytes) -> Any:
        def callback(metadata: Any, error: BaseException | None) -> None:
            self.completed[partition].append((value, None if error is not None else metadata.offset))

        return callback


async def run_plan(
    fixture: ProducerFixture, plan: list[tuple[str, int]], history: History, producer: Any
) -> None:
    for step, amount in plan:
        if step == "send":
            for _ in range(amount):
                partition, value = history.next()
                callback = history.on_delivery(partition, value)
                await producer.send("letters", value, partition=partition, on_delivery=callback)
        elif step == "sleep":
            await asyncio.sleep(amount / 1000)
        elif step == "cut":
            fixture.cut_connections()
        elif step == "restart":
            await fixture.stop_broker()
            await asyncio.sleep(amount / 1000)
            await fixture.start_broker()
        else:
            await producer.flush()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps, st.integers(0, 100), st.sampled_from([1, 2, 5]), st.integers(200, 1500))
def test_records_are_written_once_in_order_and_completed_once_in_order(
    plan: list[tuple[str, int]], seed: int, in_flight: int, batch_bytes: int
) -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters", PARTITIONS)
        producer = fixture.producer(
            batch_size=batch_bytes,
            buffer_memory=max(4 * batch_bytes, 2000),
            max_in_flight_requests_per_connection=in_flight,
        )
        history = History()
        await run_plan(fixture, plan, history, producer)
        await producer.flush()
        for partition, sent in history.sent.items():
            assert await fixture.values("letters", partition) == sent
            assert history.completed[partition] == [(value, offset) for offset, value in enumerate(sent)]
        assert producer.metrics()["buffer-available-bytes"] == max(4 * batch_bytes, 2000)

    run_with_producer(scenario, seed=seed, delay_max_ms=8, splits=True)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps, st.integers(0, 100), st.integers(0, 60), st.sampled_from([0, 0, 1, 5, 30]))
def test_close_at_any_moment_completes_every_record_once_in_order(
    plan: list[tuple[str, int]], seed: int, moment_ms: int, timeout_ms: int
) -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters", PARTITIONS)
        producer = fixture.producer(batch_size=400, delivery_timeout_ms=1000, request_timeout_ms=500)
        await producer.partitions_for("letters")
        history = History()
        running = asyncio.ensure_future(run_plan(fixture, plan, history, producer))
        await asyncio.sleep(moment_ms / 1000)
        await producer.close(timeout_ms / 1000)
        error = (await asyncio.gather(running, return_exceptions=True))[0]
        assert error is None or isinstance(error, ClientError)
        for partition, sent in history.sent.items():
            completed = [value for value, _ in history.completed[partition]]
            # The record whose send raised was not accepted, and is the last one.
            was_accepted = error is None or history.count % PARTITIONS != partition
            assert completed == sent or (not was_accepted and completed == sent[:-1])
            offsets = [offset for _, offset in history.completed[partition] if offset is not None]
            assert offsets == sorted(offsets)

    run_with_producer(scenario, seed=seed, delay_max_ms=8, splits=True)
