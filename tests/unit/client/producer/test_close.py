"""Closing a producer during sends, and closing it twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.simulation.producer_fixture import ProducerFixture, run_with_producer

from odradek.model.client_errors import ClientClosed


def test_record_appended_during_close_is_rejected() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")

        def choose(topic: str, key: Any, value: Any, partitions: Any) -> int:
            if value == b"late":
                producer._engine.reject_sends()  # as a concurrent close would do
            return 0

        producer = fixture.producer(partitioner=choose)
        await (await producer.send("letters", b"early"))
        with pytest.raises(ClientClosed):
            await producer.send("letters", b"late")
        assert not producer._engine.accumulator.has_incomplete

    run_with_producer(scenario)


@pytest.mark.parametrize("timeout_s", [0, 1])
def test_second_close_may_shorten_the_timeout(timeout_s: int) -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer()
        await (await producer.send("letters", b"early"))
        await fixture.stop_broker()
        late = await producer.send("letters", b"late")
        first_close = asyncio.create_task(producer.close())
        await asyncio.sleep(1)
        started_ms = fixture.clock.monotonic_ms()
        await producer.close(timeout_s)
        assert fixture.clock.monotonic_ms() - started_ms < 1000 * timeout_s + 500
        assert isinstance(late.exception(), ClientClosed)
        await first_close

    run_with_producer(scenario)


def test_second_close_does_not_extend_the_timeout() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer()
        await (await producer.send("letters", b"early"))
        await fixture.stop_broker()
        await producer.send("letters", b"late")
        first_close = asyncio.create_task(producer.close(2))
        await asyncio.sleep(0)
        started_ms = fixture.clock.monotonic_ms()
        await producer.close(50)
        assert fixture.clock.monotonic_ms() - started_ms < 3000
        await first_close

    run_with_producer(scenario)


@pytest.mark.parametrize("name", ["\ud800", "x" * 250, ".", "a b", "a/b"])
def test_invalid_topic_name_does_not_affect_other_topics(name: str) -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer()
        with pytest.raises(Exception, match="INVALID_TOPIC_EXCEPTION"):
            await producer.send(name, b"v")
        started_ms = fixture.clock.monotonic_ms()
        await (await producer.send("letters", b"v"))
        assert fixture.clock.monotonic_ms() - started_ms < 500

    run_with_producer(scenario)
