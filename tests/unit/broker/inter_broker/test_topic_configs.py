"""Configs changed and described through brokers that were not told of them, or not yet."""

from __future__ import annotations

from typing import Any

from tests.unit.broker.inter_broker.own_cluster import OwnCluster, run_cluster

from odradek.model.ids import TopicPartition
from odradek.model.protocol_enums import AlterOp, ResourceType
from odradek.store.configs import read_config, write_with_config
from odradek.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

INCREMENTAL_ALTER_CONFIGS, DESCRIBE_CONFIGS = 44, 32
CREATED = {"min.insync.replicas": "1", "retention.ms": "5"}
OTHER = 3


async def create_elsewhere(own: OwnCluster) -> None:
    """Create a topic without a replica on one broker."""
    await own.create_topic("orders", (1, 2), configs=CREATED)
    await own.until(
        lambda: own.brokers[OTHER].broker.metadata_cache.partition(*TopicPartition("orders", 0)) is not None
    )


def test_change_through_a_broker_without_a_replica_keeps_the_other_configs() -> None:
    async def scenario(own: OwnCluster) -> None:
        await create_elsewhere(own)
        config = AlterableConfig("unclean.leader.election.enable", AlterOp.SET, "true")
        resource = AlterConfigsResource(ResourceType.TOPIC, "orders", [config])
        request = IncrementalAlterConfigsRequest([resource])
        response = await own.request(OTHER, INCREMENTAL_ALTER_CONFIGS, 1, request)
        assert response.responses[0].error_code == 0
        stored = await read_config(own.store, "topics", "orders")
        assert stored == {**CREATED, "unclean.leader.election.enable": "true"}

    run_cluster(scenario)


def test_cluster_wide_change_keeps_one_that_the_broker_was_not_notified_of() -> None:
    async def scenario(own: OwnCluster) -> None:
        await own.store.ensure_path("/config/brokers")
        await write_with_config(own.store, "brokers", "<default>", {"message.max.bytes": "2000000"}, [])
        resource = AlterConfigsResource(
            ResourceType.BROKER, "", [AlterableConfig("num.io.threads", AlterOp.SET, "9")]
        )
        request = IncrementalAlterConfigsRequest([resource])
        response = await own.request(1, INCREMENTAL_ALTER_CONFIGS, 1, request)
        assert response.responses[0].error_code == 0
        stored = await read_config(own.store, "brokers", "<default>")
        assert stored == {"message.max.bytes": "2000000", "num.io.threads": "9"}

    run_cluster(scenario)


def test_broker_without_a_replica_describes_the_configs_of_a_new_topic() -> None:
    async def described(own: OwnCluster, broker_id: int) -> dict[str, Any]:
        resource = DescribeConfigsResource(ResourceType.TOPIC, "orders", list(CREATED))
        request = DescribeConfigsRequest([resource])
        response = await own.request(broker_id, DESCRIBE_CONFIGS, 4, request)
        return {config.name: config.value for config in response.results[0].configs}

    async def scenario(own: OwnCluster) -> None:
        await create_elsewhere(own)
        for broker_id in own.brokers:
            assert await described(own, broker_id) == CREATED

    run_cluster(scenario)
