"""A client's cluster when brokers are away, restart, move, or throttle."""

from __future__ import annotations

import asyncio
import math

import pytest
from tests.support.simulation.broker_releases import RELEASES, ReleaseProxy

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


async def create(cluster, name, partitions=1):
    request = CreateTopicsRequest([CreatableTopic(name, partitions, 1)], timeout_ms=5000)
    assert (await cluster.send(CONTROLLER, request)).topics[0].error_code == 0


def test_a_cluster_that_cannot_be_reached_is_said_with_its_reason(stage):
    async def scenario(town):
        cluster = await town.cluster({BOOTSTRAP_SERVERS: ("nobody:9092",)})
        with pytest.raises(TimedOut, match=r"no metadata within 2000 ms: .*Connection refused.*nobody:9092"):
            await cluster.await_update(0, 2000)
        with pytest.raises(TimedOut, match=r"topic letters within 2000 ms: .*nobody:9092"):
            await cluster.wait_for_topic("letters", 2000)
        with pytest.raises(ConnectionFailed, match="nobody:9092"):
            await cluster.send(ANY_NODE, ListGroupsRequest())
        with pytest.raises(TimedOut, match=r"no coordinator of g within 2000 ms: .*nobody:9092"):
            await cluster.coordinator(CoordinatorType.GROUP, "g", 2000)

    stage(scenario)


def test_a_broker_that_says_nothing_is_named(stage):
    async def scenario(town):
        town.network.part("client", "broker")
        cluster = await town.cluster()
        with pytest.raises(TimedOut, match=r"no metadata of topic letters within 500 ms .*broker:9092"):
            await cluster.wait_for_topic("letters", 500)
        with pytest.raises(TimedOut, match=r"no metadata within 500 ms .*broker:9092"):
            await cluster.await_update(0, 500)

    stage(scenario)


def test_a_client_whose_event_loop_has_ended_says_so(stage):
    async def scenario(town):
        cluster = await town.cluster()
        await cluster.await_update(0, 5000)
        cluster._task.cancel()  # as a loop does that ends
        await asyncio.sleep(0.01)
        with pytest.raises(ClientClosed, match="event loop of this client has ended"):
            await cluster.send(ANY_NODE, ListGroupsRequest())
        with pytest.raises(ClientClosed, match="event loop of this client has ended"):
            await cluster.start()

    stage(scenario)


def test_any_address_to_begin_with_will_do(stage):
    async def scenario(town):
        addresses = ("nobody:9092", "broker:1", "broker:9092")
        cluster = await town.cluster({BOOTSTRAP_SERVERS: addresses})
        await cluster.await_update(0, 5000)
        assert town.memory.clock.monotonic_ms() < 1000

    stage(scenario)


@pytest.mark.parametrize("addresses", [("nobody:9092", "broker:9092"), ("broker:9092", "nobody:9092")])
def test_one_call_asks_another_broker_if_the_first_is_away(stage, addresses):
    async def scenario(town):
        cluster = await town.cluster({BOOTSTRAP_SERVERS: addresses})
        assert (await cluster.send(ANY_NODE, ListGroupsRequest())).error_code == 0

    stage(scenario)


def test_an_answer_under_way_is_not_the_one_that_is_asked_for(stage):
    async def scenario(town):
        cluster = await town.cluster()
        await cluster.await_update(0, 5000)
        assert cluster.request_update() == 1
        town.network.part("client", "broker")
        await town.memory.clock.sleep_ms(500)
        beyond = cluster.request_update()
        town.network.heal()
        assert (await cluster.await_update(beyond, 60_000)).version == beyond + 1 == 3

    stage(scenario)


def test_a_silent_address_does_not_keep_others_from_being_asked(stage):
    async def scenario(town):
        town.network.part("client", "silent")
        cluster = await town.cluster({BOOTSTRAP_SERVERS: ("silent:9092", "broker:9092")})
        await cluster.await_update(0, 30_000)

    stage(scenario)


def test_the_first_connection_is_given_up_for_that_of_the_node(stage):
    async def scenario(town):
        cluster = await town.cluster()
        await cluster.await_update(0, 5000)
        assert town.connections() == []
        await cluster.send(cluster.metadata.controller_id, ListGroupsRequest())
        assert len(town.connections()) == 1

    stage(scenario)


def test_a_client_outlives_a_restart_of_its_broker(stage):
    async def scenario(town):
        cluster = await town.cluster()
        await create(cluster, "letters")
        topic = await cluster.wait_for_topic("letters", 5000)
        leader = topic.partitions[0].leader
        await cluster.send(leader, ListGroupsRequest())
        await town.broker.kill()
        with pytest.raises(ConnectionFailed):
            await cluster.send(leader, ListGroupsRequest())
        await town.memory.clock.sleep_ms(5000)
        town.broker = await town.memory.start()
        try:
            await cluster.await_update(cluster.request_update(), 30_000)
            assert (await cluster.wait_for_topic("letters", 5000)).topic_id == topic.topic_id
            await cluster.send(leader, ListGroupsRequest())
        finally:
            await cluster.close()
            await town.broker.stop()

    stage(scenario)


def test_a_lost_connection_is_a_reason_to_ask_for_metadata(stage):
    async def scenario(town):
        cluster = await town.cluster()
        await cluster.await_update(0, 5000)
        await cluster.send(cluster.metadata.controller_id, ListGroupsRequest())
        before = cluster.metadata.version
        for line in list(town.network.connections):
            line.reset()
        await cluster.await_update(before, 5000)

    stage(scenario)


def test_metadata_is_asked_for_again_when_it_is_old_and_not_before(stage):
    async def scenario(town):
        cluster = await town.cluster({METADATA_MAX_AGE_MS: 60_000})
        await cluster.await_update(0, 5000)
        await town.memory.clock.sleep_ms(55_000)
        assert cluster.metadata.version == 1
        await town.memory.clock.sleep_ms(6000)
        assert cluster.metadata.version == 2
        await town.memory.clock.sleep_ms(60_000)
        assert cluster.metadata.version == 3

    stage(scenario)


def test_topics_that_nobody_names_any_more_are_not_asked_for(stage):
    async def scenario(town):
        cluster = await town.cluster({METADATA_MAX_AGE_MS: 10_000, METADATA_MAX_IDLE_MS: 30_000})
        await create(cluster, "busy")
        await create(cluster, "quiet")
        for name in ("busy", "quiet"):
            await cluster.wait_for_topic(name, 5000, expires=True)
        for _ in range(5):
            await town.memory.clock.sleep_ms(10_000)
            cluster.track_topics(["busy"], expires=True)
        assert set(cluster.metadata.topics) == {"busy"}
        assert (await cluster.wait_for_topic("quiet", 5000, expires=True)).name == "quiet"

    stage(scenario)


@pytest.mark.parametrize("allowed", [True, False])
def test_asking_about_a_topic_makes_it_only_if_that_is_allowed(stage, allowed):
    async def scenario(town):
        cluster = await town.cluster({ALLOW_AUTO_CREATE_TOPICS: allowed})
        if allowed:
            assert (await cluster.wait_for_topic("letters", 5000)).name == "letters"
        else:
            with pytest.raises(UnknownTopic):
                await cluster.wait_for_topic("letters", 5000)

    stage(scenario)


def test_a_topic_made_anew_replaces_the_one_before(stage):
    async def scenario(town):
        cluster = await town.cluster()
        await create(cluster, "letters")
        first = await cluster.wait_for_topic("letters", 5000)
        assert cluster.update_leader(LETTERS, first.partitions[0].leader, 7)
        deletion = DeleteTopicsRequest([DeleteTopicState("letters")], timeout_ms=5000)
        assert (await cluster.send(CONTROLLER, deletion)).responses[0].error_code == 0
        await create(cluster, "letters", 2)
        await cluster.await_update(cluster.request_update(), 5000)
        second = await cluster.wait_for_topic("letters", 5000)
        assert second.topic_id != first.topic_id
        assert [one.leader_epoch for one in second.partitions] == [0, 0]

    stage(scenario, {"auto.create.topics.enable": "false"})


def test_a_leader_named_in_passing_is_believed_if_its_epoch_is_later(stage):
    async def scenario(town):
        cluster = await town.cluster()
        topic = await cluster.wait_for_topic("letters", 5000)
        node = topic.partitions[0].leader
        seen = []
        cluster.add_listener(seen.append)
        assert not cluster.update_leader(LETTERS, 77, 9)
        assert not cluster.update_leader(LETTERS, node, 0)
        assert cluster.update_leader(LETTERS, 77, 3, [Node(77, "broker", 9092)])
        assert cluster.metadata.leader(LETTERS) == (77, 3)
        assert seen == [cluster.metadata]
        await cluster.wait_until_ready(77, 5000)
        # A broker that has not heard of it yet does not turn it back.
        await cluster.await_update(cluster.request_update(), 5000)
        assert cluster.metadata.leader(LETTERS) == (77, 3)
        cluster.remove_listener(seen.append)

    stage(scenario)


def test_a_later_epoch_seen_is_a_reason_to_ask_for_metadata(stage):
    async def scenario(town):
        cluster = await town.cluster()
        await cluster.wait_for_topic("letters", 5000)
        before = cluster.metadata.version
        assert not cluster.observe_leader_epoch(LETTERS, 0)
        assert not cluster.observe_leader_epoch(TopicPartition("unheard", 0), 5)
        assert cluster.observe_leader_epoch(LETTERS, 1)
        await cluster.await_update(before, 5000)

    stage(scenario)


def test_brokers_that_left_are_disconnected(stage):
    async def scenario(town):
        cluster = await town.cluster()
        await cluster.wait_for_topic("letters", 5000)
        cluster.update_leader(LETTERS, 77, 3, [Node(77, "broker", 9092)])
        await cluster.wait_until_ready(77, 5000)
        await cluster.await_update(cluster.request_update(), 5000)
        with pytest.raises(ConnectionFailed, match="The cluster has no broker 77"):
            await cluster.send(77, ListGroupsRequest())

    stage(scenario)


@pytest.mark.parametrize("strategy", ["none", "rebootstrap"])
def test_when_all_known_brokers_are_gone_the_first_addresses_count_again(stage, strategy):
    async def scenario(town):
        front = ReleaseProxy(town.network, "front", RELEASES["2.8"], ("broker", 9092))
        await front.listen(9092)
        cluster = await town.cluster(
            {BOOTSTRAP_SERVERS: ("front:9092",), METADATA_RECOVERY_STRATEGY: strategy}
        )
        await cluster.send(CONTROLLER, ListGroupsRequest())
        town.network.part("client", "broker")
        for line in list(town.network.connections):
            line.reset()
        beyond = cluster.request_update()
        if strategy == "rebootstrap":
            await cluster.await_update(beyond, 60_000)
        else:
            with pytest.raises(TimedOut):
                await cluster.await_update(beyond, 60_000)
        await cluster.close()
        town.network.heal()
        front.close()
        await asyncio.sleep(1)

    stage(scenario)


def test_idle_connections_are_closed_and_made_again(stage):
    async def scenario(town):
        cluster = await town.cluster({CONNECTIONS_MAX_IDLE_MS: 1000})
        await cluster.send(CONTROLLER, ListGroupsRequest())
        assert len(town.connections()) == 1
        await town.memory.clock.sleep_ms(3000)
        assert town.connections() == []
        await cluster.send(CONTROLLER, ListGroupsRequest())

    stage(scenario)


def test_a_line_with_delays_and_pieces_changes_nothing(stage):
    async def scenario(town):
        cluster = await town.cluster()
        topic = await cluster.wait_for_topic("letters", 30_000)
        asked = [cluster.send(topic.partitions[0].leader, ListGroupsRequest()) for _ in range(20)]
        assert len(await asyncio.gather(*asked)) == 20

    stage(scenario, delay_max_ms=20, splits=True)


def test_meters_tell_what_went_over_the_lines(stage):
    async def scenario(town):
        cluster = await town.cluster()
        assert math.isnan(cluster.metrics.read()["request-latency-avg"])
        await cluster.send(CONTROLLER, ListGroupsRequest())
        await town.memory.clock.sleep_ms(2000)
        found = cluster.metrics.read()
        assert found["connection-count"] == 1
        assert found["connection-creation-total"] == 2
        assert found["connection-close-total"] == 1
        assert found["request-total"] == found["response-total"] == 4
        assert found["outgoing-byte-total"] > 0 < found["incoming-byte-total"]
        assert found["request-latency-avg"] <= found["request-latency-max"]
        assert 2 <= found["metadata-age"] < 3
        assert all(cluster.metrics.meanings[name] for name in found)

    stage(scenario)


def test_a_listener_that_breaks_does_not_end_the_asking(stage, caplog):
    async def scenario(town):
        cluster = await town.cluster()

        def broken(metadata):
            raise LookupError("mine")

        cluster.add_listener(broken)
        await town.memory.clock.sleep_ms(1000)
        cluster.remove_listener(broken)
        await cluster.wait_for_topic("letters", 5000)
        assert "metadata_updater_failed" in caplog.text

    stage(scenario)
