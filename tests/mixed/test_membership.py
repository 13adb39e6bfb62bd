"""Our broker in the metadata of the cluster, and settings that travel between the two kinds."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource
from kio.schema.metadata.v8 import request as metadata
from tests.mixed.harness.mixed_cluster import BROKERS, MixedCluster
from tests.mixed.harness.run_choice import KAFKA, OURS, others_than
from tests.mixed.harness.znodes import CONTROLLER
from tests.support.interbroker.clients import TOPIC_CONFIG, Clients
from tests.support.raw_connection import RawConnection

SECONDS_MAX = 30.0


def test_all_brokers_know_all_brokers_and_the_controller(cluster: MixedCluster) -> None:
    for broker in BROKERS:
        metadata = cluster.metadata(broker)
        assert metadata.brokers == frozenset(BROKERS)
        assert metadata.controller == cluster.znodes.controller()


def test_all_brokers_learn_of_a_new_topic(cluster: MixedCluster) -> None:
    # A client that knows our broker only finds the controller through it.
    Clients(cluster.address(OURS)).create_topic("membership", [[0, 1, 2], [1, 2, 0], [2, 0, 1]])
    for partition, leader in enumerate(BROKERS):
        cluster.wait_for_partition("membership", partition, leader=leader)


def request_topic(cluster: MixedCluster, broker: int, topic: str) -> None:
    """Send one Metadata request that creates a topic; clients would repeat it."""
    request = metadata.MetadataRequest(
        topics=(metadata.MetadataRequestTopic(name=topic),),  # type: ignore[arg-type]
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    with RawConnection(cluster.address(broker)) as connection:
        connection.exchange(request)


def test_our_broker_creates_topics_through_the_controller(cluster: MixedCluster) -> None:
    cluster.specs[OURS].settings["auto.create.topics.enable"] = "true"
    cluster.restart(OURS)
    request_topic(cluster, OURS, "auto-created")
    cluster.wait_for_partition("auto-created")


@pytest.mark.parametrize("broker", [OURS, KAFKA], ids=["ours", "kafka"])
def test_broker_creates_a_topic_although_the_controller_moves(cluster: MixedCluster, broker: int) -> None:
    """The controller resigns with the request in its socket, and the broker asks the next one."""
    topic = f"auto-created-{broker}"
    controller = others_than(broker)[0]
    cluster.specs[broker].settings["auto.create.topics.enable"] = "true"
    cluster.restart(broker)
    cluster.elect_controller(controller)
    with cluster.paused(controller):
        request_topic(cluster, broker, topic)
        cluster.znodes.delete(CONTROLLER)
        cluster.wait_until(lambda: cluster.znodes.controller() != controller)
    cluster.wait_for_partition(topic)


@pytest.mark.parametrize(("writer", "reader"), [(KAFKA, OURS), (OURS, KAFKA)], ids=["by-kafka", "by-odradek"])
def test_config_written_by_one_broker_is_applied_by_the_other(
    cluster: MixedCluster, clients: Clients, writer: int, reader: int
) -> None:
    topic = f"configured-{writer}"
    clients.create_topic(topic, [[0, 1, 2]])
    cluster.wait_for_partition(topic)
    clients.set_config(cluster.specs[writer].port, TOPIC_CONFIG, topic, "max.message.bytes", "600")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

    def described() -> str:
        resource = ConfigResource("topic", topic)
        (future,) = admin.describe_configs([resource], broker=reader).values()
        value: str = future.result(SECONDS_MAX)["max.message.bytes"].value
        return value

    cluster.wait_until(lambda: described() == "600")
