"""Every API in every supported version: a typical request gets a typical response."""

import pytest

from odradek.broker.handlers import HANDLERS
from odradek.model.errors import ErrorCode
from odradek.records.conversion import down_convert
from odradek.wire.apis import API_BY_KEY
from odradek.wire.messages import alter_configs as full
from odradek.wire.messages import incremental_alter_configs as incremental
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.describe_cluster import DescribeClusterRequest
from odradek.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TOPIC, BROKER = 2, 4
VERSIONS = {handler.api_key: handler.versions for handler in HANDLERS}


def versions_of(api_key):
    return pytest.mark.parametrize("version", VERSIONS[api_key])


@versions_of(0)
def test_produce(run_scenario, version, make_batch, read_records):
    async def scenario(harness):
        await harness.create("orders")
        records = make_batch(b"v") if version >= 3 else old(make_batch, version)
        data = [
            TopicProduceData("orders", [PartitionProduceData(0, records), PartitionProduceData(9, None)]),
            TopicProduceData("nowhere", [PartitionProduceData(0, make_batch(b"v"))]),
        ]
        response = await harness.request(0, version, ProduceRequest(None, -1, 1000, data))
        good, bad = response.responses[0].partition_responses
        assert (good.error_code, good.base_offset) == (0, 0)
        assert good.log_append_time_ms == -1
        assert good.log_start_offset == (0 if version >= 5 else -1)
        assert (bad.error_code, bad.base_offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        nowhere = response.responses[1].partition_responses[0]
        assert nowhere.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await harness.values("orders") == [b"v"]

    run_scenario(scenario)


def old(make_batch, version):
    return bytearray(down_convert(bytes(make_batch(b"v")), 1 if version == 2 else 0, 0))


@versions_of(1)
def test_fetch(run_scenario, version, read_records):
    async def scenario(harness):
        await harness.create("orders", 2)
        await harness.produce("orders", b"a", b"b")
        await harness.produce("orders", b"c")
        entry = await harness.fetch("orders", 0, version=version)
        assert entry.error_code == 0
        assert entry.high_watermark == 3
        assert entry.last_stable_offset == (3 if version >= 4 else -1)
        assert entry.log_start_offset == (0 if version >= 5 else -1)
        assert [record.value for record in read_records(entry.records)] == [b"a", b"b", b"c"]
        empty = await harness.fetch("orders", 0, partition=1, version=version)
        assert (empty.error_code, empty.high_watermark, bytes(empty.records)) == (0, 0, b"")
        beyond = await harness.fetch("orders", 4, version=version)
        assert beyond.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        missing = await harness.fetch("orders", 0, partition=7, version=version)
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        nowhere = await harness.fetch("nowhere", 0, version=version)
        expected = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert nowhere.error_code == expected

    run_scenario(scenario)


@versions_of(2)
def test_list_offsets(run_scenario, version):
    async def scenario(harness):
        await harness.create("orders")
        await harness.produce("orders", b"a", b"b", timestamp=1000)
        await harness.produce("orders", b"c", timestamp=5000)

        async def find(timestamp, partition=0, topic="orders"):
            part = ListOffsetsPartition(partition, timestamp=timestamp)
            part.max_num_offsets = 10 if version == 0 else 1
            response = await harness.request(
                2, version, ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, [part])])
            )
            return response.topics[0].partitions[0]

        latest, earliest = await find(-1), await find(-2)
        if version == 0:
            assert latest.old_style_offsets == [3, 0]
            assert earliest.old_style_offsets == [0]
        else:
            assert (latest.timestamp, latest.offset) == (-1, 3)
            assert (earliest.timestamp, earliest.offset) == (-1, 0)
            at = await find(1001)
            assert (at.timestamp, at.offset) == (1001, 1)
            assert at.leader_epoch == (0 if version >= 4 else -1)
            assert (await find(9999)).offset == -1
        if version >= 7:
            largest = await find(-3)
            assert (largest.timestamp, largest.offset) == (5000, 2)
        if version >= 8:
            assert (await find(-4)).offset == 0
        if version >= 9:
            assert (await find(-5)).offset == -1
        assert (await find(-1, partition=4)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await find(-1, topic="nowhere")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run_scenario(scenario)


@versions_of(3)
def test_metadata(run_scenario, version):
    async def scenario(harness):
        await harness.create("orders", 2)
        everything = await harness.request(3, version, MetadataRequest([] if version == 0 else None))
        assert [topic.name for topic in everything.topics] == ["orders"]
        [node] = everything.brokers
        assert (node.node_id, node.host, node.port) == (harness.broker.broker_id, "broker", 9092)
        assert everything.controller_id == (harness.broker.broker_id if version >= 1 else -1)
        assert everything.cluster_id == (harness.broker.cluster_id if version >= 2 else None)
        [topic] = everything.topics
        assert [part.partition_index for part in topic.partitions] == [0, 1]
        assert all(part.leader_id == node.node_id for part in topic.partitions)
        assert topic.topic_id == (harness.topic_id("orders") if version >= 10 else bytes(16))
        requested = MetadataRequest([MetadataRequestTopic(name="orders"), MetadataRequestTopic(name="a/b")])
        named, bad = (await harness.request(3, version, requested)).topics
        assert (named.error_code, named.name) == (0, "orders")
        assert (bad.error_code, bad.name) == (ErrorCode.INVALID_TOPIC_EXCEPTION, "a/b")
        if version >= 1:
            assert (await harness.request(3, version, MetadataRequest([]))).topics == []

    run_scenario(scenario)


@versions_of(3)
def test_metadata_auto_creates_topics(run_scenario, version):
    async def scenario(harness):
        made = await harness.request(3, version, MetadataRequest([MetadataRequestTopic(name="fresh")]))
        assert made.topics[0].error_code == 0
        assert len(made.topics[0].partitions) == 1
        if version >= 4:
            shy = MetadataRequest([MetadataRequestTopic(name="other")], allow_auto_topic_creation=False)
            response = await harness.request(3, version, shy)
            assert response.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert harness.broker.metadata_cache.topic("other") is None

    run_scenario(scenario)


@versions_of(18)
def test_api_versions(run_scenario, version):
    async def scenario(harness):
        response = await harness.request(18, version, ApiVersionsRequest("odradek-test", "1.0"))
        assert response.error_code == 0
        advertised = {key.api_key: range(key.min_version, key.max_version + 1) for key in response.api_keys}
        assert advertised == VERSIONS

    run_scenario(scenario)


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("name", ["", "-x", "a b", "ä"])
def test_api_versions_rejects_an_invalid_software_name(run_scenario, version, name):
    async def scenario(harness):
        response = await harness.request(18, version, ApiVersionsRequest(name, "1.0"))
        assert response.error_code == ErrorCode.INVALID_REQUEST

    run_scenario(scenario)


@versions_of(19)
def test_create_topics(run_scenario, version):
    async def scenario(harness):
        orders = CreatableTopic("orders", 3, 1, [], [CreatableTopicConfig("retention.ms", "1000")])
        twin = [CreatableTopic("twin", 1, 1), CreatableTopic("twin", 1, 1)]
        request = CreateTopicsRequest([orders, *twin], 5000)
        results = {topic.name: topic for topic in (await harness.request(19, version, request)).topics}
        made = results["orders"]
        assert made.error_code == 0
        assert results["twin"].error_code == ErrorCode.INVALID_REQUEST
        assert harness.broker.metadata_cache.topic("twin") is None
        assert len(harness.broker.metadata_cache.topic("orders").partitions) == 3
        if version >= 5:
            assert (made.num_partitions, made.replication_factor) == (3, 1)
            assert {config.name: config.value for config in made.configs}["retention.ms"] == "1000"
        assert made.topic_id == (harness.topic_id("orders") if version >= 7 else bytes(16))
        again = await harness.request(19, version, CreateTopicsRequest([CreatableTopic("orders", 1, 1)]))
        assert again.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        if version >= 1:
            dry = CreateTopicsRequest([CreatableTopic("dry", 1, 1)], 5000, True)
            assert (await harness.request(19, version, dry)).topics[0].error_code == 0
            assert harness.broker.metadata_cache.topic("dry") is None
        defaults = CreateTopicsRequest([CreatableTopic("defaults", -1, -1)])
        assert (await harness.request(19, version, defaults)).topics[0].error_code == 0

    run_scenario(scenario)


@versions_of(20)
def test_delete_topics(run_scenario, version):
    async def scenario(harness):
        await harness.create("orders", 2)
        topic_id = harness.topic_id("orders")
        if version >= 6:
            request = DeleteTopicsRequest([DeleteTopicState("orders"), DeleteTopicState("nowhere")], [], 5000)
        else:
            request = DeleteTopicsRequest([], ["orders", "nowhere"], 5000)
        results = {
            respons.name: respons for respons in (await harness.request(20, version, request)).responses
        }
        assert results["orders"].error_code == 0
        assert results["orders"].topic_id == (topic_id if version >= 6 else bytes(16))
        assert results["nowhere"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert harness.broker.metadata_cache.topic("orders") is None

    run_scenario(scenario)


def test_topics_are_deleted_by_id(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        both = DeleteTopicState("orders", harness.topic_id("orders"))
        unknown = DeleteTopicState(None, b"x" * 16)
        by_id = DeleteTopicState(None, harness.topic_id("orders"))
        response = await harness.request(20, 6, DeleteTopicsRequest([both, unknown, by_id], [], 5000))
        codes = [respons.error_code for respons in response.responses]
        assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_ID, 0]
        assert harness.broker.metadata_cache.topic("orders") is None

    run_scenario(scenario)


@versions_of(21)
def test_delete_records(run_scenario, version):
    async def scenario(harness):
        await harness.create("orders")
        await harness.produce("orders", b"a", b"b", b"c")

        async def delete(offset, topic="orders"):
            part = DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, offset)])
            response = await harness.request(21, version, DeleteRecordsRequest([part], 1000))
            result = response.topics[0].partitions[0]
            return result.error_code, result.low_watermark

        assert await delete(1) == (0, 1)
        assert (await harness.fetch("orders", 0)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert await delete(4) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert await delete(-2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert await delete(-1) == (0, 3)
        assert await delete(0, "nowhere") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        for internal in ("__consumer_offsets", "__transaction_state"):
            assert await delete(0, internal) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
            await harness.create(internal)
            assert await delete(0, internal) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)

    run_scenario(scenario)


@versions_of(22)
def test_init_producer_id(run_scenario, version):
    async def scenario(harness):
        first = await harness.request(22, version, InitProducerIdRequest(None, 1000))
        second = await harness.request(22, version, InitProducerIdRequest(None, 1000))
        assert (first.error_code, first.producer_epoch) == (0, 0)
        assert second.producer_id > first.producer_id >= 0
        empty = await harness.request(22, version, InitProducerIdRequest("", 1000))
        assert empty.error_code == ErrorCode.INVALID_REQUEST
        named = await harness.request(22, version, InitProducerIdRequest("tx", 1000))
        assert named.error_code == ErrorCode.NOT_COORDINATOR  # the transaction state topic does not exist yet

    run_scenario(scenario)


@versions_of(23)
def test_offset_for_leader_epoch(run_scenario, version):
    async def scenario(harness):
        await harness.create("orders")
        await harness.produce("orders", b"a", b"b")

        async def end_of(epoch, current=-1, topic="orders"):
            part = OffsetForLeaderPartition(0, current, epoch)
            request = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(topic, [part])])
            result = (await harness.request(23, version, request)).topics[0].partitions[0]
            return result.error_code, result.leader_epoch, result.end_offset

        assert await end_of(0) == (0, 0 if version >= 1 else -1, 2)
        assert (await end_of(5))[2] == -1
        assert (await end_of(0, topic="nowhere"))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if version >= 2:
            assert (await end_of(0, current=9))[0] == ErrorCode.UNKNOWN_LEADER_EPOCH

    run_scenario(scenario)


@versions_of(32)
def test_describe_configs(run_scenario, version):
    async def scenario(harness):
        await harness.create("orders", settings={"retention.ms": "1234"})
        name = str(harness.broker.broker_id)
        resources = [
            DescribeConfigsResource(TOPIC, "orders", None),
            DescribeConfigsResource(TOPIC, "orders", ["retention.ms"]),
            DescribeConfigsResource(BROKER, name, None),
            DescribeConfigsResource(BROKER, "", None),
            DescribeConfigsResource(TOPIC, "nowhere", None),
            DescribeConfigsResource(BROKER, "999", None),
            DescribeConfigsResource(8, "x", None),
        ]
        request = DescribeConfigsRequest(resources, version >= 1, version >= 3)
        results = (await harness.request(32, version, request)).results
        assert [result.error_code for result in results] == [
            0,
            0,
            0,
            0,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
        ]
        [retention] = results[1].configs
        assert (retention.name, retention.value) == ("retention.ms", "1234")
        assert len(results[0].configs) > 20
        assert len(results[2].configs) > 100
        assert retention.config_source == (1 if version >= 1 else -1)
        if version >= 1:
            assert retention.synonyms[0].value == "1234"
        if version >= 3:
            assert retention.documentation

    run_scenario(scenario)


@versions_of(33)
def test_alter_configs(run_scenario, version):
    async def scenario(harness):
        await harness.create("orders", settings={"retention.ms": "1234"})

        async def alter(name, value, topic="orders", kind=TOPIC, validate_only=False):
            resource = full.AlterConfigsResource(kind, topic, [full.AlterableConfig(name, value)])
            request = full.AlterConfigsRequest([resource], validate_only)
            return (await harness.request(33, version, request)).responses[0].error_code

        assert await alter("segment.bytes", "5000", validate_only=True) == 0
        overrides = harness.broker._admin_manager.topic_overrides
        assert overrides("orders") == {"retention.ms": "1234"}
        assert await alter("segment.bytes", "5000") == 0
        assert overrides("orders") == {"segment.bytes": "5000"}, "all are replaced"
        assert await alter("segment.bytes", "x") == ErrorCode.INVALID_CONFIG
        assert await alter("no.such", "1") == ErrorCode.INVALID_CONFIG
        assert await alter("segment.bytes", "5000", "nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await alter("segment.bytes", "5000", kind=8) == ErrorCode.INVALID_REQUEST
        assert await alter("log.retention.ms", "5000", topic="", kind=BROKER) == 0
        assert await alter("log.retention.ms", "5000", topic="77", kind=BROKER) == ErrorCode.INVALID_REQUEST

    run_scenario(scenario)


@versions_of(44)
def test_incremental_alter_configs(run_scenario, version):
    async def scenario(harness):
        await harness.create("orders", settings={"retention.ms": "1234"})

        async def alter(name, operation, value, topic="orders"):
            changes = [incremental.AlterableConfig(name, operation, value)]
            resource = incremental.AlterConfigsResource(TOPIC, topic, changes)
            request = incremental.IncrementalAlterConfigsRequest([resource], False)
            return (await harness.request(44, version, request)).responses[0].error_code

        overrides = harness.broker._admin_manager.topic_overrides
        assert await alter("segment.bytes", 0, "5000") == 0
        assert overrides("orders") == {"retention.ms": "1234", "segment.bytes": "5000"}
        assert await alter("cleanup.policy", 2, "compact") == 0
        assert overrides("orders")["cleanup.policy"] == "delete,compact"
        assert await alter("cleanup.policy", 3, "delete") == 0
        assert overrides("orders")["cleanup.policy"] == "compact"
        assert await alter("retention.ms", 1, None) == 0
        assert "retention.ms" not in overrides("orders")
        assert await alter("retention.ms", 0, None) == ErrorCode.INVALID_REQUEST
        assert await alter("retention.ms", 9, "1") == ErrorCode.INVALID_REQUEST
        assert await alter("retention.ms", 0, "1", "nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        twice = incremental.AlterConfigsResource(TOPIC, "orders", [])
        request = incremental.IncrementalAlterConfigsRequest([twice, twice], False)
        response = await harness.request(44, version, request)
        assert [respons.error_code for respons in response.responses] == [ErrorCode.INVALID_REQUEST]

    run_scenario(scenario)


@versions_of(37)
def test_create_partitions(run_scenario, version):
    async def scenario(harness):
        await harness.create("orders", 2)

        async def grow(count, topic="orders", assignments=None, validate_only=False):
            request = CreatePartitionsTopic(topic, count, assignments)
            response = await harness.request(
                37, version, CreatePartitionsRequest([request], 5000, validate_only)
            )
            return response.results[0].error_code

        assert await grow(4, validate_only=True) == 0
        assert len(harness.broker.metadata_cache.topic("orders").partitions) == 2
        assert await grow(4) == 0
        assert len(harness.broker.metadata_cache.topic("orders").partitions) == 4
        assert await grow(4) == ErrorCode.INVALID_PARTITIONS
        assert await grow(3) == ErrorCode.INVALID_PARTITIONS
        assert await grow(3, "nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await grow(5, assignments=[]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert (await harness.produce("orders", b"x", partition=3)).error_code == 0
        new_topics = [CreatePartitionsTopic("orders", 7), CreatePartitionsTopic("orders", 8)]
        response = await harness.request(37, version, CreatePartitionsRequest(new_topics, 5000))
        assert [result.error_code for result in response.results] == [ErrorCode.INVALID_REQUEST]

    run_scenario(scenario)


@versions_of(60)
def test_describe_cluster(run_scenario, version):
    async def scenario(harness):
        response = await harness.request(60, version, DescribeClusterRequest(True))
        assert response.error_code == 0
        assert response.cluster_id == harness.broker.cluster_id
        assert response.controller_id == harness.broker.broker_id
        assert [(broker.broker_id, broker.host) for broker in response.brokers] == [
            (harness.broker.broker_id, "broker")
        ]
        assert response.cluster_authorized_operations >= 0
        if version >= 1:
            wrong = await harness.request(60, version, DescribeClusterRequest(False, 2))
            assert wrong.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
            unknown = await harness.request(60, version, DescribeClusterRequest(False, 9))
            assert unknown.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE

    run_scenario(scenario)


@pytest.mark.parametrize("api_key", VERSIONS)
def test_request_with_default_values_gets_a_response(run_scenario, api_key):
    async def scenario(harness):
        for version in VERSIONS[api_key]:
            request = API_BY_KEY[api_key].request()
            if api_key == 0:
                request.acks = 1
            assert type(await harness.request(api_key, version, request)) is API_BY_KEY[api_key].response

    run_scenario(scenario)
