"""Several data directories under one broker: what is told of them, and what is left when one fails."""

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


async def describe(town, topics=None, version=4):
    response = await town.ask(DESCRIBE_LOG_DIRS, version, DescribeLogDirsRequest(topics))
    assert response.error_code == 0
    return {result.log_dir: result for result in response.results}


def sizes(result):
    return {
        (topic.name, part.partition_index): part.partition_size
        for topic in result.topics
        for part in topic.partitions
    }


async def partitions_of(town, topic):
    request = MetadataRequest([MetadataRequestTopic(name=topic)])
    found = (await town.ask(METADATA, 12, request)).topics[0]
    return {part.partition_index: part for part in found.partitions}


async def break_disk(town, topic, partition, path):
    """Let an append to this partition find out that its disk is broken."""
    town.cluster.files.fail_next_write(errno.EIO, name_end=f"{path}/{topic}-{partition}/{0:020}.log")
    return await town.produce(topic, b"x", partition=partition)


@pytest.mark.parametrize("version", range(5))
def test_every_directory_is_described_with_the_sizes_of_its_replicas(play, version):
    async def scenario(town):
        await town.create("orders", 3)
        await town.produce("orders", b"x" * 1000, partition=1)
        found = await describe(town, version=version)
        assert list(found) == ["/a", "/b"]
        assert set(sizes(found["/a"])) | set(sizes(found["/b"])) == {("orders", n) for n in range(3)}
        assert sorted(len(sizes(one)) for one in found.values()) == [1, 2]
        both = sizes(found["/a"]) | sizes(found["/b"])
        assert both["orders", 1] > 1000
        assert both["orders", 0] == both["orders", 2] == 0
        for result in found.values():
            assert result.error_code == 0
            entries = [part for topic in result.topics for part in topic.partitions]
            assert all((one.offset_lag, one.is_future_key) == (0, False) for one in entries)
            if version >= 4:
                assert result.total_bytes == DISK_BYTES
                assert 0 < result.usable_bytes < DISK_BYTES - 1000
            else:
                assert (result.total_bytes, result.usable_bytes) == (-1, -1)

    play(scenario, TWO)


def test_only_the_partitions_asked_for_are_described(play):
    async def scenario(town):
        await town.create("orders", 4)
        await town.create("others", 2)
        asked = [DescribableLogDirTopic("orders", [1, 77]), DescribableLogDirTopic("unknown", [0])]
        found = await describe(town, asked)
        assert list(found) == ["/a", "/b"], "directories are listed even with nothing to say of them"
        assert [key for one in found.values() for key in sizes(one)] == [("orders", 1)]
        assert [sizes(one) for one in (await describe(town, [])).values()] == [{}, {}]

    play(scenario, TWO)


def test_each_directory_is_locked_and_says_whose_it_is(play):
    async def scenario(town):
        for path in ("/a", "/b"):
            assert b"broker.id=7" in town.cluster.files.read_whole(f"{path}/meta.properties")
            with pytest.raises(BlockingIOError):
                town.cluster.files.lock(f"{path}/.lock")

    play(scenario, TWO)


def test_a_failed_directory_goes_offline_alone(play):
    async def scenario(town):
        await town.create("orders", 4)
        for number in range(4):
            assert (await town.produce("orders", b"x", partition=number)).error_code == 0
        found = await describe(town)
        lost = [number for _, number in sizes(found["/b"])]
        kept = [number for _, number in sizes(found["/a"])]
        assert len(lost) == len(kept) == 2

        assert (await break_disk(town, "orders", lost[0], "/b")).error_code == STORAGE_ERROR
        for number in lost:
            assert (await town.produce("orders", b"x", partition=number)).error_code == STORAGE_ERROR
            assert (await town.fetch("orders", partition=number)).error_code == STORAGE_ERROR
            asked = ListOffsetsTopic("orders", [ListOffsetsPartition(number, -1, -1)])
            answer = await town.ask(LIST_OFFSETS, 7, ListOffsetsRequest(-1, 0, [asked]))
            assert answer.topics[0].partitions[0].error_code == STORAGE_ERROR
            asked = DeleteRecordsTopic("orders", [DeleteRecordsPartition(number, 1)])
            answer = await town.ask(DELETE_RECORDS, 2, DeleteRecordsRequest([asked], 1000))
            assert answer.topics[0].partitions[0].error_code == STORAGE_ERROR
        for number in kept:
            assert (await town.produce("orders", b"y", partition=number)).error_code == 0
            assert await town.values("orders", partition=number) == [b"x", b"y"]

        shown = await partitions_of(town, "orders")
        for number in lost:
            entry = shown[number]
            assert (entry.error_code, entry.leader_id, entry.leader_epoch) == (NOT_AVAILABLE, -1, 1)
            assert (entry.replica_nodes, entry.isr_nodes, entry.offline_replicas) == ([7], [7], [7])
        assert all(shown[number].error_code == 0 for number in kept)
        assert not town.broker.all_failed.is_set()

        found = await describe(town)
        assert (found["/b"].error_code, found["/b"].topics) == (STORAGE_ERROR, [])
        assert (found["/b"].total_bytes, found["/b"].usable_bytes) == (-1, -1)
        assert (found["/a"].error_code, len(sizes(found["/a"]))) == (0, 2)
        assert await town.create("more", 3) == 0
        assert len(sizes((await describe(town))["/a"])) == 5, "new logs go to what is left"

    play(scenario, TWO)


def test_a_waiting_fetch_is_told_when_the_directory_fails(play):
    async def scenario(town):
        await town.create("orders", 2)
        path = next(path for path, one in (await describe(town)).items() if ("orders", 0) in sizes(one))
        waiting = town.client.begin(1, 17, town.fetch_request("orders", max_wait_ms=60_000))
        other = await town.memory.connect()
        began_ms = town.cluster.clock.monotonic_ms()
        town.client = other
        await break_disk(town, "orders", 0, path)
        answer = await waiting
        assert answer.responses[0].partitions[0].error_code == STORAGE_ERROR
        assert town.cluster.clock.monotonic_ms() - began_ms < 1000

    play(scenario, TWO)


def test_a_failed_sync_is_the_end_of_its_directory(play):
    async def scenario(town):
        await town.create("orders", 2, {"segment.bytes": "300"})
        path = next(path for path, one in (await describe(town)).items() if ("orders", 0) in sizes(one))
        town.cluster.files.fail_next_sync(errno.EIO, name_end=f"{path}/orders-0/{0:020}.log")
        for _ in range(4):
            assert (await town.produce("orders", b"x" * 100)).error_code == 0
        await town.cluster.clock.sleep_ms(5_000)
        assert (await town.produce("orders", b"x")).error_code == STORAGE_ERROR
        assert (await town.produce("orders", b"x", partition=1)).error_code == 0

    play(scenario, TWO)


def test_a_broker_whose_last_directory_failed_says_so(play):
    async def scenario(town):
        await town.create("orders", 2)
        first = next(number for _, number in sizes((await describe(town))["/a"]))
        await break_disk(town, "orders", 1 - first, "/b")
        await town.fetch("orders", partition=first)
        assert not town.broker.all_failed.is_set()
        await break_disk(town, "orders", first, "/a")
        await town.fetch("orders", partition=first)
        assert town.broker.all_failed.is_set()
        assert len(town.broker.failures) == 2

    play(scenario, TWO)


def test_a_topic_on_a_failed_directory_is_deleted_once_the_directory_is_back(outlive):
    async def scenario(cluster, begin):
        town = await begin(TWO)
        await town.create("orders", 2)
        lost = next(number for _, number in sizes((await describe(town))["/b"]))
        await break_disk(town, "orders", lost, "/b")
        request = DeleteTopicsRequest([DeleteTopicState(name="orders")], [], 1000)
        answer = await town.ask(DELETE_TOPICS, 6, request)
        assert answer.responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT
        assert cluster.files.exists(f"/b/orders-{lost}")
        await town.memory.stop()

        town = await begin(TWO)
        await cluster.clock.sleep_ms(120_000)
        assert town.broker.image.topic("orders") is None
        left = [name for path in ("/a", "/b") for name in cluster.files.list_names(path)]
        assert not [name for name in left if name.startswith("orders")]
        await town.memory.stop()

    outlive(scenario)


def test_a_broker_starts_without_a_directory_and_finds_its_logs_again_when_it_is_back(outlive):
    async def scenario(cluster, begin):
        town = await begin(TWO)
        await town.create("orders", 2)
        for number in range(2):
            await town.produce("orders", b"before", partition=number)
        lost = next(number for _, number in sizes((await describe(town))["/b"]))
        await town.memory.stop()

        cluster.files.rename("/b", "/unplugged")
        cluster.files.write_whole("/b", b"not a directory")
        town = await begin(TWO)
        assert (await town.produce("orders", b"x", partition=lost)).error_code == STORAGE_ERROR
        assert (await town.produce("orders", b"after", partition=1 - lost)).error_code == 0
        entry = (await partitions_of(town, "orders"))[lost]
        assert (entry.error_code, entry.leader_id, entry.offline_replicas) == (NOT_AVAILABLE, -1, [7])
        assert (await describe(town))["/b"].error_code == STORAGE_ERROR
        assert await town.create("made-without-it", 2) == 0
        assert await town.values("made-without-it") == []
        await town.memory.stop()

        cluster.files.remove("/b")
        cluster.files.rename("/unplugged", "/b")
        town = await begin(TWO)
        assert await town.values("orders", partition=lost) == [b"before"]
        assert await town.values("orders", partition=1 - lost) == [b"before", b"after"]
        assert (await partitions_of(town, "orders"))[lost].offline_replicas == []
        await town.memory.stop()

    outlive(scenario)


def test_the_first_directory_holds_the_state_and_is_not_done_without(outlive):
    async def scenario(cluster, begin):
        cluster.files.write_whole("/a", b"not a directory")
        with pytest.raises(StorageError, match=r"/a .* first of log\.dirs, which holds the cluster's state"):
            await begin(TWO)

    outlive(scenario)


@pytest.mark.parametrize("name", ["meta.properties", "meta.properties.tmp"])
def test_a_directory_that_cannot_say_whose_it_is_is_left_out(outlive, name):
    async def scenario(cluster, begin):
        cluster.files.make_directories("/b")
        if name == "meta.properties":
            cluster.files.make_directories(f"/b/{name}")  # reading it fails
        else:
            cluster.files.fail_next_write(errno.EROFS, name_end=f"/b/{name}")
        town = await begin(TWO)
        assert town.broker.log_dirs == ["/a"]
        assert "/b cannot be used as a data directory" in town.broker.failures[0]
        await town.memory.stop()

    outlive(scenario)
