"""Network client with brokers of other Kafka releases."""

from __future__ import annotations

import pytest
from tests.support.simulation.broker_releases import RELEASES, ReleaseProxy
from tests.support.simulation.client_fixture import client_environment, connection_settings

from odradek.client.network.network_client import ANY_NODE, CONTROLLER, CoordinatorType, NetworkClient
from odradek.config.client.connection import BOOTSTRAP_SERVERS
from odradek.model.client_errors import UnsupportedVersion
from odradek.net.api_versions import RequestBuilder
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.describe_cluster import DescribeClusterRequest
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

BROKER = {
    "advertised.listeners": "PLAINTEXT://disguised:9092",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
}
CLIENT_VERSION_MAX = {0: 11, 1: 17, 3: 12, 10: 6, 19: 7}


@pytest.fixture(scope="session")
def with_release(run_with_client):
    """Run a scenario with a broker that has the API versions of a release."""

    def run(release, scenario):
        async def main(fixture):
            proxy = ReleaseProxy(fixture.network, "disguised", RELEASES[release], ("broker", 9092))
            await proxy.listen(9092)
            settings = connection_settings({BOOTSTRAP_SERVERS: ("disguised:9092",)})
            client = NetworkClient(
                client_environment(fixture.network, fixture.memory.clock), settings, client_id="tester"
            )
            await client.start()
            try:
                await scenario(client, proxy)
                assert proxy.refused == []
            finally:
                await client.close()
                proxy.close()

        run_with_client(main, BROKER)

    return run


@pytest.mark.parametrize("release", RELEASES)
def test_produce_fetch_and_find_coordinator_with_each_release(with_release, make_records, release):
    async def scenario(client, proxy):
        response = await client.send(CONTROLLER, CreateTopicsRequest([CreatableTopic("letters", 1, 1)], 5000))
        assert response.topics[0].error_code == 0
        topic = await client.wait_for_topic("letters", 5000)
        leader = topic.partitions[0].leader
        parts = [PartitionProduceData(0, make_records(b"a", b"b"))]
        written = await client.send(
            leader, ProduceRequest(None, -1, 1000, [TopicProduceData("letters", parts)])
        )
        assert written.responses[0].partition_responses[0].error_code == 0
        read = await client.send(leader, _fetch(topic))
        assert read.responses[0].partitions[0].error_code == 0
        assert isinstance(read.responses[0].partitions[0].records, memoryview)
        assert len(read.responses[0].partitions[0].records) == len(parts[0].records or b"")
        for key_type in CoordinatorType:
            await client.wait_until_ready(await client.coordinator(key_type, "some", 30_000), 5000)
        expected = {key: min(last, RELEASES[release][key][1]) for key, last in CLIENT_VERSION_MAX.items()}
        assert {key: proxy.spoken[key] for key in expected} == expected

    with_release(release, scenario)


@pytest.mark.parametrize(("release", "epoch"), [("0.11", -1), ("2.0", -1), ("2.8", 0), ("4.0", 0)])
def test_leader_epochs_are_used_from_releases_with_reliable_epochs(with_release, release, epoch):
    async def scenario(client, proxy):
        topic = await client.wait_for_topic("made-on-the-way", 5000)
        assert topic.partitions[0].leader_epoch == epoch
        assert (topic.topic_id == bytes(16)) == (release in {"0.11", "2.0"})

    with_release(release, scenario)


def test_api_missing_in_an_old_release_raises_unsupported_version(with_release):
    async def scenario(client, proxy):
        await client.await_update(0, 5000)
        with pytest.raises(UnsupportedVersion, match=r"does not support DescribeCluster \(broker 1001 "):
            await client.send(client.metadata.controller_id, DescribeClusterRequest())
        with pytest.raises(UnsupportedVersion):
            await client.send(ANY_NODE, DescribeClusterRequest())

    with_release("0.11", scenario)


def _fetch(topic):
    def build(version):
        part = FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)
        named = FetchTopic(topic_id=topic.topic_id) if version >= 13 else FetchTopic(topic=topic.name)
        named.partitions = [part]
        return FetchRequest(max_wait_ms=0, min_bytes=1, topics=[named])

    return RequestBuilder(FetchRequest, build)
