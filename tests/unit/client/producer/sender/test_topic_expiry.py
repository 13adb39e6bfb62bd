"""Metadata of topics expires when nothing is sent to them."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.simulation.producer_fixture import ProducerFixture, run_with_producer


def test_idle_topic_expires_from_metadata_and_appender() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("used")
        await fixture.create("left")
        producer = fixture.producer(metadata_max_idle_ms=10_000, metadata_max_age_ms=1000)
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
