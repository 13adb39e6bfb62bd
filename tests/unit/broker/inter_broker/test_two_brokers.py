"""Two brokers under a scripted controller: one leads, the other follows, over their own requests."""

from __future__ import annotations

import asyncio
from typing import Any

from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.model.protocol_enums import AlterOp, ResourceType
from odradek.records.batch import BatchBuilder
from odradek.replication.fetchers.fetcher_manager import fetcher_number
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import encode_config
from odradek.testing.broker import MemoryCluster
from odradek.testing.clock import run_virtually
from odradek.testing.scripted_broker import ScriptedBroker
from odradek.wire.messages.alter_partition import (
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from odradek.wire.messages.controlled_shutdown import ControlledShutdownResponse
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

PRODUCE, LEADER_AND_ISR, UPDATE_METADATA, CONTROLLED_SHUTDOWN, ALTER_PARTITION = 0, 4, 6, 7, 56
INCREMENTAL_ALTER_CONFIGS = 44
CONTROLLER_ID, CONTROLLER_EPOCH = 9, 5
TOPIC_ID = b"o" * 16
ORDERS = TopicPartition("orders", 0)


class TwoBrokers:
    """Brokers 1 and 2 with a replica of ``orders`` each, and a controller that accepts every ISR."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.cluster = cluster
        self.controller = ScriptedBroker(cluster.network.host("controller"))
        self.controller.responses[ALTER_PARTITION] = self._accept_isr
        self.controller.responses[CONTROLLED_SHUTDOWN] = lambda _: ControlledShutdownResponse()
        self.isrs: list[list[int]] = []
        self.brokers: dict[int, Any] = {}

    async def start(self, settings: dict[str, str]) -> None:
        await self.controller.listen("", 9092)
        await self.cluster.hold_controller(CONTROLLER_ID)
        for broker_id in (1, 2):
            self.brokers[broker_id] = await self.cluster.start(settings, broker_id=broker_id)

    async def stop(self) -> None:
        for broker in self.brokers.values():
            await broker.stop()
        self.controller.close()

    def _accept_isr(self, request: Any) -> AlterPartitionResponse:
        (topic,), ((part,),) = request.topics, [topic.partitions for topic in request.topics]
        isr = [member.broker_id for member in part.new_isr_with_epochs] or part.new_isr
        self.isrs.append(isr)
        entry = AlterPartitionResponsePartitionData(
            0, 0, request.broker_id, part.leader_epoch, isr, 0, part.partition_epoch + 1
        )
        return AlterPartitionResponse(0, 0, [AlterPartitionResponseTopicData("", topic.topic_id, [entry])])

    async def announce(self, leader: int, leader_epoch: int, isr: list[int]) -> None:
        """Send UpdateMetadata and LeaderAndIsr to both brokers."""
        hosts = {1: "broker-1", 2: "broker-2", CONTROLLER_ID: "controller"}
        live = [
            UpdateMetadataBroker(
                broker_id, endpoints=[UpdateMetadataEndpoint(9092, hosts[broker_id], "PLAINTEXT", 0)]
            )
            for broker_id in (1, 2, CONTROLLER_ID)
        ]
        metadata = UpdateMetadataPartitionState(
            "orders", 0, CONTROLLER_EPOCH, leader, leader_epoch, isr, leader_epoch, [1, 2], []
        )
        state = LeaderAndIsrPartitionState(
            "orders",
            0,
            CONTROLLER_EPOCH,
            leader,
            leader_epoch,
            isr,
            leader_epoch,
            [1, 2],
            is_new=leader_epoch == 0,
        )
        for memory_broker in self.brokers.values():
            client = await memory_broker.connect()
            topics = [UpdateMetadataTopicState("orders", TOPIC_ID, [metadata])]
            update = UpdateMetadataRequest(
                CONTROLLER_ID, controller_epoch=CONTROLLER_EPOCH, topic_states=topics, live_brokers=live
            )
            assert (await client.request(UPDATE_METADATA, 8, update)).error_code == 0
            request = LeaderAndIsrRequest(
                CONTROLLER_ID,
                controller_epoch=CONTROLLER_EPOCH,
                topic_states=[LeaderAndIsrTopicState("orders", TOPIC_ID, [state])],
            )
            response = await client.request(LEADER_AND_ISR, 7, request)
            assert response.error_code == 0
            assert [entry.error_code for entry in response.topics[0].partition_errors] == [0]
            client.close()

    async def produce(self, broker_id: int, value: bytes) -> int:
        builder = BatchBuilder()
        builder.append(1000, None, value)
        client = await self.brokers[broker_id].connect()
        data = [TopicProduceData("orders", [PartitionProduceData(0, bytearray(builder.build()))])]
        response = await client.request(PRODUCE, 11, ProduceRequest(None, -1, 30_000, data))
        client.close()
        return int(response.responses[0].partition_responses[0].error_code)

    async def set_config(self, broker_id: int, name: str, value: str) -> int:
        """Set a dynamic config of one broker; return the error code."""
        client = await self.brokers[broker_id].connect()
        resource = AlterConfigsResource(
            ResourceType.BROKER, str(broker_id), [AlterableConfig(name, AlterOp.SET, value)]
        )
        response = await client.request(
            INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest([resource])
        )
        client.close()
        return int(response.responses[0].error_code)

    def log_end_offset(self, broker_id: int) -> int:
        partition = self.brokers[broker_id].broker._replica_manager.get_partition("orders", 0)
        return int(partition.log.log_end_offset)


def run_two_brokers(scenario: Any, settings: dict[str, str] | None = None) -> None:
    async def main() -> None:
        cluster = MemoryCluster()
        two = TwoBrokers(cluster)
        try:
            await two.start({"min.insync.replicas": "2", **(settings or {})})
            await scenario(two)
            await two.stop()
        finally:
            await cluster.close()

    run_virtually(main)


def test_acknowledged_record_is_on_both_brokers() -> None:
    async def scenario(two: TwoBrokers) -> None:
        await two.announce(leader=1, leader_epoch=0, isr=[1, 2])
        assert await two.produce(1, b"first") == 0
        assert [two.log_end_offset(broker_id) for broker_id in (1, 2)] == [1, 1]

    run_two_brokers(scenario)


def test_follower_enters_the_isr_through_the_controller() -> None:
    async def scenario(two: TwoBrokers) -> None:
        await two.announce(leader=1, leader_epoch=0, isr=[1])
        await asyncio.sleep(5)
        assert two.isrs == [[1, 2]]
        assert await two.produce(1, b"first") == 0

    run_two_brokers(scenario)


def test_follower_that_stopped_leaves_the_isr_by_the_scheduled_check() -> None:
    async def scenario(two: TwoBrokers) -> None:
        await two.announce(leader=1, leader_epoch=0, isr=[1, 2])
        assert await two.produce(1, b"first") == 0
        await two.brokers.pop(2).kill()
        assert await two.produce(1, b"second") == ErrorCode.REQUEST_TIMED_OUT
        assert two.isrs == [[1]]

    run_two_brokers(scenario, {"replica.lag.time.max.ms": "10000"})


def test_roles_swap() -> None:
    async def scenario(two: TwoBrokers) -> None:
        await two.announce(leader=1, leader_epoch=0, isr=[1, 2])
        assert await two.produce(1, b"first") == 0
        await two.announce(leader=2, leader_epoch=1, isr=[1, 2])
        assert await two.produce(2, b"second") == 0
        assert [two.log_end_offset(broker_id) for broker_id in (1, 2)] == [2, 2]

    run_two_brokers(scenario)


def test_logs_of_a_topic_that_another_broker_created_have_its_settings() -> None:
    async def scenario(two: TwoBrokers) -> None:
        store = two.cluster.ensemble.connect()
        await store.ensure_path(znode_paths.CONFIG_TOPICS)
        await store.create(znode_paths.config("topics", "orders"), encode_config({"segment.bytes": "16384"}))
        await two.announce(leader=1, leader_epoch=0, isr=[1, 2])
        for broker in two.brokers.values():
            partition = broker.broker.replica_manager.get_partition("orders", 0)
            assert partition.log.config.segment_bytes == 16384

    run_two_brokers(scenario)


def test_replicas_are_made_although_the_store_is_away() -> None:
    async def scenario(two: TwoBrokers) -> None:
        for broker in two.brokers.values():
            await broker.expire_session()
        await two.announce(leader=1, leader_epoch=0, isr=[1, 2])
        assert await two.produce(1, b"first") == 0

    run_two_brokers(scenario)


def test_number_of_fetchers_changes_at_run_time() -> None:
    async def scenario(two: TwoBrokers) -> None:
        await two.announce(leader=1, leader_epoch=0, isr=[1, 2])
        assert await two.produce(1, b"first") == 0
        fetchers = two.brokers[2].broker.replica_manager.state_changes.fetcher_manager._fetchers
        assert [key.number for key in fetchers] == [fetcher_number(ORDERS, 2)]
        assert await two.set_config(2, "num.replica.fetchers", "3") == 0
        assert await two.produce(1, b"second") == 0
        await asyncio.sleep(5)
        # The fetcher without partitions was closed.
        assert [key.number for key in fetchers] == [fetcher_number(ORDERS, 3)]
        assert two.log_end_offset(2) == 2

    assert fetcher_number(ORDERS, 2) != fetcher_number(ORDERS, 3)
    run_two_brokers(scenario, {"num.replica.fetchers": "2"})


def test_number_of_fetchers_at_most_halves_or_doubles() -> None:
    async def scenario(two: TwoBrokers) -> None:
        for value, code in [("1", ErrorCode.INVALID_REQUEST), ("9", ErrorCode.INVALID_REQUEST), ("2", 0)]:
            assert await two.set_config(2, "num.replica.fetchers", value) == code

    run_two_brokers(scenario, {"num.replica.fetchers": "4"})
