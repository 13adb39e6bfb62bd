"""Log lines of a start after an unclean stop."""

import asyncio
import logging

import pytest

from odradek.testing.broker import MemoryCluster
from odradek.testing.clock import run_virtually
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

CREATE_TOPICS = 19
EVENT = "broker.unclean_stop_recovered "


@pytest.fixture
def summaries(caplog):
    caplog.set_level(logging.INFO, "odradek")
    return lambda: [record.getMessage() for record in caplog.records if record.getMessage().startswith(EVENT)]


def run_scenario(scenario):
    async def main():
        cluster = MemoryCluster()
        try:
            await scenario(cluster)
        finally:
            await cluster.close()

    run_virtually(main)


async def create(broker):
    client = await broker.connect()
    request = CreateTopicsRequest([CreatableTopic("orders", 3, 1)])
    assert (await client.request(CREATE_TOPICS, 7, request)).topics[0].error_code == 0


def test_one_line_summarizes_scanned_and_truncated_data(summaries):
    async def scenario(cluster):
        first = await cluster.start()
        await create(first)
        await asyncio.sleep(1)
        await first.kill()
        path = "/data/orders-1/00000000000000000000.log"
        file = cluster.files.open(path)
        file.append(b"torn batch")
        file.sync()
        second = await cluster.start()
        [line] = summaries()
        assert "partitions=3 segments=3 read_bytes=10 " in line
        assert " repaired=1 truncated_bytes=10 dropped_segments=0" in line
        assert " took_ms=" in line
        await second.stop()

    run_scenario(scenario)


def test_first_start_and_start_after_a_clean_stop_log_no_summary(summaries):
    async def scenario(cluster):
        first = await cluster.start()
        await create(first)
        await first.stop()
        second = await cluster.start()
        assert summaries() == []
        await second.stop()

    run_scenario(scenario)
