"""Topics are asked about as long as something is sent to them, and no longer."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.simulation.producer_fixture import ProducerFixture, run_with_producer


def test_a_topic_is_forgotten_when_nothing_is_sent_to_it_for_long() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("used")
        await studio.create("left")
        producer = studio.producer(metadata_max_idle_ms=10_000, metadata_max_age_ms=1000)
        await (await producer.send("left", b"v"))
        for _ in range(40):
            await (await producer.send("used", b"v"))
            await asyncio.sleep(1)
        assert set(producer._engine.network.metadata.topics) == {"used"}
        assert producer._engine.appender.sticky("used") >= 0
        with pytest.raises(KeyError):
            producer._engine.appender.sticky("left")
        assert (await (await producer.send("left", b"again"))).offset == 1

    run_with_producer(scenario)
