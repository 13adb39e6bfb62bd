"""Several log directories: DescribeLogDirs, failures, start without one."""

import asyncio
import errno

import pytest

from odradek.model.errors import ErrorCode, StorageError
from odradek.testing.files import DISK_BYTES
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

LIST_OFFSETS, METADATA, DELETE_TOPICS, DELETE_RECORDS, DESCRIBE_LOG_DIRS = 2, 3, 20, 21, 35
STORAGE_ERROR, NOT_AVAILABLE = ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.LEADER_NOT_AVAILABLE
TWO = {"log.dirs": "/a,/b", "broker.id": "7"}


async def describe(harness, topics=None, version=4):
    response = await harness.request(DESCRIBE_LOG_DIRS, version, DescribeLogDirsRequest(topics))
    assert response.error_code == 0
    return {result.log_dir: result for result in response.results}


def sizes(result):
    return {
        (topic.name, part.partition_index): part.partition_size
        for topic in result.topics
        for part in topic.partitions
    }


async def partitions_of(harness, topic):
    request = MetadataRequest([MetadataRequestTopic(name=topic)])
    result = (await harness.request(METADATA, 12, request)).topics[0]
    return {part.partition_index: part for part in result.partitions}


async def break_disk(harness, topic, partition, path):
    """Make an append to this partition fail with a disk error."""
    harness.cluster.files.fail_next_write(errno.EIO, name_end=f"{path}/{topic}-{partition}/{0:020}.log")
    return await harness.produce(topic, b"x", partition=partition)


@pytest.mark.parametrize("version", range(5))
def test_every_log_dir_is_described_with_its_replica_sizes(run_scenario, version):
    async def scenario(harness):
        await harness.create("orders", 3)
        await harness.produce("orders", b"x" * 1000, partition=1)
        actual = await describe(harness, version=version)
        assert list(actual) == ["/a", "/b"]
        assert set(sizes(actual["/a"])) | set(sizes(actual["/b"])) == {("orders", n) for n in range(3)}
        assert sorted(len(sizes(directory)) for directory in actual.values()) == [1, 2]
        both = sizes(actual["/a"]) | sizes(actual["/b"])
        assert both["orders", 1] > 1000
        assert both["orders", 0] == both["orders", 2] == 0
        for result in actual.values():
            assert result.error_code == 0
            entries = [part for topic in result.topics for part in topic.partitions]
            assert all((entry.offset_lag, entry.is_future_key) == (0, False) for entry in entries)
            if version >= 4:
                assert result.total_bytes == DISK_BYTES
                assert 0 < result.usable_bytes < DISK_BYTES - 1000
            else:
                assert (result.total_bytes, result.usable_bytes) == (-1, -1)

    run_scenario(scenario, TWO)


def test_only_requested_partitions_are_described(run_scenario):
    async def scenario(harness):
        await harness.create("orders", 4)
        await harness.create("others", 2)
        requested = [DescribableLogDirTopic("orders", [1, 77]), DescribableLogDirTopic("unknown", [0])]
        result = await describe(harness, requested)
        assert list(result) == ["/a", "/b"], "directories without requested partitions are listed"
        assert [key for directory in result.values() for key in sizes(directory)] == [("orders", 1)]
        assert [sizes(directory) for directory in (await describe(harness, [])).values()] == [{}, {}]

    run_scenario(scenario, TWO)


def test_each_log_dir_has_a_lock_and_meta_properties(run_scenario):
    async def scenario(harness):
        for path in ("/a", "/b"):
            assert b"broker.id=7" in harness.cluster.files.read_whole(f"{path}/meta.properties")
            with pytest.raises(BlockingIOError):
                harness.cluster.files.lock(f"{path}/.lock")

    run_scenario(scenario, TWO)


def test_failed_log_dir_goes_offline_alone(run_scenario):
    async def scenario(harness):
        await harness.create("orders", 4)
        for number in range(4):
            assert (await harness.produce("orders", b"x", partition=number)).error_code == 0
        result = await describe(harness)
        lost = [number for _, number in sizes(result["/b"])]
        kept = [number for _, number in sizes(result["/a"])]
        assert len(lost) == len(kept) == 2

        assert (await break_disk(harness, "orders", lost[0], "/b")).error_code == STORAGE_ERROR
        for number in lost:
            assert (await harness.produce("orders", b"x", partition=number)).error_code == STORAGE_ERROR
            assert (await harness.fetch("orders", partition=number)).error_code == STORAGE_ERROR
            requested = ListOffsetsTopic("orders", [ListOffsetsPartition(number, -1, -1)])
            response = await harness.request(LIST_OFFSETS, 7, ListOffsetsRequest(-1, 0, [requested]))
            assert response.topics[0].partitions[0].error_code == STORAGE_ERROR
            deleted = DeleteRecordsTopic("orders", [DeleteRecordsPartition(number, 1)])
            response = await harness.request(DELETE_RECORDS, 2, DeleteRecordsRequest([deleted], 1000))
            assert response.topics[0].partitions[0].error_code == STORAGE_ERROR
        for number in kept:
            assert (await harness.produce("orders", b"y", partition=number)).error_code == 0
            assert await harness.values("orders", partition=number) == [b"x", b"y"]

        await asyncio.sleep(1)  # the controller writes the new states
        shown = await partitions_of(harness, "orders")
        for number in lost:
            entry = shown[number]
            assert (entry.error_code, entry.leader_id, entry.leader_epoch) == (NOT_AVAILABLE, -1, 1)
            assert (entry.replica_nodes, entry.isr_nodes, entry.offline_replicas) == ([7], [7], [7])
        assert all(shown[number].error_code == 0 for number in kept)
        assert not harness.broker.all_failed.is_set()

        result = await describe(harness)
        assert (result["/b"].error_code, result["/b"].topics) == (STORAGE_ERROR, [])
        assert (result["/b"].total_bytes, result["/b"].usable_bytes) == (-1, -1)
        assert (result["/a"].error_code, len(sizes(result["/a"]))) == (0, 2)
        assert await harness.create("more", 3) == 0
        assert len(sizes((await describe(harness))["/a"])) == 5, "new logs go to the online directory"

    run_scenario(scenario, TWO)


def test_log_dir_failure_completes_a_waiting_fetch(run_scenario):
    async def scenario(harness):
        await harness.create("orders", 2)
        path = next(
            path for path, directory in (await describe(harness)).items() if ("orders", 0) in sizes(directory)
        )
        waiting = harness.client.send(1, 17, harness.fetch_request("orders", max_wait_ms=60_000))
        other = await harness.memory_broker.connect()
        began_ms = harness.cluster.clock.monotonic_ms()
        harness.client = other
        await break_disk(harness, "orders", 0, path)
        response = await waiting
        assert response.responses[0].partitions[0].error_code == STORAGE_ERROR
        assert harness.cluster.clock.monotonic_ms() - began_ms < 1000

    run_scenario(scenario, TWO)


def test_failed_fsync_takes_the_log_dir_offline(run_scenario):
    async def scenario(harness):
        await harness.create("orders", 2, {"segment.bytes": "300"})
        path = next(
            path for path, directory in (await describe(harness)).items() if ("orders", 0) in sizes(directory)
        )
        harness.cluster.files.fail_next_sync(errno.EIO, name_end=f"{path}/orders-0/{0:020}.log")
        for _ in range(4):
            assert (await harness.produce("orders", b"x" * 100)).error_code == 0
        await harness.cluster.clock.sleep_ms(5_000)
        assert (await harness.produce("orders", b"x")).error_code == STORAGE_ERROR
        assert (await harness.produce("orders", b"x", partition=1)).error_code == 0

    run_scenario(scenario, TWO)


def test_failure_of_the_last_log_dir_is_signalled(run_scenario):
    async def scenario(harness):
        await harness.create("orders", 2)
        first = next(number for _, number in sizes((await describe(harness))["/a"]))
        await break_disk(harness, "orders", 1 - first, "/b")
        await harness.fetch("orders", partition=first)
        assert not harness.broker.all_failed.is_set()
        await break_disk(harness, "orders", first, "/a")
        await harness.fetch("orders", partition=first)
        assert harness.broker.all_failed.is_set()
        assert len(harness.broker.failures) == 2

    run_scenario(scenario, TWO)


def test_topic_on_a_failed_log_dir_is_deleted_once_it_is_back(run_with_restarts):
    async def scenario(cluster, start_broker):
        harness = await start_broker(TWO)
        await harness.create("orders", 2)
        lost = next(number for _, number in sizes((await describe(harness))["/b"]))
        await break_disk(harness, "orders", lost, "/b")
        request = DeleteTopicsRequest([DeleteTopicState(name="orders")], [], 1000)
        response = await harness.request(DELETE_TOPICS, 6, request)
        # As with Kafka, the topic is gone from the metadata; its files wait for the directory.
        assert response.responses[0].error_code == ErrorCode.NONE
        assert harness.broker.metadata_cache.topic("orders") is None
        assert cluster.files.exists(f"/b/orders-{lost}")
        await harness.memory_broker.stop()

        harness = await start_broker(TWO)
        await cluster.clock.sleep_ms(120_000)
        assert harness.broker.metadata_cache.topic("orders") is None
        left = [name for path in ("/a", "/b") for name in cluster.files.list_names(path)]
        assert not [name for name in left if name.startswith("orders")]
        await harness.memory_broker.stop()

    run_with_restarts(scenario)


def test_broker_starts_without_a_log_dir_and_loads_it_once_it_is_back(run_with_restarts):
    async def scenario(cluster, start_broker):
        harness = await start_broker(TWO)
        await harness.create("orders", 2)
        for number in range(2):
            await harness.produce("orders", b"before", partition=number)
        lost = next(number for _, number in sizes((await describe(harness))["/b"]))
        await harness.memory_broker.stop()

        cluster.files.rename("/b", "/unplugged")
        cluster.files.write_whole("/b", b"not a directory")
        harness = await start_broker(TWO)
        assert (await harness.produce("orders", b"x", partition=lost)).error_code == STORAGE_ERROR
        assert (await harness.produce("orders", b"after", partition=1 - lost)).error_code == 0
        entry = (await partitions_of(harness, "orders"))[lost]
        assert (entry.error_code, entry.leader_id, entry.offline_replicas) == (NOT_AVAILABLE, -1, [7])
        assert (await describe(harness))["/b"].error_code == STORAGE_ERROR
        assert await harness.create("made-without-it", 2) == 0
        assert await harness.values("made-without-it") == []
        await harness.memory_broker.stop()

        cluster.files.remove("/b")
        cluster.files.rename("/unplugged", "/b")
        harness = await start_broker(TWO)
        assert await harness.values("orders", partition=lost) == [b"before"]
        assert await harness.values("orders", partition=1 - lost) == [b"before", b"after"]
        assert (await partitions_of(harness, "orders"))[lost].offline_replicas == []
        await harness.memory_broker.stop()

    run_with_restarts(scenario)


def test_start_fails_without_the_first_log_dir(run_with_restarts):
    async def scenario(cluster, start_broker):
        cluster.files.write_whole("/a", b"not a directory")
        with pytest.raises(
            StorageError, match=r"/a .* first of log\.dirs, which contains the cluster's state"
        ):
            await start_broker(TWO)

    run_with_restarts(scenario)


@pytest.mark.parametrize("name", ["meta.properties", "meta.properties.tmp"])
def test_log_dir_with_unreadable_meta_properties_is_offline(run_with_restarts, name):
    async def scenario(cluster, start_broker):
        cluster.files.make_directories("/b")
        if name == "meta.properties":
            cluster.files.make_directories(f"/b/{name}")  # reading it fails
        else:
            cluster.files.fail_next_write(errno.EROFS, name_end=f"/b/{name}")
        harness = await start_broker(TWO)
        assert harness.broker.log_dirs == ["/a"]
        assert "/b cannot be used as a data directory" in harness.broker.failures[0]
        await harness.memory_broker.stop()

    run_with_restarts(scenario)
