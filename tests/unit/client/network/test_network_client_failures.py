"""Network client with unavailable, restarting and moving brokers."""

from __future__ import annotations

import asyncio
import math

import pytest
from tests.support.simulation.broker_releases import RELEASES, ReleaseProxy

from odradek.client.network.metadata import ClusterMetadata
from odradek.client.network.network_client import ANY_NODE, CONTROLLER, CoordinatorType
from odradek.client.values import Node
from odradek.config.client.connection import (
    ALLOW_AUTO_CREATE_TOPICS,
    BOOTSTRAP_SERVERS,
    CONNECTIONS_MAX_IDLE_MS,
    METADATA_MAX_AGE_MS,
    METADATA_MAX_IDLE_MS,
    METADATA_RECOVERY_STRATEGY,
)
from odradek.model.client_errors import ClientClosed, ConnectionFailed, TimedOut, UnknownTopic
from odradek.model.ids import TopicPartition
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.list_groups import ListGroupsRequest

LETTERS = TopicPartition("letters", 0)


async def create(client, name, partitions=1):
    request = CreateTopicsRequest([CreatableTopic(name, partitions, 1)], timeout_ms=5000)
    assert (await client.send(CONTROLLER, request)).topics[0].error_code == 0


def test_timeout_names_the_unreachable_bootstrap_server_and_the_cause(run_with_client):
    async def scenario(fixture):
        client = await fixture.network_client({BOOTSTRAP_SERVERS: ("nobody:9092",)})
        with pytest.raises(
            TimedOut, match=r"metadata not updated within 2000 ms: .*Connection refused.*nobody:9092"
        ):
            await client.await_update(0, 2000)
        with pytest.raises(
            TimedOut, match=r"topic letters not present in metadata after 2000 ms: .*nobody:9092"
        ):
            await client.wait_for_topic("letters", 2000)
        with pytest.raises(ConnectionFailed, match="nobody:9092"):
            await client.send(ANY_NODE, ListGroupsRequest())
        with pytest.raises(TimedOut, match=r"coordinator of g not found within 2000 ms: .*nobody:9092"):
            await client.coordinator(CoordinatorType.GROUP, "g", 2000)

    run_with_client(scenario)


def test_timeout_names_the_broker_that_does_not_respond(run_with_client):
    async def scenario(fixture):
        fixture.network.partition("client", "broker")
        client = await fixture.network_client()
        with pytest.raises(
            TimedOut, match=r"topic letters not present in metadata after 500 ms .*broker:9092"
        ):
            await client.wait_for_topic("letters", 500)
        with pytest.raises(TimedOut, match=r"metadata not updated within 500 ms .*broker:9092"):
            await client.await_update(0, 500)

    run_with_client(scenario)


def test_requests_fail_after_the_event_loop_has_ended(run_with_client):
    async def scenario(fixture):
        client = await fixture.network_client()
        await client.await_update(0, 5000)
        client._task.cancel()  # as at the end of a loop
        await asyncio.sleep(0.01)
        with pytest.raises(ClientClosed, match="event loop of this client ended"):
            await client.send(ANY_NODE, ListGroupsRequest())
        with pytest.raises(ClientClosed, match="event loop of this client ended"):
            await client.start()

    run_with_client(scenario)


def test_one_reachable_bootstrap_server_is_enough(run_with_client):
    async def scenario(fixture):
        addresses = ("nobody:9092", "broker:1", "broker:9092")
        client = await fixture.network_client({BOOTSTRAP_SERVERS: addresses})
        await client.await_update(0, 5000)
        assert fixture.memory.clock.monotonic_ms() < 1000

    run_with_client(scenario)


@pytest.mark.parametrize("addresses", [("nobody:9092", "broker:9092"), ("broker:9092", "nobody:9092")])
def test_request_to_any_node_fails_over_to_another_broker(run_with_client, addresses):
    async def scenario(fixture):
        client = await fixture.network_client({BOOTSTRAP_SERVERS: addresses})
        assert (await client.send(ANY_NODE, ListGroupsRequest())).error_code == 0

    run_with_client(scenario)


def test_update_requested_during_a_request_waits_for_the_next_response(run_with_client):
    async def scenario(fixture):
        client = await fixture.network_client()
        await client.await_update(0, 5000)
        assert client.request_update() == 1
        fixture.network.partition("client", "broker")
        await fixture.memory.clock.sleep_ms(500)
        last_version = client.request_update()
        fixture.network.heal()
        assert (await client.await_update(last_version, 60_000)).version == last_version + 1 == 3

    run_with_client(scenario)


def test_unresponsive_bootstrap_server_does_not_block_the_others(run_with_client):
    async def scenario(fixture):
        fixture.network.partition("client", "silent")
        client = await fixture.network_client({BOOTSTRAP_SERVERS: ("silent:9092", "broker:9092")})
        await client.await_update(0, 30_000)

    run_with_client(scenario)


def test_bootstrap_connection_is_replaced_by_the_connection_to_the_node(run_with_client):
    async def scenario(fixture):
        client = await fixture.network_client()
        await client.await_update(0, 5000)
        assert fixture.connections() == []
        await client.send(client.metadata.controller_id, ListGroupsRequest())
        assert len(fixture.connections()) == 1

    run_with_client(scenario)


def test_client_survives_a_broker_restart(run_with_client):
    async def scenario(fixture):
        client = await fixture.network_client()
        await create(client, "letters")
        topic = await client.wait_for_topic("letters", 5000)
        leader = topic.partitions[0].leader
        await client.send(leader, ListGroupsRequest())
        await fixture.broker.kill()
        with pytest.raises(ConnectionFailed):
            await client.send(leader, ListGroupsRequest())
        await fixture.memory.clock.sleep_ms(5000)
        fixture.broker = await fixture.memory.start()
        try:
            await client.await_update(client.request_update(), 30_000)
            assert (await client.wait_for_topic("letters", 5000)).topic_id == topic.topic_id
            await client.send(leader, ListGroupsRequest())
        finally:
            await client.close()
            await fixture.broker.stop()

    run_with_client(scenario)


def test_lost_connection_triggers_a_metadata_update(run_with_client):
    async def scenario(fixture):
        client = await fixture.network_client()
        await client.await_update(0, 5000)
        await client.send(client.metadata.controller_id, ListGroupsRequest())
        before = client.metadata.version
        for connection in list(fixture.network.connections):
            connection.reset()
        await client.await_update(before, 5000)

    run_with_client(scenario)


def test_metadata_is_updated_after_metadata_max_age_and_not_before(run_with_client):
    async def scenario(fixture):
        client = await fixture.network_client({METADATA_MAX_AGE_MS: 60_000})
        await client.await_update(0, 5000)
        await fixture.memory.clock.sleep_ms(55_000)
        assert client.metadata.version == 1
        await fixture.memory.clock.sleep_ms(6000)
        assert client.metadata.version == 2
        await fixture.memory.clock.sleep_ms(60_000)
        assert client.metadata.version == 3

    run_with_client(scenario)


def test_idle_topics_expire_from_metadata(run_with_client):
    async def scenario(fixture):
        client = await fixture.network_client({METADATA_MAX_AGE_MS: 10_000, METADATA_MAX_IDLE_MS: 30_000})
        await create(client, "busy")
        await create(client, "quiet")
        for name in ("busy", "quiet"):
            await client.wait_for_topic(name, 5000, expires=True)
        for _ in range(5):
            await fixture.memory.clock.sleep_ms(10_000)
            client.track_topics(["busy"], expires=True)
        assert set(client.metadata.topics) == {"busy"}
        assert (await client.wait_for_topic("quiet", 5000, expires=True)).name == "quiet"

    run_with_client(scenario)


@pytest.mark.parametrize("allowed", [True, False])
def test_metadata_request_creates_a_topic_only_if_auto_creation_is_allowed(run_with_client, allowed):
    async def scenario(fixture):
        client = await fixture.network_client({ALLOW_AUTO_CREATE_TOPICS: allowed})
        if allowed:
            assert (await client.wait_for_topic("letters", 5000)).name == "letters"
        else:
            with pytest.raises(UnknownTopic):
                await client.wait_for_topic("letters", 5000)

    run_with_client(scenario)


def test_recreated_topic_replaces_the_old_metadata(run_with_client):
    async def scenario(fixture):
        client = await fixture.network_client()
        await create(client, "letters")
        first = await client.wait_for_topic("letters", 5000)
        assert client.update_leader(LETTERS, first.partitions[0].leader, 7)
        deletion = DeleteTopicsRequest([DeleteTopicState("letters")], timeout_ms=5000)
        assert (await client.send(CONTROLLER, deletion)).responses[0].error_code == 0
        await create(client, "letters", 2)
        await client.await_update(client.request_update(), 5000)
        second = await client.wait_for_topic("letters", 5000)
        assert second.topic_id != first.topic_id
        assert [partition.leader_epoch for partition in second.partitions] == [0, 0]

    run_with_client(scenario, {"auto.create.topics.enable": "false"})


def test_update_leader_requires_a_newer_leader_epoch(run_with_client):
    async def scenario(fixture):
        client = await fixture.network_client()
        topic = await client.wait_for_topic("letters", 5000)
        node = topic.partitions[0].leader
        seen: list[ClusterMetadata] = []
        client.add_listener(seen.append)
        assert not client.update_leader(LETTERS, 77, 9)
        assert not client.update_leader(LETTERS, node, 0)
        assert client.update_leader(LETTERS, 77, 3, [Node(77, "broker", 9092)])
        assert client.metadata.leader(LETTERS) == (77, 3)
        assert seen == [client.metadata]
        await client.wait_until_ready(77, 5000)
        # The response of a broker with older metadata does not undo it.
        await client.await_update(client.request_update(), 5000)
        assert client.metadata.leader(LETTERS) == (77, 3)
        client.remove_listener(seen.append)

    run_with_client(scenario)


def test_newer_leader_epoch_triggers_a_metadata_update(run_with_client):
    async def scenario(fixture):
        client = await fixture.network_client()
        await client.wait_for_topic("letters", 5000)
        before = client.metadata.version
        assert not client.observe_leader_epoch(LETTERS, 0)
        assert not client.observe_leader_epoch(TopicPartition("unheard", 0), 5)
        assert client.observe_leader_epoch(LETTERS, 1)
        await client.await_update(before, 5000)

    run_with_client(scenario)


def test_removed_brokers_are_disconnected(run_with_client):
    async def scenario(fixture):
        client = await fixture.network_client()
        await client.wait_for_topic("letters", 5000)
        client.update_leader(LETTERS, 77, 3, [Node(77, "broker", 9092)])
        await client.wait_until_ready(77, 5000)
        await client.await_update(client.request_update(), 5000)
        with pytest.raises(ConnectionFailed, match="the cluster has no broker 77"):
            await client.send(77, ListGroupsRequest())

    run_with_client(scenario)


@pytest.mark.parametrize("strategy", ["none", "rebootstrap"])
def test_bootstrap_servers_are_used_again_when_all_brokers_are_unreachable(run_with_client, strategy):
    async def scenario(fixture):
        front = ReleaseProxy(fixture.network, "front", RELEASES["2.8"], ("broker", 9092))
        await front.listen(9092)
        client = await fixture.network_client(
            {BOOTSTRAP_SERVERS: ("front:9092",), METADATA_RECOVERY_STRATEGY: strategy}
        )
        await client.send(CONTROLLER, ListGroupsRequest())
        fixture.network.partition("client", "broker")
        for connection in list(fixture.network.connections):
            connection.reset()
        last_version = client.request_update()
        if strategy == "rebootstrap":
            await client.await_update(last_version, 60_000)
        else:
            with pytest.raises(TimedOut):
                await client.await_update(last_version, 60_000)
        await client.close()
        fixture.network.heal()
        front.close()
        await asyncio.sleep(1)

    run_with_client(scenario)


def test_idle_connections_are_closed_and_reopened(run_with_client):
    async def scenario(fixture):
        client = await fixture.network_client({CONNECTIONS_MAX_IDLE_MS: 1000})
        await client.send(CONTROLLER, ListGroupsRequest())
        assert len(fixture.connections()) == 1
        await fixture.memory.clock.sleep_ms(3000)
        assert fixture.connections() == []
        await client.send(CONTROLLER, ListGroupsRequest())

    run_with_client(scenario)


def test_network_delays_and_split_packets_are_tolerated(run_with_client):
    async def scenario(fixture):
        client = await fixture.network_client()
        topic = await client.wait_for_topic("letters", 30_000)
        responses = [client.send(topic.partitions[0].leader, ListGroupsRequest()) for _ in range(20)]
        assert len(await asyncio.gather(*responses)) == 20

    run_with_client(scenario, delay_max_ms=20, splits=True)


def test_connection_metrics(run_with_client):
    async def scenario(fixture):
        client = await fixture.network_client()
        assert math.isnan(client.metrics.read()["request-latency-avg"])
        await client.send(CONTROLLER, ListGroupsRequest())
        await fixture.memory.clock.sleep_ms(2000)
        metrics = client.metrics.read()
        assert metrics["connection-count"] == 1
        assert metrics["connection-creation-total"] == 2
        assert metrics["connection-close-total"] == 1
        assert metrics["request-total"] == metrics["response-total"] == 4
        assert metrics["outgoing-byte-total"] > 0 < metrics["incoming-byte-total"]
        assert metrics["request-latency-avg"] <= metrics["request-latency-max"]
        assert 2 <= metrics["metadata-age"] < 3
        assert all(client.metrics.descriptions[name] for name in metrics)

    run_with_client(scenario)


def test_failing_listener_does_not_stop_metadata_updates(run_with_client, caplog):
    async def scenario(fixture):
        client = await fixture.network_client()

        def broken(metadata):
            raise LookupError("mine")

        client.add_listener(broken)
        await fixture.memory.clock.sleep_ms(1000)
        client.remove_listener(broken)
        await client.wait_for_topic("letters", 5000)
        assert "metadata_updater_failed" in caplog.text

    run_with_client(scenario)
