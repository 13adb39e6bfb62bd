"""Out-of-range numbers: each gets a response, and the connection stays open."""

import pytest

from odradek.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

LOWEST, HIGHEST = -(2**31), 2**31 - 1
ODD = [LOWEST, -77, -1, 0, HIGHEST]


@pytest.mark.parametrize("number", ODD)
def test_fetch(run_scenario, number):
    async def scenario(harness):
        await harness.create("orders")
        await harness.produce("orders", b"x")
        for field in ("max_wait_ms", "min_bytes", "max_bytes", "isolation_level", "session_id"):
            for version in (4, 12, 17):
                request = harness.fetch_request("orders", version=version)
                request.max_wait_ms = 100
                value = max(min(number, 127), -128) if field == "isolation_level" else number
                if field == "max_wait_ms" and value > 1000:
                    continue
                setattr(request, field, value)
                await harness.request(1, version, request)
        for field in ("partition", "current_leader_epoch", "fetch_offset", "partition_max_bytes"):
            part = FetchPartition(0, fetch_offset=0, partition_max_bytes=100)
            setattr(part, field, number)
            for version in (4, 12, 17):
                topic = FetchTopic("orders", harness.topic_id("orders"), [part])
                request = FetchRequest(max_bytes=1 << 20, topics=[topic])
                assert (await harness.request(1, version, request)).responses

    run_scenario(scenario)


@pytest.mark.parametrize("number", ODD)
def test_produce(run_scenario, number, make_batch):
    async def scenario(harness):
        await harness.create("orders")
        parts = [PartitionProduceData(number, make_batch(b"x"))]
        request = ProduceRequest(None, -1, number, [TopicProduceData("orders", parts)])
        assert (await harness.request(0, 11, request)).responses

    run_scenario(scenario)


@pytest.mark.parametrize("number", [*ODD, -(2**63), 2**63 - 1])
def test_offset_apis(run_scenario, number):
    async def scenario(harness):
        await harness.create("orders")
        await harness.produce("orders", b"x")
        small = max(min(number, HIGHEST), LOWEST)
        for version in (0, 1, 9):
            part = ListOffsetsPartition(0, timestamp=number)
            if version == 0:
                part.max_num_offsets = small
            request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("orders", [part])])
            assert (await harness.request(2, version, request)).topics
        epoch_part = OffsetForLeaderPartition(0, small, small)
        epoch_request = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic("orders", [epoch_part])])
        assert (await harness.request(23, 4, epoch_request)).topics
        topic = DeleteRecordsTopic("orders", [DeleteRecordsPartition(0, number)])
        assert (await harness.request(21, 2, DeleteRecordsRequest([topic], small))).topics

    run_scenario(scenario)


@pytest.mark.parametrize("number", ODD)
def test_topic_counts(run_scenario, number):
    async def scenario(harness):
        await harness.create("orders")
        small = max(min(number, 32767), -32768)
        new_topics = [CreatableTopic("a", number, 1), CreatableTopic("b", 1, small)]
        assert (await harness.request(19, 7, CreateTopicsRequest(new_topics, 1000))).topics
        increase = CreatePartitionsTopic("orders", number, None)
        assert (await harness.request(37, 3, CreatePartitionsRequest([increase], 1000))).results
        new_topic = CreatableTopic("c", 1, 1)
        assert (await harness.request(19, 7, CreateTopicsRequest([new_topic], number))).topics

    run_scenario(scenario)
