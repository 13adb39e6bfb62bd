"""Replication throttles between two brokers, on virtual time."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.broker.inter_broker.test_two_brokers import TwoBrokers, run_two_brokers

from odradek.model.errors import ErrorCode
from odradek.model.protocol_enums import AlterOp, ResourceType
from odradek.records.batch import BatchBuilder
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import encode_config
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE, INCREMENTAL_ALTER_CONFIGS = 0, 44
LEADER, FOLLOWER = 1, 2
RATE = 100_000
BATCH_BYTES, BATCHES = 50_000, 40
SETTINGS = {"min.insync.replicas": "1", "replica.fetch.max.bytes": "50000", "replica.fetch.backoff.ms": "200"}
LEADER_SIDE = ("leader", LEADER, {"leader.replication.throttled.replicas": "0:1"})
FOLLOWER_SIDE = ("follower", FOLLOWER, {"follower.replication.throttled.replicas": "0:2"})


async def set_up(two: TwoBrokers, side: Any, *, isr: list[int], rate: int = RATE) -> None:
    """Throttle one side, and make broker 2 a follower that lacks two megabytes."""
    role, broker_id, topic_config = side
    store = two.cluster.ensemble.connect()
    await store.ensure_path(znode_paths.CONFIG_TOPICS)
    await store.create(znode_paths.config("topics", "orders"), encode_config(topic_config))
    assert await two.set_config(broker_id, f"{role}.replication.throttled.rate", str(rate)) == 0
    follower = two.brokers.pop(FOLLOWER)
    await two.announce(leader=LEADER, leader_epoch=0, isr=[LEADER])
    await fill(two)
    two.brokers[FOLLOWER] = follower
    await two.announce(leader=LEADER, leader_epoch=1, isr=isr)


async def fill(two: TwoBrokers) -> None:
    """Append two megabytes with acks=1."""
    client = await two.brokers[LEADER].connect()
    for _ in range(BATCHES):
        builder = BatchBuilder()
        builder.append(1000, None, bytes(BATCH_BYTES))
        data = [TopicProduceData("orders", [PartitionProduceData(0, bytearray(builder.build()))])]
        response = await client.request(PRODUCE, 11, ProduceRequest(None, 1, 30_000, data))
        assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    client.close()


async def time_until_replicated(two: TwoBrokers, limit_ms: int = 120_000) -> int:
    begun_ms = two.cluster.clock.monotonic_ms()
    while two.log_end_offset(FOLLOWER) < BATCHES:
        assert two.cluster.clock.monotonic_ms() - begun_ms < limit_ms
        await two.cluster.clock.sleep_ms(10)
    return two.cluster.clock.monotonic_ms() - begun_ms


@pytest.mark.parametrize("side", [LEADER_SIDE, FOLLOWER_SIDE], ids=["leader", "follower"])
def test_replica_that_is_not_in_sync_gets_its_records_at_the_rate(side: Any) -> None:
    async def scenario(two: TwoBrokers) -> None:
        await set_up(two, side, isr=[LEADER])
        took_ms = await time_until_replicated(two)
        expected_ms = BATCHES * BATCH_BYTES * 1000 // RATE
        assert expected_ms * 0.8 < took_ms < expected_ms * 1.3

    run_two_brokers(scenario, SETTINGS)


@pytest.mark.parametrize("side", [LEADER_SIDE, FOLLOWER_SIDE], ids=["leader", "follower"])
def test_without_a_throttled_replica_the_rate_has_no_effect(side: Any) -> None:
    async def scenario(two: TwoBrokers) -> None:
        role, broker_id, _ = side
        # The replicas of the other broker are listed.
        await set_up(two, (role, broker_id, {f"{role}.replication.throttled.replicas": "0:7"}), isr=[LEADER])
        assert await time_until_replicated(two) < 1000

    run_two_brokers(scenario, SETTINGS)


def test_replica_in_the_isr_is_not_throttled_by_its_leader() -> None:
    """It would leave the ISR, and acks=all would wait for it."""

    async def scenario(two: TwoBrokers) -> None:
        await set_up(two, LEADER_SIDE, isr=[LEADER, FOLLOWER], rate=1)
        assert await time_until_replicated(two) < 1000

    run_two_brokers(scenario, SETTINGS)


@pytest.mark.parametrize("side", [LEADER_SIDE, FOLLOWER_SIDE], ids=["leader", "follower"])
def test_throttle_is_lifted_at_run_time(side: Any) -> None:
    async def scenario(two: TwoBrokers) -> None:
        await set_up(two, side, isr=[LEADER], rate=1)
        await two.cluster.clock.sleep_ms(5000)
        assert two.log_end_offset(FOLLOWER) < BATCHES
        _, broker_id, topic_config = side
        client = await two.brokers[broker_id].connect()
        names = [AlterableConfig(name, AlterOp.DELETE, None) for name in topic_config]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(ResourceType.TOPIC, "orders", names)])
        response = await client.request(INCREMENTAL_ALTER_CONFIGS, 1, request)
        assert response.responses[0].error_code == ErrorCode.NONE
        client.close()
        assert await time_until_replicated(two) < 3000

    run_two_brokers(scenario, SETTINGS)


def test_replica_in_sync_is_fetched_although_the_quota_is_exceeded() -> None:
    """Its bytes count, too."""

    async def scenario(two: TwoBrokers) -> None:
        await set_up(two, FOLLOWER_SIDE, isr=[LEADER, FOLLOWER], rate=RATE)
        await time_until_replicated(two)
        quota = two.brokers[FOLLOWER].broker.replica_manager.state_changes.fetcher_manager._ports.quota
        assert quota.is_exceeded
        # In sync again, it is not delayed although the quota is exceeded.
        assert await two.produce(LEADER, b"next") == 0
        begun_ms = two.cluster.clock.monotonic_ms()
        assert await two.produce(LEADER, b"and the next") == 0
        assert two.cluster.clock.monotonic_ms() - begun_ms < 100

    run_two_brokers(scenario, SETTINGS)
