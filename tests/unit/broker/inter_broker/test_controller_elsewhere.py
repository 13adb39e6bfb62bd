"""A broker whose controller is another broker: topics, producer ids, shutdown and failures go through it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from odradek.cluster.metadata_cache import BrokerEndpoint, BrokerMetadata, MetadataUpdate
from odradek.log.directory.directory_lock import unusable_directory
from odradek.model.errors import ErrorCode
from odradek.store.configs import change_config
from odradek.store.layout import znode_paths
from odradek.testing.broker import MemoryCluster
from odradek.testing.clock import run_virtually
from odradek.testing.scripted_broker import ScriptedBroker
from odradek.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from odradek.wire.messages.alter_partition import AlterPartitionRequest
from odradek.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from odradek.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from odradek.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

METADATA, CONTROLLED_SHUTDOWN, FIND_COORDINATOR, CREATE_TOPICS, DELETE_TOPICS = 3, 7, 10, 19, 20
INIT_PRODUCER_ID, CREATE_PARTITIONS, ELECT_LEADERS = 22, 37, 43
ALTER_REASSIGNMENTS, LIST_REASSIGNMENTS, ALTER_PARTITION, ALLOCATE_PRODUCER_IDS = 45, 46, 56, 67
CONTROLLER_ID = 9


class ControllerHarness:
    """Broker 1, and a scripted controller 9 that its metadata names."""

    def __init__(self, cluster, memory_broker, controller):
        self.cluster = cluster
        self.memory_broker = memory_broker
        self.broker = memory_broker.broker
        self.controller = controller
        self.store = cluster.ensemble.connect()
        self.client: Any = None
        self.is_stopped = False

    async def stop(self):
        if not self.is_stopped:
            self.is_stopped = True
            await self.memory_broker.stop()

    async def request(self, api_key, version, message):
        return await self.client.request(api_key, version, message)

    async def metadata(self, *topics):
        request = MetadataRequest([MetadataRequestTopic(name=name) for name in topics])
        response = await self.request(METADATA, 12, request)
        return [ErrorCode(topic.error_code) for topic in response.topics]


def run_with_controller(scenario, settings=None):
    async def main():
        cluster = MemoryCluster()
        controller = ScriptedBroker(cluster.network.host("controller"))
        port = await controller.listen("", 9092)
        await cluster.hold_controller(CONTROLLER_ID)
        memory_broker = await cluster.start(settings, broker_id=1)
        endpoints = {"PLAINTEXT": BrokerEndpoint("controller", port)}
        memory_broker.broker.metadata_cache.apply(
            MetadataUpdate(
                brokers={CONTROLLER_ID: BrokerMetadata(CONTROLLER_ID, endpoints)},
                controller_id=CONTROLLER_ID,
            )
        )
        harness = ControllerHarness(cluster, memory_broker, controller)
        harness.client = await memory_broker.connect()
        try:
            await scenario(harness)
        finally:
            controller.responses.setdefault(CONTROLLED_SHUTDOWN, lambda _: ControlledShutdownResponse())
            await harness.stop()
            controller.close()
            await cluster.close()

    run_virtually(main)


# Requests that only the controller answers.


@pytest.mark.parametrize(
    ("api_key", "version", "request_message", "codes"),
    [
        (
            CREATE_TOPICS,
            7,
            CreateTopicsRequest([CreatableTopic("a", 1, 1), CreatableTopic("b", 1, 1)]),
            lambda response: [topic.error_code for topic in response.topics],
        ),
        (
            DELETE_TOPICS,
            6,
            DeleteTopicsRequest([DeleteTopicState("a")], [], 1000),
            lambda response: [topic.error_code for topic in response.responses],
        ),
        (
            CREATE_PARTITIONS,
            3,
            CreatePartitionsRequest([CreatePartitionsTopic("a", 2, None)], 1000, False),
            lambda response: [topic.error_code for topic in response.results],
        ),
        (
            ALTER_REASSIGNMENTS,
            0,
            AlterPartitionReassignmentsRequest(),
            lambda response: [response.error_code],
        ),
        (
            LIST_REASSIGNMENTS,
            0,
            ListPartitionReassignmentsRequest(),
            lambda response: [response.error_code],
        ),
        (
            ELECT_LEADERS,
            2,
            ElectLeadersRequest(0, [TopicPartitions("a", [0])], 1000),
            lambda response: [
                part.error_code
                for topic in response.replica_election_results
                for part in topic.partition_result
            ],
        ),
        (ALTER_PARTITION, 3, AlterPartitionRequest(1, 1), lambda response: [response.error_code]),
        (ALLOCATE_PRODUCER_IDS, 0, AllocateProducerIdsRequest(1, 1), lambda response: [response.error_code]),
    ],
)
def test_broker_that_is_not_the_controller_says_so(api_key, version, request_message, codes):
    async def scenario(harness):
        response = await harness.request(api_key, version, request_message)
        assert set(codes(response)) == {ErrorCode.NOT_CONTROLLER}

    run_with_controller(scenario)


def test_controlled_shutdown_has_the_code_of_a_moved_controller():
    async def scenario(harness):
        response = await harness.request(CONTROLLED_SHUTDOWN, 3, ControlledShutdownRequest(1, 1))
        assert response.error_code == ErrorCode.STALE_CONTROLLER_EPOCH

    run_with_controller(scenario)


def test_election_of_all_partitions_is_empty_elsewhere():
    async def scenario(harness):
        response = await harness.request(ELECT_LEADERS, 2, ElectLeadersRequest(0, None, 1000))
        assert (response.error_code, response.replica_election_results) == (0, [])

    run_with_controller(scenario)


# Automatic topic creation.


def test_missing_topic_is_created_through_the_controller():
    async def scenario(harness):
        response = CreateTopicsResponse(topics=[CreatableTopicResult("orders")])
        harness.controller.responses[CREATE_TOPICS] = lambda _: response
        assert await harness.metadata("orders") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        await asyncio.sleep(1)
        (request,) = harness.controller.requests_of(CREATE_TOPICS)
        (topic,) = request.topics
        assert (topic.name, topic.num_partitions, topic.replication_factor) == ("orders", 4, 2)
        assert await harness.store.exists(znode_paths.topic("orders")) is None

    run_with_controller(scenario, {"num.partitions": "4", "default.replication.factor": "2"})


def test_topic_is_requested_once_while_it_is_created():
    async def scenario(harness):
        harness.controller.responses[CREATE_TOPICS] = lambda _: None
        for _ in range(5):
            await harness.metadata("orders", "others")
        await asyncio.sleep(1)
        names = [
            topic.name
            for request in harness.controller.requests_of(CREATE_TOPICS)
            for topic in request.topics
        ]
        assert sorted(names) == ["orders", "others"]
        await asyncio.sleep(60)  # request.timeout.ms
        await harness.metadata("orders")
        await asyncio.sleep(1)
        assert len(harness.controller.requests_of(CREATE_TOPICS)) == 3

    run_with_controller(scenario)


def test_creation_is_repeated_while_the_controller_moves():
    async def scenario(harness):
        codes = iter([ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER, ErrorCode.NONE])
        harness.controller.responses[CREATE_TOPICS] = lambda request: CreateTopicsResponse(
            topics=[CreatableTopicResult(request.topics[0].name, error_code=next(codes))]
        )
        await harness.metadata("orders")
        await asyncio.sleep(1)
        assert len(harness.controller.requests_of(CREATE_TOPICS)) == 3

    run_with_controller(scenario)


def test_creation_is_given_up_after_the_request_timeout():
    async def scenario(harness):
        harness.controller.responses[CREATE_TOPICS] = lambda request: CreateTopicsResponse(
            topics=[CreatableTopicResult(request.topics[0].name, error_code=ErrorCode.NOT_CONTROLLER)]
        )
        await harness.metadata("orders")
        await asyncio.sleep(1)
        sent = len(harness.controller.requests_of(CREATE_TOPICS))
        await asyncio.sleep(60)
        assert sent < len(harness.controller.requests_of(CREATE_TOPICS)) <= 20

    run_with_controller(scenario, {"request.timeout.ms": "2000"})


def test_stop_gives_up_a_creation():
    async def scenario(harness):
        harness.controller.responses[CREATE_TOPICS] = lambda request: CreateTopicsResponse(
            topics=[CreatableTopicResult(request.topics[0].name, error_code=ErrorCode.NOT_CONTROLLER)]
        )
        await harness.metadata("orders")
        await asyncio.sleep(0.3)
        await harness.stop()
        sent = len(harness.controller.requests_of(CREATE_TOPICS))
        await asyncio.sleep(10)
        assert len(harness.controller.requests_of(CREATE_TOPICS)) == sent

    run_with_controller(scenario)


def test_illegal_topic_name_is_not_sent():
    async def scenario(harness):
        assert await harness.metadata("not legal") == [ErrorCode.INVALID_TOPIC_EXCEPTION]
        await asyncio.sleep(1)
        assert harness.controller.received == []

    run_with_controller(scenario)


def test_offsets_topic_is_created_through_the_controller():
    async def scenario(harness):
        harness.controller.responses[CREATE_TOPICS] = lambda request: CreateTopicsResponse(
            topics=[CreatableTopicResult(request.topics[0].name)]
        )
        response = await harness.request(FIND_COORDINATOR, 3, FindCoordinatorRequest("g", 0))
        assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await asyncio.sleep(1)
        (request,) = harness.controller.requests_of(CREATE_TOPICS)
        assert request.topics[0].name == "__consumer_offsets"
        assert {config.name: config.value for config in request.topics[0].configs}[
            "cleanup.policy"
        ] == "compact"

    run_with_controller(scenario)


# Producer ids.


def test_producer_ids_come_in_blocks_from_the_controller():
    async def scenario(harness):
        starts = iter((5_000, 9_000))
        harness.controller.responses[ALLOCATE_PRODUCER_IDS] = lambda _: AllocateProducerIdsResponse(
            producer_id_start=next(starts), producer_id_len=2
        )
        responses = [
            await harness.request(INIT_PRODUCER_ID, 4, InitProducerIdRequest(None)) for _ in range(3)
        ]
        assert [response.producer_id for response in responses] == [5_000, 5_001, 9_000]
        membership = harness.broker._membership
        assert [
            (request.broker_id, request.broker_epoch)
            for request in harness.controller.requests_of(ALLOCATE_PRODUCER_IDS)
        ] == [(1, membership.broker_epoch)] * 2

    run_with_controller(scenario)


def test_refused_block_is_retriable_and_asked_for_again():
    async def scenario(harness):
        answers = iter(
            (
                AllocateProducerIdsResponse(
                    error_code=ErrorCode.NOT_CONTROLLER, producer_id_start=1, producer_id_len=5
                ),
                AllocateProducerIdsResponse(producer_id_start=7, producer_id_len=1),
            )
        )
        harness.controller.responses[ALLOCATE_PRODUCER_IDS] = lambda _: next(answers)
        first = await harness.request(INIT_PRODUCER_ID, 4, InitProducerIdRequest(None))
        assert (first.error_code, first.producer_id) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)
        second = await harness.request(INIT_PRODUCER_ID, 4, InitProducerIdRequest(None))
        assert (second.error_code, second.producer_id) == (0, 7)

    run_with_controller(scenario)


def test_old_protocol_allocates_blocks_in_the_store():
    async def scenario(harness):
        response = await harness.request(INIT_PRODUCER_ID, 4, InitProducerIdRequest(None))
        assert response.producer_id == 0
        data, _ = await harness.store.get(znode_paths.LATEST_PRODUCER_ID_BLOCK)
        assert data == b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}'
        assert harness.controller.received == []

    run_with_controller(scenario, {"inter.broker.protocol.version": "2.8"})


# Controlled shutdown.


def test_controlled_shutdown_comes_before_requests_are_refused():
    async def scenario(harness):
        served = []

        def respond(request):
            served.append(harness.client.is_open)
            return ControlledShutdownResponse()

        harness.controller.responses[CONTROLLED_SHUTDOWN] = respond
        epoch = harness.broker._membership.broker_epoch
        await harness.stop()
        assert served == [True]
        (request,) = harness.controller.received
        assert (request.version, request.message.broker_id, request.message.broker_epoch) == (3, 1, epoch)

    run_with_controller(scenario)


def test_controlled_shutdown_is_retried_and_then_given_up():
    async def scenario(harness):
        remaining = [RemainingPartition("orders", 0)]
        harness.controller.responses[CONTROLLED_SHUTDOWN] = lambda _: ControlledShutdownResponse(
            remaining_partitions=remaining
        )
        before_ms = harness.cluster.clock.monotonic_ms()
        await harness.stop()
        assert len(harness.controller.requests_of(CONTROLLED_SHUTDOWN)) == 4
        assert harness.cluster.clock.monotonic_ms() - before_ms >= 4 * 700
        assert await harness.store.exists(znode_paths.broker(1)) is None

    run_with_controller(
        scenario, {"controlled.shutdown.max.retries": "4", "controlled.shutdown.retry.backoff.ms": "700"}
    )


def test_controlled_shutdown_goes_to_the_controller_in_the_store():
    async def scenario(harness):
        # The metadata names a controller that has stopped.
        harness.broker.metadata_cache.apply(MetadataUpdate(controller_id=5))
        harness.controller.responses[CONTROLLED_SHUTDOWN] = lambda _: ControlledShutdownResponse()
        await harness.stop()
        assert len(harness.controller.requests_of(CONTROLLED_SHUTDOWN)) == 1

    run_with_controller(scenario)


def test_controlled_shutdown_can_be_disabled():
    async def scenario(harness):
        harness.controller.responses[CONTROLLED_SHUTDOWN] = lambda _: ControlledShutdownResponse()
        await harness.stop()
        assert harness.controller.received == []

    run_with_controller(scenario, {"controlled.shutdown.enable": "false"})


# Failures and configs.


def test_failed_log_directory_is_notified_in_the_store():
    async def scenario(harness):
        directories = list(harness.broker._log_manager)
        directories[1].fail(unusable_directory(directories[1].path, OSError(5, "Input/output error")))
        await asyncio.sleep(1)
        names = await harness.store.children(znode_paths.LOG_DIR_EVENT_NOTIFICATION)
        assert names == ["log_dir_event_0000000000"]
        data, _ = await harness.store.get(f"{znode_paths.LOG_DIR_EVENT_NOTIFICATION}/{names[0]}")
        assert data == b'{"version":1,"broker":1,"event":1}'

    run_with_controller(scenario, {"log.dirs": "/data,/data2"})


def test_configs_of_any_writer_are_applied():
    async def scenario(harness):
        await change_config(harness.store, "topics", "orders", {"retention.ms": "5"})
        await change_config(harness.store, "brokers", "<default>", {"log.retention.ms": "6"})
        await change_config(harness.store, "brokers", "1", {"log.segment.bytes": "7000"})
        await change_config(harness.store, "brokers", "2", {"log.segment.bytes": "8000"})
        await asyncio.sleep(1)
        assert harness.broker._admin_manager.topic_overrides("orders") == {"retention.ms": "5"}
        assert harness.broker.config.cluster_overrides == {"log.retention.ms": "6"}
        assert harness.broker.config.broker_overrides == {"log.segment.bytes": "7000"}

    run_with_controller(scenario)
