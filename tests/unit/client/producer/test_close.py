"""Producers that end while something else goes on: nothing is forgotten, or waits longer than told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.simulation.producer_fixture import ProducerFixture, run_with_producer

from odradek.model.client_errors import ClientClosed


def test_a_record_that_is_placed_while_the_producer_closes_is_refused() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")

        def choose(topic: str, key: Any, value: Any, partitions: Any) -> int:
            if value == b"late":
                producer._engine.refuse_sends()  # as another thread that closes would do now
            return 0

        producer = studio.producer(partitioner=choose)
        await (await producer.send("letters", b"early"))
        with pytest.raises(ClientClosed):
            await producer.send("letters", b"late")
        assert not producer._engine.accumulator.has_incomplete

    run_with_producer(scenario)


@pytest.mark.parametrize("later_s", [0, 1])
def test_a_second_close_may_be_in_more_of_a_hurry(later_s: int) -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer()
        await (await producer.send("letters", b"early"))
        await studio.stop_broker()
        late = await producer.send("letters", b"late")
        patient = asyncio.create_task(producer.close())
        await asyncio.sleep(1)
        began_ms = studio.clock.monotonic_ms()
        await producer.close(later_s)
        assert studio.clock.monotonic_ms() - began_ms < 1000 * later_s + 500
        assert isinstance(late.exception(), ClientClosed)
        await patient

    run_with_producer(scenario)


def test_a_second_close_does_not_lengthen_the_first() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer()
        await (await producer.send("letters", b"early"))
        await studio.stop_broker()
        await producer.send("letters", b"late")
        hasty = asyncio.create_task(producer.close(2))
        await asyncio.sleep(0)
        began_ms = studio.clock.monotonic_ms()
        await producer.close(50)
        assert studio.clock.monotonic_ms() - began_ms < 3000
        await hasty

    run_with_producer(scenario)


@pytest.mark.parametrize("name", ["\ud800", "x" * 250, ".", "a b", "a/b"])
def test_a_name_that_no_topic_can_have_does_not_get_in_the_way_of_others(name: str) -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer()
        with pytest.raises(Exception, match="INVALID_TOPIC_EXCEPTION"):
            await producer.send(name, b"v")
        began_ms = studio.clock.monotonic_ms()
        await (await producer.send("letters", b"v"))
        assert studio.clock.monotonic_ms() - began_ms < 500

    run_with_producer(scenario)
