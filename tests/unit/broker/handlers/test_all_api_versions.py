"""Every API in every version served: a typical request gets a typical answer that its client can read."""

import pytest

from odradek.broker.handlers import HANDLERS
from odradek.model.errors import ErrorCode
from odradek.records.conversion import down_convert
from odradek.wire.apis import API_BY_KEY
from odradek.wire.messages import alter_configs as whole
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
def test_produce(play, version, make_batch, read_records):
    async def scenario(town):
        await town.create("orders")
        records = make_batch(b"v") if version >= 3 else old(make_batch, version)
        data = [
            TopicProduceData("orders", [PartitionProduceData(0, records), PartitionProduceData(9, None)]),
            TopicProduceData("nowhere", [PartitionProduceData(0, make_batch(b"v"))]),
        ]
        response = await town.ask(0, version, ProduceRequest(None, -1, 1000, data))
        good, bad = response.responses[0].partition_responses
        assert (good.error_code, good.base_offset) == (0, 0)
        assert good.log_append_time_ms == -1
        assert good.log_start_offset == (0 if version >= 5 else -1)
        assert (bad.error_code, bad.base_offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        nowhere = response.responses[1].partition_responses[0]
        assert nowhere.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await town.values("orders") == [b"v"]

    play(scenario)


def old(make_batch, version):
    return bytearray(down_convert(bytes(make_batch(b"v")), 1 if version == 2 else 0, 0))


@versions_of(1)
def test_fetch(play, version, read_records):
    async def scenario(town):
        await town.create("orders", 2)
        await town.produce("orders", b"a", b"b")
        await town.produce("orders", b"c")
        entry = await town.fetch("orders", 0, version=version)
        assert entry.error_code == 0
        assert entry.high_watermark == 3
        assert entry.last_stable_offset == (3 if version >= 4 else -1)
        assert entry.log_start_offset == (0 if version >= 5 else -1)
        assert [one.value for one in read_records(entry.records)] == [b"a", b"b", b"c"]
        empty = await town.fetch("orders", 0, partition=1, version=version)
        assert (empty.error_code, empty.high_watermark, bytes(empty.records)) == (0, 0, b"")
        beyond = await town.fetch("orders", 4, version=version)
        assert beyond.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        missing = await town.fetch("orders", 0, partition=7, version=version)
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        nowhere = await town.fetch("nowhere", 0, version=version)
        expected = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert nowhere.error_code == expected

    play(scenario)


@versions_of(2)
def test_list_offsets(play, version):
    async def scenario(town):
        await town.create("orders")
        await town.produce("orders", b"a", b"b", timestamp=1000)
        await town.produce("orders", b"c", timestamp=5000)

        async def find(timestamp, partition=0, topic="orders"):
            part = ListOffsetsPartition(partition, timestamp=timestamp)
            part.max_num_offsets = 10 if version == 0 else 1
            response = await town.ask(
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

    play(scenario)


@versions_of(3)
def test_metadata(play, version):
    async def scenario(town):
        await town.create("orders", 2)
        everything = await town.ask(3, version, MetadataRequest([] if version == 0 else None))
        assert [topic.name for topic in everything.topics] == ["orders"]
        [node] = everything.brokers
        assert (node.node_id, node.host, node.port) == (town.broker.broker_id, "broker", 9092)
        assert everything.controller_id == (town.broker.broker_id if version >= 1 else -1)
        assert everything.cluster_id == (town.broker.cluster_id if version >= 2 else None)
        [topic] = everything.topics
        assert [part.partition_index for part in topic.partitions] == [0, 1]
        assert all(part.leader_id == node.node_id for part in topic.partitions)
        assert topic.topic_id == (town.topic_id("orders") if version >= 10 else bytes(16))
        asked = MetadataRequest([MetadataRequestTopic(name="orders"), MetadataRequestTopic(name="a/b")])
        named, bad = (await town.ask(3, version, asked)).topics
        assert (named.error_code, named.name) == (0, "orders")
        assert (bad.error_code, bad.name) == (ErrorCode.INVALID_TOPIC_EXCEPTION, "a/b")
        if version >= 1:
            assert (await town.ask(3, version, MetadataRequest([]))).topics == []

    play(scenario)


@versions_of(3)
def test_metadata_makes_topics_that_are_asked_about(play, version):
    async def scenario(town):
        made = await town.ask(3, version, MetadataRequest([MetadataRequestTopic(name="fresh")]))
        assert made.topics[0].error_code == 0
        assert len(made.topics[0].partitions) == 1
        if version >= 4:
            shy = MetadataRequest([MetadataRequestTopic(name="other")], allow_auto_topic_creation=False)
            answer = await town.ask(3, version, shy)
            assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert town.broker.image.topic("other") is None

    play(scenario)


@versions_of(18)
def test_api_versions(play, version):
    async def scenario(town):
        answer = await town.ask(18, version, ApiVersionsRequest("odradek-test", "1.0"))
        assert answer.error_code == 0
        advertised = {one.api_key: range(one.min_version, one.max_version + 1) for one in answer.api_keys}
        assert advertised == VERSIONS

    play(scenario)


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("name", ["", "-x", "a b", "ä"])
def test_api_versions_wants_a_name_that_can_be_logged(play, version, name):
    async def scenario(town):
        answer = await town.ask(18, version, ApiVersionsRequest(name, "1.0"))
        assert answer.error_code == ErrorCode.INVALID_REQUEST

    play(scenario)


@versions_of(19)
def test_create_topics(play, version):
    async def scenario(town):
        wish = CreatableTopic("orders", 3, 1, [], [CreatableTopicConfig("retention.ms", "1000")])
        twin = [CreatableTopic("twin", 1, 1), CreatableTopic("twin", 1, 1)]
        request = CreateTopicsRequest([wish, *twin], 5000)
        results = {one.name: one for one in (await town.ask(19, version, request)).topics}
        made = results["orders"]
        assert made.error_code == 0
        assert results["twin"].error_code == ErrorCode.INVALID_REQUEST
        assert town.broker.image.topic("twin") is None
        assert len(town.broker.image.topic("orders").partitions) == 3
        if version >= 5:
            assert (made.num_partitions, made.replication_factor) == (3, 1)
            assert {one.name: one.value for one in made.configs}["retention.ms"] == "1000"
        assert made.topic_id == (town.topic_id("orders") if version >= 7 else bytes(16))
        again = await town.ask(19, version, CreateTopicsRequest([CreatableTopic("orders", 1, 1)]))
        assert again.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        if version >= 1:
            dry = CreateTopicsRequest([CreatableTopic("dry", 1, 1)], 5000, True)
            assert (await town.ask(19, version, dry)).topics[0].error_code == 0
            assert town.broker.image.topic("dry") is None
        defaults = CreateTopicsRequest([CreatableTopic("defaults", -1, -1)])
        assert (await town.ask(19, version, defaults)).topics[0].error_code == 0

    play(scenario)


@versions_of(20)
def test_delete_topics(play, version):
    async def scenario(town):
        await town.create("orders", 2)
        topic_id = town.topic_id("orders")
        if version >= 6:
            request = DeleteTopicsRequest([DeleteTopicState("orders"), DeleteTopicState("nowhere")], [], 5000)
        else:
            request = DeleteTopicsRequest([], ["orders", "nowhere"], 5000)
        results = {one.name: one for one in (await town.ask(20, version, request)).responses}
        assert results["orders"].error_code == 0
        assert results["orders"].topic_id == (topic_id if version >= 6 else bytes(16))
        assert results["nowhere"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert town.broker.image.topic("orders") is None

    play(scenario)


def test_topics_are_deleted_by_id(play):
    async def scenario(town):
        await town.create("orders")
        both = DeleteTopicState("orders", town.topic_id("orders"))
        unknown = DeleteTopicState(None, b"x" * 16)
        by_id = DeleteTopicState(None, town.topic_id("orders"))
        response = await town.ask(20, 6, DeleteTopicsRequest([both, unknown, by_id], [], 5000))
        codes = [one.error_code for one in response.responses]
        assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_ID, 0]
        assert town.broker.image.topic("orders") is None

    play(scenario)


@versions_of(21)
def test_delete_records(play, version):
    async def scenario(town):
        await town.create("orders")
        await town.produce("orders", b"a", b"b", b"c")

        async def delete(offset, topic="orders"):
            part = DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, offset)])
            response = await town.ask(21, version, DeleteRecordsRequest([part], 1000))
            result = response.topics[0].partitions[0]
            return result.error_code, result.low_watermark

        assert await delete(1) == (0, 1)
        assert (await town.fetch("orders", 0)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert await delete(4) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert await delete(-2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert await delete(-1) == (0, 3)
        assert await delete(0, "nowhere") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        for internal in ("__consumer_offsets", "__transaction_state"):
            assert await delete(0, internal) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
            await town.create(internal)
            assert await delete(0, internal) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)

    play(scenario)


@versions_of(22)
def test_init_producer_id(play, version):
    async def scenario(town):
        first = await town.ask(22, version, InitProducerIdRequest(None, 1000))
        second = await town.ask(22, version, InitProducerIdRequest(None, 1000))
        assert (first.error_code, first.producer_epoch) == (0, 0)
        assert second.producer_id > first.producer_id >= 0
        empty = await town.ask(22, version, InitProducerIdRequest("", 1000))
        assert empty.error_code == ErrorCode.INVALID_REQUEST
        named = await town.ask(22, version, InitProducerIdRequest("tx", 1000))
        assert named.error_code == ErrorCode.NOT_COORDINATOR  # the topic of transactions is not there yet

    play(scenario)


@versions_of(23)
def test_offset_for_leader_epoch(play, version):
    async def scenario(town):
        await town.create("orders")
        await town.produce("orders", b"a", b"b")

        async def end_of(epoch, current=-1, topic="orders"):
            part = OffsetForLeaderPartition(0, current, epoch)
            request = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(topic, [part])])
            result = (await town.ask(23, version, request)).topics[0].partitions[0]
            return result.error_code, result.leader_epoch, result.end_offset

        assert await end_of(0) == (0, 0 if version >= 1 else -1, 2)
        assert (await end_of(5))[2] == -1
        assert (await end_of(0, topic="nowhere"))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if version >= 2:
            assert (await end_of(0, current=9))[0] == ErrorCode.UNKNOWN_LEADER_EPOCH

    play(scenario)


@versions_of(32)
def test_describe_configs(play, version):
    async def scenario(town):
        await town.create("orders", settings={"retention.ms": "1234"})
        name = str(town.broker.broker_id)
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
        results = (await town.ask(32, version, request)).results
        assert [one.error_code for one in results] == [
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

    play(scenario)


@versions_of(33)
def test_alter_configs(play, version):
    async def scenario(town):
        await town.create("orders", settings={"retention.ms": "1234"})

        async def alter(name, value, topic="orders", kind=TOPIC, validate_only=False):
            resource = whole.AlterConfigsResource(kind, topic, [whole.AlterableConfig(name, value)])
            request = whole.AlterConfigsRequest([resource], validate_only)
            return (await town.ask(33, version, request)).responses[0].error_code

        assert await alter("segment.bytes", "5000", validate_only=True) == 0
        overrides = town.broker._topics.overrides_of
        assert overrides("orders") == {"retention.ms": "1234"}
        assert await alter("segment.bytes", "5000") == 0
        assert overrides("orders") == {"segment.bytes": "5000"}, "all are replaced"
        assert await alter("segment.bytes", "x") == ErrorCode.INVALID_CONFIG
        assert await alter("no.such", "1") == ErrorCode.INVALID_CONFIG
        assert await alter("segment.bytes", "5000", "nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await alter("segment.bytes", "5000", kind=8) == ErrorCode.INVALID_REQUEST
        assert await alter("log.retention.ms", "5000", topic="", kind=BROKER) == 0
        assert await alter("log.retention.ms", "5000", topic="77", kind=BROKER) == ErrorCode.INVALID_REQUEST

    play(scenario)


@versions_of(44)
def test_incremental_alter_configs(play, version):
    async def scenario(town):
        await town.create("orders", settings={"retention.ms": "1234"})

        async def alter(name, operation, value, topic="orders"):
            changes = [incremental.AlterableConfig(name, operation, value)]
            resource = incremental.AlterConfigsResource(TOPIC, topic, changes)
            request = incremental.IncrementalAlterConfigsRequest([resource], False)
            return (await town.ask(44, version, request)).responses[0].error_code

        overrides = town.broker._topics.overrides_of
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
        response = await town.ask(44, version, request)
        assert [one.error_code for one in response.responses] == [ErrorCode.INVALID_REQUEST]

    play(scenario)


@versions_of(37)
def test_create_partitions(play, version):
    async def scenario(town):
        await town.create("orders", 2)

        async def grow(count, topic="orders", assignments=None, validate_only=False):
            wish = CreatePartitionsTopic(topic, count, assignments)
            response = await town.ask(37, version, CreatePartitionsRequest([wish], 5000, validate_only))
            return response.results[0].error_code

        assert await grow(4, validate_only=True) == 0
        assert len(town.broker.image.topic("orders").partitions) == 2
        assert await grow(4) == 0
        assert len(town.broker.image.topic("orders").partitions) == 4
        assert await grow(4) == ErrorCode.INVALID_PARTITIONS
        assert await grow(3) == ErrorCode.INVALID_PARTITIONS
        assert await grow(3, "nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await grow(5, assignments=[]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert (await town.produce("orders", b"x", partition=3)).error_code == 0
        wishes = [CreatePartitionsTopic("orders", 7), CreatePartitionsTopic("orders", 8)]
        response = await town.ask(37, version, CreatePartitionsRequest(wishes, 5000))
        assert [one.error_code for one in response.results] == [ErrorCode.INVALID_REQUEST]

    play(scenario)


@versions_of(60)
def test_describe_cluster(play, version):
    async def scenario(town):
        answer = await town.ask(60, version, DescribeClusterRequest(True))
        assert answer.error_code == 0
        assert answer.cluster_id == town.broker.cluster_id
        assert answer.controller_id == town.broker.broker_id
        assert [(one.broker_id, one.host) for one in answer.brokers] == [(town.broker.broker_id, "broker")]
        assert answer.cluster_authorized_operations >= 0
        if version >= 1:
            wrong = await town.ask(60, version, DescribeClusterRequest(False, 2))
            assert wrong.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
            unknown = await town.ask(60, version, DescribeClusterRequest(False, 9))
            assert unknown.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE

    play(scenario)


@pytest.mark.parametrize("api_key", VERSIONS)
def test_a_request_of_nothing_but_defaults_gets_an_answer_too(play, api_key):
    async def scenario(town):
        for version in VERSIONS[api_key]:
            request = API_BY_KEY[api_key].request()
            if api_key == 0:
                request.acks = 1
            assert type(await town.ask(api_key, version, request)) is API_BY_KEY[api_key].response

    play(scenario)
