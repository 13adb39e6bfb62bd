"""A start that fails after the logs were loaded leaves the directory as it was for the next one."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.broker.inter_broker.own_cluster import PRODUCE, OwnCluster, run_cluster

from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.records.batch import BatchBuilder
from odradek.store.broker_registration import BrokerIdTaken
from odradek.store.layout import znode_paths
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

ORDERS = TopicPartition("orders", 0)
PRODUCER_ID = 7
BATCHES = 3
CHECKPOINT_SECONDS = 10
SETTINGS = {"min.insync.replicas": "1", "log.flush.interval.messages": "1"}
"""Records survive the loss of power."""


async def produce(own: OwnCluster, sequence: int) -> tuple[ErrorCode, int]:
    """Send a batch of an idempotent producer; return the error and the offset."""
    batch = BatchBuilder(producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=sequence)
    batch.append(own.clock.wall_ms(), None, b"%d" % sequence)
    part = PartitionProduceData(ORDERS.partition, bytearray(batch.build()))
    request = ProduceRequest(None, -1, 30_000, [TopicProduceData(ORDERS.topic, [part])])
    response = await own.request(1, PRODUCE, 9, request)
    result = response.responses[0].partition_responses[0]
    return ErrorCode(result.error_code), result.base_offset


async def write_records(own: OwnCluster) -> None:
    await own.create_topic(ORDERS.topic, (1,))
    for sequence in range(BATCHES):
        assert await produce(own, sequence) == (ErrorCode.NONE, sequence)


async def fail_to_start(own: OwnCluster) -> None:
    """Kill the broker, and start it while its registration exists; then start it again."""
    former = await own.kill(1, expires_session=False)
    with pytest.raises(BrokerIdTaken):
        await own.start(1)
    await former.expire_session()
    await own.start(1)
    await own.until_leader(ORDERS, 1)


def test_batches_in_flight_before_a_kill_are_known_after_a_failed_start() -> None:
    async def scenario(own: OwnCluster) -> None:
        await write_records(own)
        await fail_to_start(own)
        for sequence in range(BATCHES + 1):
            assert await produce(own, sequence) == (ErrorCode.NONE, sequence)

    run_cluster(scenario, 1, SETTINGS)


def test_high_watermarks_survive_a_failed_start() -> None:
    async def scenario(own: OwnCluster) -> None:
        await write_records(own)
        await asyncio.sleep(CHECKPOINT_SECONDS)
        await fail_to_start(own)
        (directory,) = own.brokers[1].broker._log_manager
        assert directory.high_watermarks == {ORDERS: BATCHES}

    run_cluster(scenario, 1, SETTINGS)


def test_directory_stays_clean_after_a_failed_start() -> None:
    async def scenario(own: OwnCluster) -> None:
        await write_records(own)
        registration, _ = await own.store.get(znode_paths.broker(1))
        await own.stop(1)
        await own.store.create(znode_paths.broker(1), registration)
        with pytest.raises(BrokerIdTaken):
            await own.start(1)
        await own.store.delete(znode_paths.broker(1))
        await own.start(1)
        (directory,) = own.brokers[1].broker._log_manager
        assert directory.had_clean_shutdown

    run_cluster(scenario, 1, SETTINGS)
