"""Leaders in errors of Produce and Fetch (KIP-951), so that clients need not refresh their metadata first."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.broker.conftest import batch as make_batch
from tests.unit.broker.handlers.controller_client import (
    CONTROLLER_EPOCH,
    FOLLOWER,
    OTHER_FOLLOWER,
    STOP_REPLICA,
    UPDATE_METADATA,
    ControllerClient,
)

from odradek.model.errors import ErrorCode
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from odradek.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

PRODUCE, FETCH = 0, 1


async def follow(harness, partitions=1, leader=FOLLOWER):
    """Make the broker a follower of partitions of ``orders``."""
    await harness.create("orders", partitions)
    controller = ControllerClient(harness)
    await controller.announce_brokers(FOLLOWER, OTHER_FOLLOWER, racks={FOLLOWER: "east"})
    await controller.set_leader(
        "orders", leader, partitions=tuple(range(partitions)), followers=(FOLLOWER, OTHER_FOLLOWER)
    )
    return controller


def produce(harness, *partitions, version=10, acks=-1):
    data = [PartitionProduceData(number, make_batch(b"a")) for number in partitions]
    return harness.client.send(
        PRODUCE, version, ProduceRequest(None, acks, 30_000, [TopicProduceData("orders", data)])
    )


def fetch(harness, *partitions, version=16, leader_epoch=-1, max_wait_ms=0, replica_id=-1):
    requested = [FetchPartition(number, leader_epoch, partition_max_bytes=1000) for number in partitions]
    topic = FetchTopic("orders", harness.topic_id("orders"), requested)
    request = FetchRequest(
        replica_state=ReplicaState(replica_id), max_wait_ms=max_wait_ms, min_bytes=1, topics=[topic]
    )
    return harness.client.send(FETCH, version, request)


def fetch_as_follower(harness, *partitions, **options):
    """Fetch as a broker, which may read the leader only; a consumer of these versions may read followers."""
    return fetch(harness, *partitions, replica_id=OTHER_FOLLOWER, **options)


def leaders(response):
    """Return error, leader and leader epoch per partition, and the endpoints."""
    (topic,) = response.responses
    entries = topic.partitions if hasattr(topic, "partitions") else topic.partition_responses
    named = [entry.current_leader for entry in entries]
    return (
        [entry.error_code for entry in entries],
        [None if leader is None else (leader.leader_id, leader.leader_epoch) for leader in named],
        [(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints],
    )


NOT_LEADER, FENCED = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH
EAST = (FOLLOWER, f"host{FOLLOWER}", 9092, "east")


@pytest.mark.parametrize("send", [produce, fetch_as_follower])
def test_follower_names_the_leader_once_for_all_its_partitions(run_scenario, send):
    async def scenario(harness):
        await follow(harness, partitions=2)
        response = await send(harness, 0, 1)
        assert leaders(response) == ([NOT_LEADER] * 2, [(FOLLOWER, 1)] * 2, [EAST])

    run_scenario(scenario)


@pytest.mark.parametrize(("send", "version"), [(produce, 9), (fetch_as_follower, 15)])
def test_older_versions_name_no_leader(run_scenario, send, version):
    async def scenario(harness):
        await follow(harness)
        assert leaders(await send(harness, 0, version=version)) == ([NOT_LEADER], [None], [])

    run_scenario(scenario)


@pytest.mark.parametrize("send", [produce, fetch])
def test_success_names_no_leader(run_scenario, send):
    async def scenario(harness):
        await harness.create("orders")
        assert leaders(await send(harness, 0)) == ([0], [None], [])

    run_scenario(scenario)


@pytest.mark.parametrize("send", [produce, fetch_as_follower])
def test_partitions_of_other_brokers_are_named_from_metadata(run_scenario, send):
    """A broker without a replica knows the leader from UpdateMetadata."""

    async def scenario(harness):
        await follow(harness)
        await update_metadata(harness, leader=OTHER_FOLLOWER, leader_epoch=4)
        # The replica knows leader epoch 1 only, but while there is one its word counts, as in Kafka.
        assert leaders(await send(harness, 0))[1] == [(FOLLOWER, 1)]
        await delete_replica(harness)
        assert leaders(await send(harness, 0)) == (
            [NOT_LEADER],
            [(OTHER_FOLLOWER, 4)],
            [(OTHER_FOLLOWER, f"host{OTHER_FOLLOWER}", 9092, None)],
        )

    run_scenario(scenario)


@pytest.mark.parametrize("send", [produce, fetch_as_follower])
def test_endpoint_is_left_out_unless_the_leader_has_this_listener(run_scenario, send):
    async def scenario(harness):
        controller = await follow(harness)
        await controller.announce_brokers(FOLLOWER, listener="INTERNAL")
        assert leaders(await send(harness, 0)) == ([NOT_LEADER], [(FOLLOWER, 1)], [])
        await controller.announce_brokers(OTHER_FOLLOWER)
        assert leaders(await send(harness, 0)) == ([NOT_LEADER], [(FOLLOWER, 1)], [])

    run_scenario(scenario)


def test_fenced_fetch_names_the_same_leader_with_its_epoch(run_scenario):
    async def scenario(harness):
        controller = await follow(harness, leader=harness.broker.broker_id)
        response = await fetch(harness, 0, leader_epoch=0)
        own = controller.broker_id
        assert leaders(response) == ([FENCED], [(own, 1)], [(own, f"host{own}", 9092, None)])
        assert leaders(await fetch(harness, 0, leader_epoch=2)) == (
            [ErrorCode.UNKNOWN_LEADER_EPOCH],
            [None],
            [],
        )

    run_scenario(scenario)


def test_delayed_produce_names_the_leader_that_took_over(run_scenario):
    async def scenario(harness):
        controller = await follow(harness, leader=harness.broker.broker_id)
        waiting = produce(harness, 0)
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await controller.set_leader("orders", FOLLOWER, leader_epoch=2, followers=(FOLLOWER, OTHER_FOLLOWER))
        assert leaders(await waiting) == ([NOT_LEADER], [(FOLLOWER, 2)], [EAST])

    run_scenario(scenario)


def test_delayed_fetch_names_the_leader_that_took_over(run_scenario):
    async def scenario(harness):
        controller = await follow(harness, leader=harness.broker.broker_id)
        waiting = fetch(harness, 0, leader_epoch=1, max_wait_ms=10_000)
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await controller.set_leader("orders", FOLLOWER, leader_epoch=2, followers=(FOLLOWER, OTHER_FOLLOWER))
        assert leaders(await waiting) == ([FENCED], [(FOLLOWER, 2)], [EAST])

    run_scenario(scenario)


async def update_metadata(harness, leader, leader_epoch):
    state = UpdateMetadataPartitionState(
        "orders", 0, CONTROLLER_EPOCH, leader, leader_epoch, [leader], leader_epoch, [leader], []
    )
    live = [
        UpdateMetadataBroker(
            number, endpoints=[UpdateMetadataEndpoint(9092, f"host{number}", "PLAINTEXT", 0)]
        )
        for number in (harness.broker.broker_id, FOLLOWER, OTHER_FOLLOWER)
    ]
    topics = [UpdateMetadataTopicState("orders", harness.topic_id("orders"), [state])]
    request = UpdateMetadataRequest(
        FOLLOWER, controller_epoch=CONTROLLER_EPOCH, topic_states=topics, live_brokers=live
    )
    assert (await harness.request(UPDATE_METADATA, 8, request)).error_code == 0


async def delete_replica(harness):
    state = StopReplicaPartitionState(0, leader_epoch=-1, delete_partition=True)
    request = StopReplicaRequest(
        FOLLOWER,
        controller_epoch=CONTROLLER_EPOCH,
        topic_states=[StopReplicaTopicState("orders", [state])],
    )
    assert (await harness.request(STOP_REPLICA, 4, request)).error_code == 0
