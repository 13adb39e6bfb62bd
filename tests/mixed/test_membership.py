"""Our broker in the metadata of a cluster that Kafka controls."""

from tests.mixed.mixed_cluster import BROKERS, KAFKA, MixedCluster
from tests.support.interbroker.clients import Clients


def test_all_brokers_know_all_brokers_and_the_controller_of_kafka(cluster: MixedCluster) -> None:
    for broker in BROKERS:
        metadata = cluster.metadata(broker)
        assert metadata.brokers == frozenset(BROKERS)
        assert metadata.controller in KAFKA


def test_all_brokers_learn_of_a_new_topic(cluster: MixedCluster, clients: Clients) -> None:
    clients.create_topic("membership", [[0, 1, 2], [1, 2, 0], [2, 0, 1]])
    for partition, leader in enumerate(BROKERS):
        cluster.wait_for_partition("membership", partition, leader=leader)
