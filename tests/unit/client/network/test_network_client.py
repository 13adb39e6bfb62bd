"""Network client against an in-memory broker."""

from __future__ import annotations

import asyncio

import pytest

from odradek.client.network.network_client import ANY_NODE, CONTROLLER, CoordinatorType
from odradek.config.client.connection import BOOTSTRAP_SERVERS
from odradek.model.client_errors import (
    ClientClosed,
    ConnectionFailed,
    RequestRefused,
    TimedOut,
    UnknownTopic,
    UnresolvedBootstrap,
)
from odradek.testing.broker import CLIENT_HOST
from odradek.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.describe_cluster import DescribeClusterRequest
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

INTERNAL_TOPICS = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.min.isr": "1",
}
NO_AUTO_CREATION = {"auto.create.topics.enable": "false"}


async def create(client, name, partitions=2):
    request = CreateTopicsRequest([CreatableTopic(name, partitions, 1)], timeout_ms=5000)
    response = await client.send(CONTROLLER, request)
    assert response.topics[0].error_code == 0


def test_topic_metadata_is_available_after_wait_for_topic(run_with_client):
    async def scenario(fixture):
        client = await fixture.network_client()
        await create(client, "letters", 3)
        topic = await client.wait_for_topic("letters", 5000)
        assert [partition.partition for partition in topic.partitions] == [0, 1, 2]
        assert topic.available == (0, 1, 2)
        assert len(topic.topic_id) == 16
        assert client.metadata.cluster_id
        assert client.metadata.partitions_for("letters") == list(topic.partitions)
        leader, epoch = client.metadata.leader(("letters", 1))
        assert leader in client.metadata.nodes
        assert epoch == 0

    run_with_client(scenario)


def test_only_tracked_topics_are_requested(run_with_client):
    async def scenario(fixture):
        client = await fixture.network_client()
        await create(client, "one")
        await create(client, "other")
        await client.wait_for_topic("one", 5000)
        assert set(client.metadata.topics) == {"one"}
        client.track_only_topics(["other"])
        await client.wait_for_topic("other", 5000)
        await client.await_update(client.request_update(), 5000)
        assert set(client.metadata.topics) == {"other"}
        client.track_all_topics(True)
        await client.await_update(client.request_update(), 5000)
        assert set(client.metadata.topics) == {"one", "other"}

    run_with_client(scenario)


def test_wait_for_unknown_topic_until_timeout(run_with_client):
    async def scenario(fixture):
        client = await fixture.network_client()
        with pytest.raises(UnknownTopic, match="nowhere not present in metadata after 3000 ms"):
            await client.wait_for_topic("nowhere", 3000)
        waiting = asyncio.create_task(client.wait_for_topic("late", 60_000))
        await fixture.memory.clock.sleep_ms(2000)
        await create(client, "late")
        assert (await waiting).name == "late"

    run_with_client(scenario, NO_AUTO_CREATION)


def test_missing_partition_fails_after_one_metadata_update(run_with_client):
    async def scenario(fixture):
        client = await fixture.network_client()
        await create(client, "narrow", 1)
        assert (await client.wait_for_topic("narrow", 1000, partition=0)).name == "narrow"
        started_ms = fixture.memory.clock.monotonic_ms()
        with pytest.raises(UnknownTopic, match="topic narrow has 1 partition, got partition 4"):
            await client.wait_for_topic("narrow", 60_000, partition=4)
        assert fixture.memory.clock.monotonic_ms() - started_ms < 1500

    run_with_client(scenario)


def test_added_partition_is_found_by_the_metadata_update(run_with_client):
    async def scenario(fixture):
        client = await fixture.network_client()
        await create(client, "narrow", 1)
        await client.wait_for_topic("narrow", 1000)
        wider = CreatePartitionsTopic("narrow", 3, None)
        response = await client.send(CONTROLLER, CreatePartitionsRequest([wider], 5000))
        assert response.results[0].error_code == 0
        assert len((await client.wait_for_topic("narrow", 60_000, partition=2)).partitions) == 3

    run_with_client(scenario)


def test_unresolvable_bootstrap_hosts_fail_immediately(run_with_client):
    async def scenario(fixture):
        fixture.network.unknown_hosts |= {"nowhere", "elsewhere"}
        client = await fixture.network_client({BOOTSTRAP_SERVERS: ("nowhere:9092", "elsewhere:9093")})
        started_ms = fixture.memory.clock.monotonic_ms()
        with pytest.raises(UnresolvedBootstrap, match=r"nowhere:9092.*elsewhere:9093|elsewhere.*nowhere"):
            await client.wait_for_topic("letters", 60_000)
        with pytest.raises(UnresolvedBootstrap, match=r"no host in bootstrap.servers resolves"):
            await client.coordinator(CoordinatorType.GROUP, "readers", 60_000)
        with pytest.raises(UnresolvedBootstrap):
            await client.send(CONTROLLER, DescribeClusterRequest(), timeout_ms=60_000)
        assert fixture.memory.clock.monotonic_ms() - started_ms < 4000

    run_with_client(scenario)


def test_host_that_resolves_later_is_used(run_with_client):
    async def scenario(fixture):
        fixture.network.unknown_hosts.add("broker")
        client = await fixture.network_client()
        with pytest.raises(UnresolvedBootstrap):
            await client.wait_for_topic("letters", 60_000)
        fixture.network.unknown_hosts.clear()
        assert (await client.wait_for_topic("letters", 60_000)).name == "letters"

    run_with_client(scenario)


def test_refused_connection_next_to_an_unresolvable_host_is_retried_until_timeout(run_with_client):
    async def scenario(fixture):
        fixture.network.unknown_hosts.add("nowhere")
        client = await fixture.network_client({BOOTSTRAP_SERVERS: ("nowhere:9092", "starting:9092")})
        started_ms = fixture.memory.clock.monotonic_ms()
        with pytest.raises(
            TimedOut, match=r"connection failed: (Connection refused|host 'nowhere' does not)"
        ):
            await client.wait_for_topic("letters", 20_000)
        assert fixture.memory.clock.monotonic_ms() - started_ms >= 20_000

    run_with_client(scenario)


def test_known_broker_with_an_unresolvable_host_is_a_retriable_failure(run_with_client):
    """Host names of restarting brokers come and go, for example in Kubernetes."""

    async def scenario(fixture):
        client = await fixture.network_client()
        await create(client, "letters", 1)
        (node_id,) = client.metadata.nodes
        fixture.network.unknown_hosts.add("broker")
        fixture.network.reset_all(CLIENT_HOST)
        with pytest.raises(ConnectionFailed, match="host 'broker' does not resolve") as caught:
            await client.send(node_id, DescribeClusterRequest())
        assert caught.value.retriable
        assert not isinstance(caught.value, UnresolvedBootstrap)
        fixture.network.unknown_hosts.clear()
        await client.await_update(client.request_update(), 10_000)

    run_with_client(scenario)


def test_invalid_topic_name_fails_immediately(run_with_client):
    async def scenario(fixture):
        client = await fixture.network_client()
        started_ms = fixture.memory.clock.monotonic_ms()
        with pytest.raises(RequestRefused, match="INVALID_TOPIC"):
            await client.wait_for_topic("not/a/name", 60_000)
        assert fixture.memory.clock.monotonic_ms() - started_ms < 1000

    run_with_client(scenario)


def test_send_to_any_node_and_to_the_controller(run_with_client):
    async def scenario(fixture):
        client = await fixture.network_client()
        for node in (ANY_NODE, CONTROLLER):
            response = await client.send(node, DescribeClusterRequest())
            assert [broker.port for broker in response.brokers] == [9092]

    run_with_client(scenario)


def test_send_if_ready_sends_in_order(run_with_client, make_records):
    async def scenario(fixture):
        client = await fixture.network_client()
        await create(client, "letters", 1)
        topic = await client.wait_for_topic("letters", 5000)
        leader = topic.partitions[0].leader
        await client.wait_until_ready(leader, 5000)
        assert client.is_ready(leader)
        assert client.versions(leader)[0] == range(12)
        responses = []
        for value in (b"a", b"b", b"c"):
            parts = [PartitionProduceData(0, make_records(value))]
            request = ProduceRequest(None, -1, 1000, [TopicProduceData("letters", parts)])
            responses.append(client.send_if_ready(leader, request))
        offsets = [(await response).responses[0].partition_responses[0].base_offset for response in responses]
        assert offsets == [0, 1, 2]
        no_acks = ProduceRequest(None, 0, 1000, [TopicProduceData("letters", [])])
        assert await client.send_if_ready(leader, no_acks, expects_response=False) is None

    run_with_client(scenario)


def test_requests_in_flight_are_limited(run_with_client):
    async def scenario(fixture):
        client = await fixture.network_client()
        await client.await_update(0, 5000)
        node = client.metadata.controller_id
        await client.wait_until_ready(node, 5000)
        sent = [client.send_if_ready(node, DescribeClusterRequest()) for _ in range(6)]
        assert sent[-1] is None
        assert not client.is_ready(node)
        await client.wait_until_ready(node, 5000)
        assert all(future.done() for future in sent[:1])
        many = [client.send(node, DescribeClusterRequest()) for _ in range(20)]
        assert len(await asyncio.gather(*many)) == 20

    run_with_client(scenario)


@pytest.mark.parametrize("key_type", list(CoordinatorType))
def test_coordinator_is_cached_until_marked_unknown(run_with_client, key_type):
    async def scenario(fixture):
        client = await fixture.network_client()
        node = await client.coordinator(key_type, "some", 30_000)
        await client.wait_until_ready(node, 5000)
        assert await client.coordinator(key_type, "some", 0) == node
        client.mark_coordinator_unknown(key_type, "some")
        with pytest.raises(TimedOut, match="coordinator of some not found"):
            await client.coordinator(key_type, "some", 0)
        both = await client.coordinators(key_type, ["some", "more"], 5000)
        assert both == {"some": node, "more": node}

    run_with_client(scenario, INTERNAL_TOPICS)


def test_close_fails_pending_calls(run_with_client):
    async def scenario(fixture):
        client = await fixture.network_client()
        await client.await_update(0, 5000)
        node = client.metadata.controller_id
        await client.wait_until_ready(node, 5000)
        fixture.network.partition("client", "broker")
        waits = [
            asyncio.create_task(client.wait_for_topic("nowhere", 60_000)),
            asyncio.create_task(client.await_update(99, 60_000)),
            asyncio.create_task(client.send(node, DescribeClusterRequest())),
            asyncio.create_task(client.coordinator(CoordinatorType.GROUP, "g", 60_000)),
        ]
        await fixture.memory.clock.sleep_ms(100)
        await client.close()
        await client.close()
        for result in await asyncio.gather(*waits, return_exceptions=True):
            assert isinstance(result, ClientClosed)
        with pytest.raises(ClientClosed):
            await client.send(ANY_NODE, DescribeClusterRequest())
        with pytest.raises(ClientClosed):
            await client.start()
        fixture.network.heal()

    run_with_client(scenario)
