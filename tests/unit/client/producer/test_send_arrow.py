"""Columns of Arrow as records."""

from __future__ import annotations

import pyarrow
from tests.support.simulation.producer_fixture import ProducerFixture, run_with_producer


def test_rows_without_keys_and_partitions_are_sent_like_records_without_them() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer()
        values = [b"%d" % number for number in range(100)]
        table = pyarrow.table({"value": pyarrow.array(values, pyarrow.binary())})
        assert await (await producer.send_arrow(table, "letters")) == 100
        assert await studio.values("letters") == values

    run_with_producer(scenario)
