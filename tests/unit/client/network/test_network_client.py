"""A client's cluster against a whole broker in memory."""

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

OWN_TOPICS = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.min.isr": "1",
}
NO_AUTO_CREATION = {"auto.create.topics.enable": "false"}


async def create(cluster, name, partitions=2):
    request = CreateTopicsRequest([CreatableTopic(name, partitions, 1)], timeout_ms=5000)
    answer = await cluster.send(CONTROLLER, request)
    assert answer.topics[0].error_code == 0


def test_a_topic_is_known_once_it_was_asked_for(stage):
    async def scenario(town):
        cluster = await town.cluster()
        await create(cluster, "letters", 3)
        topic = await cluster.wait_for_topic("letters", 5000)
        assert [one.partition for one in topic.partitions] == [0, 1, 2]
        assert topic.available == (0, 1, 2)
        assert len(topic.topic_id) == 16
        assert cluster.metadata.cluster_id
        assert cluster.metadata.partitions_for("letters") == list(topic.partitions)
        leader, epoch = cluster.metadata.leader(("letters", 1))
        assert leader in cluster.metadata.nodes
        assert epoch == 0

    stage(scenario)


def test_only_topics_in_use_are_asked_for(stage):
    async def scenario(town):
        cluster = await town.cluster()
        await create(cluster, "one")
        await create(cluster, "other")
        await cluster.wait_for_topic("one", 5000)
        assert set(cluster.metadata.topics) == {"one"}
        cluster.track_only_topics(["other"])
        await cluster.wait_for_topic("other", 5000)
        await cluster.await_update(cluster.request_update(), 5000)
        assert set(cluster.metadata.topics) == {"other"}
        cluster.track_all_topics(True)
        await cluster.await_update(cluster.request_update(), 5000)
        assert set(cluster.metadata.topics) == {"one", "other"}

    stage(scenario)


def test_an_unknown_topic_is_waited_for_until_the_time_is_over(stage):
    async def scenario(town):
        cluster = await town.cluster()
        with pytest.raises(UnknownTopic, match="nowhere is not there after 3000 ms"):
            await cluster.wait_for_topic("nowhere", 3000)
        waiting = asyncio.create_task(cluster.wait_for_topic("late", 60_000))
        await town.memory.clock.sleep_ms(2000)
        await create(cluster, "late")
        assert (await waiting).name == "late"

    stage(scenario, NO_AUTO_CREATION)


def test_a_partition_that_the_topic_does_not_have_fails_after_one_refresh(stage):
    async def scenario(town):
        cluster = await town.cluster()
        await create(cluster, "narrow", 1)
        assert (await cluster.wait_for_topic("narrow", 1000, partition=0)).name == "narrow"
        begun_ms = town.memory.clock.monotonic_ms()
        with pytest.raises(UnknownTopic, match="topic narrow has 1 partition, got partition 4"):
            await cluster.wait_for_topic("narrow", 60_000, partition=4)
        assert town.memory.clock.monotonic_ms() - begun_ms < 1500

    stage(scenario)


def test_a_partition_that_was_added_is_found_by_the_refresh(stage):
    async def scenario(town):
        cluster = await town.cluster()
        await create(cluster, "narrow", 1)
        await cluster.wait_for_topic("narrow", 1000)
        wider = CreatePartitionsTopic("narrow", 3, None)
        answer = await cluster.send(CONTROLLER, CreatePartitionsRequest([wider], 5000))
        assert answer.results[0].error_code == 0
        assert len((await cluster.wait_for_topic("narrow", 60_000, partition=2)).partitions) == 3

    stage(scenario)


def test_hosts_that_do_not_exist_are_named_at_once(stage):
    async def scenario(town):
        town.network.unknown_hosts |= {"nowhere", "elsewhere"}
        cluster = await town.cluster({BOOTSTRAP_SERVERS: ("nowhere:9092", "elsewhere:9093")})
        begun_ms = town.memory.clock.monotonic_ms()
        with pytest.raises(UnresolvedBootstrap, match=r"nowhere:9092.*elsewhere:9093|elsewhere.*nowhere"):
            await cluster.wait_for_topic("letters", 60_000)
        with pytest.raises(UnresolvedBootstrap, match=r"no host in bootstrap.servers resolves"):
            await cluster.coordinator(CoordinatorType.GROUP, "readers", 60_000)
        with pytest.raises(UnresolvedBootstrap):
            await cluster.send(CONTROLLER, DescribeClusterRequest(), timeout_ms=60_000)
        assert town.memory.clock.monotonic_ms() - begun_ms < 4000

    stage(scenario)


def test_a_host_that_is_known_later_is_found(stage):
    async def scenario(town):
        town.network.unknown_hosts.add("broker")
        cluster = await town.cluster()
        with pytest.raises(UnresolvedBootstrap):
            await cluster.wait_for_topic("letters", 60_000)
        town.network.unknown_hosts.clear()
        assert (await cluster.wait_for_topic("letters", 60_000)).name == "letters"

    stage(scenario)


def test_a_refused_connection_beside_a_host_that_does_not_exist_is_tried_until_the_time_is_over(stage):
    async def scenario(town):
        town.network.unknown_hosts.add("nowhere")
        cluster = await town.cluster({BOOTSTRAP_SERVERS: ("nowhere:9092", "starting:9092")})
        begun_ms = town.memory.clock.monotonic_ms()
        with pytest.raises(
            TimedOut, match=r"Connection failed: (Connection refused|host 'nowhere' does not)"
        ):
            await cluster.wait_for_topic("letters", 20_000)
        assert town.memory.clock.monotonic_ms() - begun_ms >= 20_000

    stage(scenario)


def test_a_broker_of_the_cluster_whose_host_vanishes_is_tried_until_the_time_is_over(stage):
    """Names of brokers that restart come and go where names follow processes, as in Kubernetes."""

    async def scenario(town):
        cluster = await town.cluster()
        await create(cluster, "letters", 1)
        (node_id,) = cluster.metadata.nodes
        town.network.unknown_hosts.add("broker")
        town.network.reset_all(CLIENT_HOST)
        with pytest.raises(ConnectionFailed, match="host 'broker' does not resolve") as caught:
            await cluster.send(node_id, DescribeClusterRequest())
        assert caught.value.retriable
        assert not isinstance(caught.value, UnresolvedBootstrap)
        town.network.unknown_hosts.clear()
        await cluster.await_update(cluster.request_update(), 10_000)

    stage(scenario)


def test_an_invalid_topic_fails_at_once(stage):
    async def scenario(town):
        cluster = await town.cluster()
        began_ms = town.memory.clock.monotonic_ms()
        with pytest.raises(RequestRefused, match="INVALID_TOPIC"):
            await cluster.wait_for_topic("not/a/name", 60_000)
        assert town.memory.clock.monotonic_ms() - began_ms < 1000

    stage(scenario)


def test_an_answer_to_any_node_and_the_controller(stage):
    async def scenario(town):
        cluster = await town.cluster()
        for node in (ANY_NODE, CONTROLLER):
            answer = await cluster.send(node, DescribeClusterRequest())
            assert [one.port for one in answer.brokers] == [9092]

    stage(scenario)


def test_requests_leave_at_once_when_a_broker_is_ready(stage, make_records):
    async def scenario(town):
        cluster = await town.cluster()
        await create(cluster, "letters", 1)
        topic = await cluster.wait_for_topic("letters", 5000)
        leader = topic.partitions[0].leader
        await cluster.wait_until_ready(leader, 5000)
        assert cluster.is_ready(leader)
        assert cluster.versions(leader)[0] == range(12)
        answers = []
        for value in (b"a", b"b", b"c"):
            parts = [PartitionProduceData(0, make_records(value))]
            request = ProduceRequest(None, -1, 1000, [TopicProduceData("letters", parts)])
            answers.append(cluster.send_if_ready(leader, request))
        offsets = [(await one).responses[0].partition_responses[0].base_offset for one in answers]
        assert offsets == [0, 1, 2]
        quiet = ProduceRequest(None, 0, 1000, [TopicProduceData("letters", [])])
        assert await cluster.send_if_ready(leader, quiet, expects_response=False) is None

    stage(scenario)


def test_no_more_than_so_many_requests_are_under_way(stage):
    async def scenario(town):
        cluster = await town.cluster()
        await cluster.await_update(0, 5000)
        node = cluster.metadata.controller_id
        await cluster.wait_until_ready(node, 5000)
        begun = [cluster.send_if_ready(node, DescribeClusterRequest()) for _ in range(6)]
        assert begun[-1] is None
        assert not cluster.is_ready(node)
        await cluster.wait_until_ready(node, 5000)
        assert all(one.done() for one in begun[:1])
        many = [cluster.send(node, DescribeClusterRequest()) for _ in range(20)]
        assert len(await asyncio.gather(*many)) == 20

    stage(scenario)


@pytest.mark.parametrize("kind", list(CoordinatorType))
def test_a_coordinator_is_found_kept_and_forgotten(stage, kind):
    async def scenario(town):
        cluster = await town.cluster()
        node = await cluster.coordinator(kind, "some", 30_000)
        await cluster.wait_until_ready(node, 5000)
        assert await cluster.coordinator(kind, "some", 0) == node
        cluster.mark_coordinator_unknown(kind, "some")
        with pytest.raises(TimedOut, match="no coordinator of some"):
            await cluster.coordinator(kind, "some", 0)
        both = await cluster.coordinators(kind, ["some", "more"], 5000)
        assert both == {"some": node, "more": node}

    stage(scenario, OWN_TOPICS)


def test_whatever_waits_when_a_cluster_is_closed_is_told(stage):
    async def scenario(town):
        cluster = await town.cluster()
        await cluster.await_update(0, 5000)
        node = cluster.metadata.controller_id
        await cluster.wait_until_ready(node, 5000)
        town.network.part("client", "broker")
        waits = [
            asyncio.create_task(cluster.wait_for_topic("nowhere", 60_000)),
            asyncio.create_task(cluster.await_update(99, 60_000)),
            asyncio.create_task(cluster.send(node, DescribeClusterRequest())),
            asyncio.create_task(cluster.coordinator(CoordinatorType.GROUP, "g", 60_000)),
        ]
        await town.memory.clock.sleep_ms(100)
        await cluster.close()
        await cluster.close()
        for outcome in await asyncio.gather(*waits, return_exceptions=True):
            assert isinstance(outcome, ClientClosed)
        with pytest.raises(ClientClosed):
            await cluster.send(ANY_NODE, DescribeClusterRequest())
        with pytest.raises(ClientClosed):
            await cluster.start()
        town.network.heal()

    stage(scenario)
