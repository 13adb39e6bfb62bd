"""AlterReplicaLogDirs: a replica moves to another log directory while it is written and read."""

import asyncio
import errno

import pytest

from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.records.batch import BatchBuilder
from odradek.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

FETCH, LIST_OFFSETS, DELETE_TOPICS, DELETE_RECORDS = 1, 2, 20, 21
ALTER_REPLICA_LOG_DIRS, DESCRIBE_LOG_DIRS, INCREMENTAL_ALTER_CONFIGS = 34, 35, 44
TWO = {"log.dirs": "/a,/b", "broker.id": "7"}
THREE = {"log.dirs": "/a,/b,/c", "broker.id": "7"}
ORDERS = TopicPartition("orders", 0)
THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"


async def alter(harness, path, topic="orders", partition=0, version=2):
    expected = [AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(topic, [partition])])]
    response = await harness.request(ALTER_REPLICA_LOG_DIRS, version, AlterReplicaLogDirsRequest(expected))
    (result,) = response.results
    assert result.topic_name == topic
    assert result.partitions[0].partition_index == partition
    return ErrorCode(result.partitions[0].error_code)


async def replica_locations(harness):
    """Return the directories with a log of the partition: whether it is the future replica, and its lag."""
    response = await harness.request(DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(None))
    return {
        result.log_dir: (part.is_future_key, part.offset_lag)
        for result in response.results
        for topic in result.topics
        for part in topic.partitions
        if (topic.name, part.partition_index) == ORDERS
    }


async def current_and_other_dir(harness):
    """Return the directory of the partition's log, and the other one."""
    (path,) = await replica_locations(harness)
    return path, "/b" if path == "/a" else "/a"


async def wait_until_moved(harness, path, seconds_max=60):
    """Wait until the partition's log is in this directory and in no other."""
    for _ in range(seconds_max * 100):
        if await replica_locations(harness) == {path: (False, 0)}:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(await replica_locations(harness))


async def throttle(harness, bytes_per_second):
    config = AlterableConfig(THROTTLE, 0, str(bytes_per_second))
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(4, "7", [config])])
    response = await harness.request(INCREMENTAL_ALTER_CONFIGS, 1, request)
    assert response.responses[0].error_code == 0


async def fill(harness, count, size=1000, start=0, **options):
    """Append ``count`` values, one batch each; return them."""
    values = [b"%d:" % number + bytes(size) for number in range(start, start + count)]
    for value in values:
        assert (await harness.produce("orders", value, **options)).error_code == 0
    return values


def log_of(harness):
    return harness.broker._replica_manager.get_partition(*ORDERS).log


def names(harness, path):
    return [name for name in harness.cluster.files.list_names(path) if name.startswith("orders")]


@pytest.mark.parametrize("version", range(3))
def test_replica_moves_to_another_log_dir(run_scenario, version):
    async def scenario(harness):
        await harness.create("orders", settings={"segment.bytes": "4000"})
        values = await fill(harness, 20)
        source, target = await current_and_other_dir(harness)
        assert await alter(harness, target, version=version) == 0
        await wait_until_moved(harness, target)
        assert await harness.values("orders") == values
        assert names(harness, target) == ["orders-0"]
        assert [name.endswith("-delete") for name in names(harness, source)] == [True]
        values += await fill(harness, 5, start=20)
        assert await harness.values("orders") == values
        await harness.cluster.clock.sleep_ms(120_000)
        assert names(harness, source) == []

    run_scenario(scenario, TWO)


def test_empty_replica_moves(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        _, target = await current_and_other_dir(harness)
        assert await alter(harness, target) == 0
        await wait_until_moved(harness, target)
        assert (await harness.produce("orders", b"first")).base_offset == 0

    run_scenario(scenario, TWO)


def test_replica_is_written_and_read_during_a_move(run_scenario):
    async def scenario(harness):
        await harness.create("orders", settings={"segment.bytes": "4000"})
        values = await fill(harness, 30)
        _, target = await current_and_other_dir(harness)
        await throttle(harness, 20_000)
        assert await alter(harness, target) == 0
        number = len(values)
        while await replica_locations(harness) != {target: (False, 0)}:
            values += await fill(harness, 1, start=number)
            number += 1
            assert (await harness.fetch("orders", number - 1)).error_code == 0
            await harness.cluster.clock.sleep_ms(100)
            assert number < 1000, "the move never ends"
        assert number > 35
        assert await harness.values("orders") == values

    run_scenario(scenario, TWO)


def test_waiting_fetch_gets_records_appended_after_the_move(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        await fill(harness, 3)
        _, target = await current_and_other_dir(harness)
        other = await harness.memory_broker.connect()
        waiting = other.send(FETCH, 17, harness.fetch_request("orders", 3, max_wait_ms=20_000))
        await harness.cluster.clock.sleep_ms(10)
        await alter(harness, target)
        await wait_until_moved(harness, target)
        assert not waiting.done()
        await harness.produce("orders", b"new")
        response = await waiting
        assert len(response.responses[0].partitions[0].records) > 0

    run_scenario(scenario, TWO)


def test_future_replica_is_described_with_its_lag(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        await fill(harness, 10, size=300_000)
        source, target = await current_and_other_dir(harness)
        await throttle(harness, 10_000)
        assert await alter(harness, target) == 0
        await harness.cluster.clock.sleep_ms(50)
        result = await replica_locations(harness)
        assert result[source] == (False, 0)
        is_future, lag = result[target]
        assert is_future
        assert 0 < lag < 10
        await throttle(harness, 1_000_000_000)
        await wait_until_moved(harness, target)

    run_scenario(scenario, TWO)


def test_throttle_limits_all_moves_together(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        await fill(harness, 20, size=100_000)
        _, target = await current_and_other_dir(harness)
        await throttle(harness, 100_000)
        begun_ms = harness.cluster.clock.monotonic_ms()
        await alter(harness, target)
        await wait_until_moved(harness, target)
        took_ms = harness.cluster.clock.monotonic_ms() - begun_ms
        assert 15_000 < took_ms < 25_000

    run_scenario(scenario, TWO)


def test_each_invalid_move_is_rejected(run_scenario):
    async def scenario(harness):
        await harness.create("orders", 2)
        await harness.create("x" * 240)
        assert await alter(harness, "/elsewhere") == ErrorCode.LOG_DIR_NOT_FOUND
        assert await alter(harness, "a") == ErrorCode.LOG_DIR_NOT_FOUND
        assert await alter(harness, "/a", topic="unknown") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await alter(harness, "/a", partition=9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await alter(harness, "/a", topic="x" * 240) == ErrorCode.INVALID_TOPIC_EXCEPTION
        source, target = await current_and_other_dir(harness)
        harness.cluster.files.fail_next_write(errno.EIO, name_end=f"{source}/orders-0/{0:020}.log")
        await harness.produce("orders", b"x")
        assert await alter(harness, source) == ErrorCode.KAFKA_STORAGE_ERROR
        assert await alter(harness, target) == ErrorCode.KAFKA_STORAGE_ERROR, "the partition is offline"
        assert await alter(harness, target, partition=1) == 0, "it is already there"

    run_scenario(scenario, TWO)


def test_each_partition_gets_its_own_error_code(run_scenario):
    async def scenario(harness):
        await harness.create("orders", 3)
        expected = [
            AlterReplicaLogDir("/b", [AlterReplicaLogDirTopic("orders", [0, 1, 2])]),
            AlterReplicaLogDir("/nowhere", [AlterReplicaLogDirTopic("orders", [1])]),
        ]
        response = await harness.request(ALTER_REPLICA_LOG_DIRS, 2, AlterReplicaLogDirsRequest(expected))
        (result,) = response.results
        codes = {part.partition_index: part.error_code for part in result.partitions}
        assert codes == {0: 0, 1: ErrorCode.LOG_DIR_NOT_FOUND, 2: 0}, "the last target of a partition applies"

    run_scenario(scenario, TWO)


@pytest.mark.parametrize("path", ["/a", "/b", "/c"])
def test_requested_log_dir_applies_to_a_partition_created_later(run_scenario, path):
    async def scenario(harness):
        assert await alter(harness, path) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await harness.create("orders")
        assert await replica_locations(harness) == {path: (False, 0)}

    run_scenario(scenario, THREE)


def test_new_move_request_cancels_the_previous_move(run_scenario):
    async def scenario(harness):
        await harness.create("orders", settings={"retention.ms": "-1"})
        values = await fill(harness, 10, size=300_000)
        (source,) = await replica_locations(harness)
        first, second = sorted({"/a", "/b", "/c"} - {source})
        await throttle(harness, 10_000)
        assert await alter(harness, first) == 0
        assert await alter(harness, second) == 0
        assert set(await replica_locations(harness)) == {source, second}
        assert await alter(harness, source) == 0
        assert await replica_locations(harness) == {source: (False, 0)}
        await throttle(harness, 1_000_000_000)
        await harness.cluster.clock.sleep_ms(120_000)
        assert await replica_locations(harness) == {source: (False, 0)}
        assert names(harness, first) == names(harness, second) == []
        assert await harness.values("orders") == values

    run_scenario(scenario, THREE)


def test_repeated_move_request_changes_nothing(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        await fill(harness, 10, size=300_000)
        _, target = await current_and_other_dir(harness)
        await throttle(harness, 100_000)
        await alter(harness, target)
        await harness.cluster.clock.sleep_ms(15_000)
        before = await replica_locations(harness)
        assert before[target][0]
        assert await alter(harness, target) == 0
        assert await replica_locations(harness) == before

    run_scenario(scenario, TWO)


def test_move_resumes_after_a_restart(run_with_restarts):
    async def scenario(cluster, start_broker):
        harness = await start_broker(TWO)
        await harness.create("orders")
        values = await fill(harness, 10, size=300_000)
        _, target = await current_and_other_dir(harness)
        await throttle(harness, 100_000)
        await alter(harness, target)
        await cluster.clock.sleep_ms(15_000)
        _, lag = (await replica_locations(harness))[target]
        assert 0 < lag < 10
        await harness.memory_broker.stop()

        harness = await start_broker(TWO)
        _, left = (await replica_locations(harness))[target]
        assert 0 < left <= lag, "copied data is not copied again"
        await wait_until_moved(harness, target)
        assert await harness.values("orders") == values
        await harness.memory_broker.stop()

        harness = await start_broker(TWO)
        assert await replica_locations(harness) == {target: (False, 0)}
        assert await harness.values("orders") == values
        await harness.memory_broker.stop()

    run_with_restarts(scenario)


def test_full_target_log_dir_delays_the_move(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        values = await fill(harness, 10)
        source, target = await current_and_other_dir(harness)
        files = harness.cluster.files
        write, is_full = files.write, True

        def write_if_room(path, inode, position, data):
            if is_full and "-future/" in path and path.endswith(".log"):
                raise OSError(errno.ENOSPC, "No space left on device", path)
            write(path, inode, position, data)

        files.write = write_if_room
        assert await alter(harness, target) == 0
        values += await fill(harness, 3, start=10)
        await harness.cluster.clock.sleep_ms(20_000)
        result = await replica_locations(harness)
        assert (result[source], result[target][0]) == ((False, 0), True)
        assert await harness.values("orders") == values
        is_full = False
        await wait_until_moved(harness, target)
        assert await harness.values("orders") == values
        assert harness.broker.failures == []

    run_scenario(scenario, TWO)


def test_failing_target_log_dir_cancels_the_move(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        values = await fill(harness, 10, size=300_000)
        source, target = await current_and_other_dir(harness)
        await throttle(harness, 100_000)
        await alter(harness, target)
        (future,) = names(harness, target)
        harness.cluster.files.fail_next_write(errno.EIO, name_end=f"{future}/{0:020}.log")
        await harness.cluster.clock.sleep_ms(20_000)
        assert harness.broker.log_dirs == [source]
        assert await harness.values("orders") == values
        assert await replica_locations(harness) == {source: (False, 0)}

    run_scenario(scenario, TWO)


def test_failing_source_log_dir_takes_the_partition_offline_and_keeps_the_copy(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        await fill(harness, 10, size=300_000)
        source, target = await current_and_other_dir(harness)
        await throttle(harness, 100_000)
        await alter(harness, target)
        harness.cluster.files.fail_next_write(errno.EIO, name_end=f"{source}/orders-0/{0:020}.log")
        assert (await harness.produce("orders", b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await harness.cluster.clock.sleep_ms(60_000)
        assert (await harness.fetch("orders")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        (future,) = names(harness, target)
        assert future.endswith("-future")

    run_scenario(scenario, TWO)


def test_topic_deleted_during_a_move_leaves_no_files(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        await fill(harness, 10, size=300_000)
        source, target = await current_and_other_dir(harness)
        await throttle(harness, 100_000)
        await alter(harness, target)
        request = DeleteTopicsRequest([DeleteTopicState(name="orders")], [], 10_000)
        assert (await harness.request(DELETE_TOPICS, 6, request)).responses[0].error_code == 0
        await harness.cluster.clock.sleep_ms(120_000)
        assert names(harness, source) == names(harness, target) == []
        assert await harness.create("orders") == 0
        assert await harness.values("orders") == []

    run_scenario(scenario, TWO)


@pytest.mark.parametrize("start", [1, 4, 7, 10])
def test_log_start_offset_is_kept_by_a_move(run_with_restarts, start):
    async def scenario(cluster, start_broker):
        harness = await start_broker(TWO)
        await harness.create("orders", settings={"segment.bytes": "4000"})
        for number in range(5):
            await harness.produce("orders", b"%d" % number, b"%d'" % number)
        part = DeleteRecordsPartition(0, start)
        await harness.request(
            DELETE_RECORDS, 2, DeleteRecordsRequest([DeleteRecordsTopic("orders", [part])], 1000)
        )
        _, target = await current_and_other_dir(harness)
        await alter(harness, target)
        await wait_until_moved(harness, target)
        assert await first_offset(harness) == start
        assert (await harness.fetch("orders", start - 1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (await harness.produce("orders", b"next")).base_offset == 10
        await harness.memory_broker.stop()
        harness = await start_broker(TWO)
        assert await first_offset(harness) == start
        await harness.memory_broker.stop()

    run_with_restarts(scenario)


async def first_offset(harness):
    requested = ListOffsetsTopic("orders", [ListOffsetsPartition(0, -1, -2)])
    response = await harness.request(LIST_OFFSETS, 7, ListOffsetsRequest(-1, 0, [requested]))
    return response.topics[0].partitions[0].offset


def test_log_start_offset_beyond_the_copied_part_restarts_the_move(run_scenario):
    async def scenario(harness):
        await harness.create("orders", settings={"segment.bytes": "700000"})
        await fill(harness, 10, size=300_000)
        _, target = await current_and_other_dir(harness)
        await throttle(harness, 100_000)
        await alter(harness, target)
        await harness.cluster.clock.sleep_ms(100)
        assert (await replica_locations(harness))[target][1] > 2
        part = DeleteRecordsPartition(0, 9)
        await harness.request(
            DELETE_RECORDS, 2, DeleteRecordsRequest([DeleteRecordsTopic("orders", [part])], 1000)
        )
        await wait_until_moved(harness, target)
        assert await first_offset(harness) == 9
        assert len(await harness.values("orders", 9)) == 1

    run_scenario(scenario, TWO)


@pytest.mark.parametrize(
    ("offset", "ends"),
    [
        (1, "copied"),  # in the part that was copied: the next chunk brings the start offset
        (9, "restarted"),  # beyond it: the future log is dropped
    ],
)
def test_deleted_records_are_gone_from_the_future_log_too(run_scenario, offset, ends):
    async def scenario(harness):
        await harness.create("orders", settings={"segment.bytes": "700000"})
        await fill(harness, 10, size=300_000)
        _, target = await current_and_other_dir(harness)
        await throttle(harness, 300_000)
        await alter(harness, target)
        await harness.cluster.clock.sleep_ms(100)
        future = harness.broker._replica_manager.get_partition(*ORDERS).future_log
        assert (future.log_start_offset, future.log_end_offset) == (0, 2)
        part = DeleteRecordsPartition(0, offset)
        request = DeleteRecordsRequest([DeleteRecordsTopic("orders", [part])], 60_000)
        waiting = harness.client.send(DELETE_RECORDS, 2, request)
        await harness.cluster.clock.sleep_ms(100)
        assert not waiting.done(), "a crash could bring the records back with the future log"
        result = (await waiting).topics[0].partitions[0]
        assert (result.error_code, result.low_watermark) == (0, offset)
        assert (future.log_start_offset == offset) is (ends == "copied")
        await wait_until_moved(harness, target)
        assert harness.broker._replica_manager.get_partition(*ORDERS).future_log is None
        assert await first_offset(harness) == offset

    run_scenario(scenario, TWO)


def test_deletion_does_not_wait_for_a_cancelled_move(run_scenario):
    async def scenario(harness):
        await harness.create("orders", settings={"segment.bytes": "700000"})
        await fill(harness, 10, size=300_000)
        source, target = await current_and_other_dir(harness)
        await throttle(harness, 1)
        await alter(harness, target)
        await harness.cluster.clock.sleep_ms(100)
        part = DeleteRecordsPartition(0, 1)
        request = DeleteRecordsRequest([DeleteRecordsTopic("orders", [part])], 60_000)
        waiting = harness.client.send(DELETE_RECORDS, 2, request)
        await harness.cluster.clock.sleep_ms(100)
        assert not waiting.done()
        other = await harness.memory_broker.connect()
        expected = [AlterReplicaLogDir(source, [AlterReplicaLogDirTopic("orders", [0])])]
        await other.request(ALTER_REPLICA_LOG_DIRS, 2, AlterReplicaLogDirsRequest(expected))
        result = (await waiting).topics[0].partitions[0]
        assert (result.error_code, result.low_watermark) == (0, 1)

    run_scenario(scenario, TWO)


def test_duplicate_batch_is_detected_after_a_move(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        producer = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
        assert (await harness.produce("orders", b"once", **producer)).base_offset == 0
        _, target = await current_and_other_dir(harness)
        await alter(harness, target)
        await wait_until_moved(harness, target)
        assert (await harness.produce("orders", b"once", **producer)).base_offset == 0
        assert await harness.values("orders") == [b"once"]

    run_scenario(scenario, TWO)


def test_leader_epochs_are_kept_by_a_move(run_with_restarts):
    async def scenario(cluster, start_broker):
        for number in range(3):
            harness = await start_broker(TWO)
            if not number:
                await harness.create("orders")
            await harness.produce("orders", b"x")
            if number < 2:
                await harness.memory_broker.stop()
        before = log_of(harness).epochs.entries
        _, target = await current_and_other_dir(harness)
        await alter(harness, target)
        await wait_until_moved(harness, target)
        assert log_of(harness).epochs.entries == before
        await harness.memory_broker.stop()

    run_with_restarts(scenario)


def test_config_changed_during_a_move_applies_after_it(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        await fill(harness, 10, size=300_000)
        _, target = await current_and_other_dir(harness)
        await throttle(harness, 200_000)
        await alter(harness, target)
        config = AlterableConfig("segment.bytes", 0, "123456")
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(2, "orders", [config])])
        await harness.request(INCREMENTAL_ALTER_CONFIGS, 1, request)
        await wait_until_moved(harness, target)
        assert log_of(harness).config.segment_bytes == 123456

    run_scenario(scenario, TWO)


def test_cleaning_is_paused_during_a_move(run_scenario):
    async def scenario(harness):
        await harness.create("orders", settings={"cleanup.policy": "compact,delete", "retention.ms": "-1"})
        partition = harness.broker._replica_manager.get_partition(*ORDERS)
        for number in range(10):
            batch = BatchBuilder()
            batch.append(1000, b"key", b"%d" % number + bytes(300_000))
            partition.append(bytearray(batch.build()), -1, 11, 1000)
        _, target = await current_and_other_dir(harness)
        await throttle(harness, 500_000)
        paused = harness.broker._cleaner._pauses
        await alter(harness, target)
        await harness.cluster.clock.sleep_ms(10)
        assert paused[ORDERS] == 1
        await alter(harness, target)
        await wait_until_moved(harness, target)
        assert ORDERS not in paused
        await alter(harness, "/a" if target == "/b" else "/b")
        await harness.cluster.clock.sleep_ms(10)
        assert paused[ORDERS] == 1
        await alter(harness, target)
        assert ORDERS not in paused

    run_scenario(scenario, TWO)
