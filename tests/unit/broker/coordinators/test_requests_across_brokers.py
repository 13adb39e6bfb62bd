"""Requests to a broker about groups, transactions and partitions that other brokers are responsible for."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.broker.handlers.transactional_client import TransactionalProducer, write_marker

from odradek.model.errors import ErrorCode
from odradek.model.ids import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from odradek.records.batch import BatchBuilder
from odradek.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from odradek.wire.messages.describe_cluster import DescribeClusterRequest
from odradek.wire.messages.describe_log_dirs import DescribeLogDirsPartition, DescribeLogDirsRequest
from odradek.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

from .coordinator_cluster import (
    CONTROLLER_ID,
    CoordinatorCluster,
    Node,
    TransactionRouter,
    create_internal_topics,
    run_scenario,
)

PRODUCE, LIST_OFFSETS, OFFSET_FETCH, FIND_COORDINATOR, HEARTBEAT = 0, 2, 9, 10, 12
CREATE_TOPICS, DESCRIBE_LOG_DIRS, DESCRIBE_CLUSTER, DESCRIBE_PRODUCERS = 19, 35, 60, 61
GROUP, TRANSACTION = 0, 1
LATEST, CONSUMER, DEBUGGING_CONSUMER = -1, -1, -2


async def find_coordinator(node: Node, key_type: int, *keys: str) -> list[tuple[int, str, int]]:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
    response = await node.request(FIND_COORDINATOR, 5, request)
    return [(each.node_id, each.host, each.error_code) for each in response.coordinators]


async def produce(node: Node, topic: str, *values: bytes) -> int:
    builder = BatchBuilder()
    for value in values:
        builder.append(1, None, value)
    data = [TopicProduceData(topic, [PartitionProduceData(0, builder.build())])]
    response = await node.request(PRODUCE, 11, ProduceRequest(None, -1, 30_000, data))
    code: int = response.responses[0].partition_responses[0].error_code
    return code


# Coordinators.


def test_any_broker_finds_the_coordinators() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        await create_internal_topics(fixture, groups=1, transactions=2)
        for node in fixture.nodes.values():
            assert await find_coordinator(node, GROUP, "g") == [(1, "broker-1", 0)]
            assert await find_coordinator(node, TRANSACTION, "t") == [(2, "broker-2", 0)]
        await fixture.create(OFFSETS_TOPIC, 2, (1, 2))
        await fixture.place(2, OFFSETS_TOPIC)
        for node in fixture.nodes.values():
            assert await find_coordinator(node, GROUP, "g") == [(2, "broker-2", 0)]

    run_scenario(scenario)


def test_coordinator_without_a_live_leader_is_not_available() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        await create_internal_topics(fixture)
        number = fixture[1].groups.partition_of("g")
        unavailable = [(-1, "", ErrorCode.COORDINATOR_NOT_AVAILABLE)]
        for leader in (-1, 77):
            fixture.leaders[TopicPartition(OFFSETS_TOPIC, number)] = leader, 5
            await fixture.announce([TopicPartition(OFFSETS_TOPIC, number)])
            assert await find_coordinator(fixture[2], GROUP, "g") == unavailable

    run_scenario(scenario)


@pytest.mark.parametrize(
    ("key_type", "topic", "expected", "min_isr"),
    [(GROUP, OFFSETS_TOPIC, (4, 3), None), (TRANSACTION, TRANSACTIONS_TOPIC, (6, 2), "2")],
)
def test_internal_topic_is_created_by_the_controller_with_its_settings(
    key_type: int, topic: str, expected: tuple[int, int], min_isr: str | None
) -> None:
    settings = {
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.num.partitions": "6",
        "transaction.state.log.replication.factor": "2",
        "transaction.state.log.min.isr": "2",
    }

    async def scenario(fixture: CoordinatorCluster) -> None:
        controller = fixture.controller
        controller.responses[CREATE_TOPICS] = lambda request: CreateTopicsResponse(
            topics=[CreatableTopicResult(each.name, error_code=0) for each in request.topics]
        )
        unavailable = [(-1, "", ErrorCode.COORDINATOR_NOT_AVAILABLE)]
        assert await find_coordinator(fixture[1], key_type, "key") == unavailable
        await fixture.until(lambda: bool(controller.requests_of(CREATE_TOPICS)))
        (created,) = controller.requests_of(CREATE_TOPICS)[0].topics
        assert (created.name, (created.num_partitions, created.replication_factor)) == (topic, expected)
        configs = {config.name: config.value for config in created.configs}
        assert (configs["cleanup.policy"], configs.get("min.insync.replicas")) == ("compact", min_isr)
        assert controller.received[-1].client_id == "broker-1"

    run_scenario(scenario, size=1, settings=settings)


def test_groups_and_transactions_of_another_broker_are_not_coordinated_here() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        await create_internal_topics(fixture, groups=1, transactions=1)
        await fixture.create("orders", 1, (1,))
        await fixture.place(1, "orders")
        node = fixture[2]
        beat = await node.request(HEARTBEAT, 4, HeartbeatRequest("g", 1, "m"))
        assert beat.error_code == ErrorCode.NOT_COORDINATOR
        fetched = await node.request(
            OFFSET_FETCH, 8, OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)])
        )
        assert fetched.groups[0].error_code == ErrorCode.NOT_COORDINATOR
        producer = TransactionalProducer(TransactionRouter(fixture, coordinator=2, leader=1, groups=2))
        assert await producer.init() == ErrorCode.NOT_COORDINATOR
        assert await producer.add() == {0: ErrorCode.NOT_COORDINATOR}
        assert await producer.end() == ErrorCode.NOT_COORDINATOR
        assert await producer.commit_offset(1) == ErrorCode.NOT_COORDINATOR

    run_scenario(scenario)


# Partitions.


async def list_offset(node: Node, topic: str, replica_id: int = CONSUMER, epoch: int = -1) -> tuple[int, int]:
    """Return the error code and the latest offset."""
    partition = ListOffsetsPartition(0, epoch, LATEST)
    request = ListOffsetsRequest(replica_id, 0, [ListOffsetsTopic(topic, [partition])])
    response = await node.request(LIST_OFFSETS, 9, request)
    entry = response.topics[0].partitions[0]
    return entry.error_code, entry.offset


def test_offsets_are_listed_by_the_leader() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        await fixture.create("orders", 1, (1, 2))
        await fixture.place(1, "orders")
        assert await produce(fixture[1], "orders", b"a", b"b") == 0
        await fixture.until_replicated("orders")
        not_leader = (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        assert await list_offset(fixture[1], "orders") == (0, 2)
        assert await list_offset(fixture[2], "orders") == not_leader
        assert await list_offset(fixture[3], "orders") == not_leader
        assert await list_offset(fixture[2], "orders", DEBUGGING_CONSUMER) == (0, 2)
        assert await list_offset(fixture[3], "orders", DEBUGGING_CONSUMER) == not_leader
        unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        assert await list_offset(fixture[3], "letters") == unknown
        await fixture.place(2, "orders")
        assert await list_offset(fixture[1], "orders") == not_leader
        await fixture.until_replicated("orders")
        assert await list_offset(fixture[2], "orders", epoch=0) == (ErrorCode.FENCED_LEADER_EPOCH, -1)
        assert await list_offset(fixture[2], "orders", epoch=1) == (0, 2)

    run_scenario(scenario, size=3)


async def describe_log_dirs(node: Node) -> dict[str, DescribeLogDirsPartition]:
    response = await node.request(DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(None))
    (result,) = response.results
    return {topic.name: topic.partitions[0] for topic in result.topics}


def test_followers_describe_their_logs() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        await fixture.create("orders", 1, (1, 2))
        await fixture.place(1, "orders")
        assert await produce(fixture[1], "orders", b"a", b"b") == 0
        await fixture.until_replicated("orders")
        leader, follower = [(await describe_log_dirs(fixture[number]))["orders"] for number in (1, 2)]
        assert leader.partition_size == follower.partition_size > 0
        assert (leader.offset_lag, follower.offset_lag) == (0, 0)
        assert await describe_log_dirs(fixture[3]) == {}

    run_scenario(scenario, size=3)


def test_log_without_a_role_has_no_known_lag() -> None:
    """As after a start, before the controller has sent LeaderAndIsr."""

    async def scenario(fixture: CoordinatorCluster) -> None:
        await fixture.create("orders", 1, (1,))
        await fixture.place(1, "orders")
        assert await produce(fixture[1], "orders", b"a") == 0
        await fixture.nodes.pop(1).stop()
        node = await fixture.start(1)
        entry = (await describe_log_dirs(node))["orders"]
        assert (entry.partition_size > 0, entry.offset_lag) == (True, -1)
        await fixture.announce()
        await fixture.tell(1, "orders")
        assert (await describe_log_dirs(node))["orders"].offset_lag == 0

    run_scenario(scenario, size=1)


async def describe_producers(node: Node, topic: str) -> tuple[int, list[int]]:
    """Return the error code and the ids of the producers."""
    request = DescribeProducersRequest([TopicRequest(topic, [0])])
    entry: Any = (await node.request(DESCRIBE_PRODUCERS, 0, request)).topics[0].partitions[0]
    return entry.error_code, [producer.producer_id for producer in entry.active_producers]


def test_producers_are_described_by_every_replica() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        await create_internal_topics(fixture, transactions=3)
        await fixture.create("orders", 1, (1, 2))
        await fixture.place(1, "orders")
        producer = TransactionalProducer(TransactionRouter(fixture, coordinator=3, leader=1))
        assert await producer.init() == 0
        await producer.transact(b"a")
        await fixture.until_replicated("orders")
        for number in (1, 2):
            assert await describe_producers(fixture[number], "orders") == (0, [producer.producer_id])
        assert (await describe_producers(fixture[3], "orders"))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await describe_producers(fixture[3], "letters"))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run_scenario(scenario, size=3)


def test_markers_are_rejected_by_followers_and_other_brokers() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        await fixture.create("orders", 1, (1, 2))
        await fixture.place(1, "orders")
        for number in (2, 3):
            assert await write_marker(fixture[number], 7, 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        code = await write_marker(fixture[3], 7, 0, topic="letters")
        assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await write_marker(fixture[1], 7, 0, coordinator_epoch=3) == 0
        fenced = await write_marker(fixture[1], 7, 0, coordinator_epoch=2)
        assert fenced == ErrorCode.TRANSACTION_COORDINATOR_FENCED

    run_scenario(scenario, size=3)


def test_all_brokers_describe_the_same_cluster() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        request = DescribeClusterRequest(endpoint_type=1)
        responses = [await node.request(DESCRIBE_CLUSTER, 1, request) for node in fixture.nodes.values()]
        assert responses[0] == responses[1]
        brokers = [(broker.broker_id, broker.host, broker.port) for broker in responses[0].brokers]
        assert brokers == [
            (1, "broker-1", 9092),
            (2, "broker-2", 9092),
            (CONTROLLER_ID, "controller", 9092),
        ]
        assert responses[0].controller_id == CONTROLLER_ID

    run_scenario(scenario)
