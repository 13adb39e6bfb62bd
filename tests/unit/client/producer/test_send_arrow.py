"""Sending Arrow tables."""

from __future__ import annotations

import pyarrow
from tests.support.simulation.producer_fixture import ProducerFixture, run_with_producer


def test_send_arrow_without_keys_and_partitions() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer()
        values = [b"%d" % number for number in range(100)]
        table = pyarrow.table({"value": pyarrow.array(values, pyarrow.binary())})
        assert await (await producer.send_arrow(table, "letters")) == 100
        assert await fixture.values("letters") == values

    run_with_producer(scenario)
