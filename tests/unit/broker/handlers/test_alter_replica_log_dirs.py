"""AlterReplicaLogDirs: a log moves to another directory while it is written and read."""

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


async def alter(town, path, topic="orders", partition=0, version=2):
    wanted = [AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(topic, [partition])])]
    answer = await town.ask(ALTER_REPLICA_LOG_DIRS, version, AlterReplicaLogDirsRequest(wanted))
    (result,) = answer.results
    assert result.topic_name == topic
    assert result.partitions[0].partition_index == partition
    return ErrorCode(result.partitions[0].error_code)


async def places(town):
    """Which directories hold a log of the partition, and whether it is on its way there."""
    answer = await town.ask(DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(None))
    return {
        result.log_dir: (part.is_future_key, part.offset_lag)
        for result in answer.results
        for topic in result.topics
        for part in topic.partitions
        if (topic.name, part.partition_index) == ORDERS
    }


async def home(town):
    """The directory of the partition's log, and the other one."""
    (path,) = await places(town)
    return path, "/b" if path == "/a" else "/a"


async def moved(town, path, seconds_max=60):
    """Wait until the partition's log is in this directory and in no other."""
    for _ in range(seconds_max * 100):
        if await places(town) == {path: (False, 0)}:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(await places(town))


async def throttle(town, bytes_per_second):
    config = AlterableConfig(THROTTLE, 0, str(bytes_per_second))
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(4, "7", [config])])
    answer = await town.ask(INCREMENTAL_ALTER_CONFIGS, 1, request)
    assert answer.responses[0].error_code == 0


async def fill(town, count, size=1000, start=0, **how):
    """Append so many values, one batch each; give them."""
    values = [b"%d:" % number + bytes(size) for number in range(start, start + count)]
    for value in values:
        assert (await town.produce("orders", value, **how)).error_code == 0
    return values


def log_of(town):
    return town.broker._replicas.find(*ORDERS).log


def names(town, path):
    return [name for name in town.cluster.files.list_names(path) if name.startswith("orders")]


@pytest.mark.parametrize("version", range(3))
def test_a_log_moves_to_another_directory(play, version):
    async def scenario(town):
        await town.create("orders", settings={"segment.bytes": "4000"})
        values = await fill(town, 20)
        source, target = await home(town)
        assert await alter(town, target, version=version) == 0
        await moved(town, target)
        assert await town.values("orders") == values
        assert names(town, target) == ["orders-0"]
        assert [name.endswith("-delete") for name in names(town, source)] == [True]
        values += await fill(town, 5, start=20)
        assert await town.values("orders") == values
        await town.cluster.clock.sleep_ms(120_000)
        assert names(town, source) == []

    play(scenario, TWO)


def test_an_empty_log_moves_too(play):
    async def scenario(town):
        await town.create("orders")
        _, target = await home(town)
        assert await alter(town, target) == 0
        await moved(town, target)
        assert (await town.produce("orders", b"first")).base_offset == 0

    play(scenario, TWO)


def test_a_log_is_written_and_read_all_the_while(play):
    async def scenario(town):
        await town.create("orders", settings={"segment.bytes": "4000"})
        values = await fill(town, 30)
        _, target = await home(town)
        await throttle(town, 20_000)
        assert await alter(town, target) == 0
        number = len(values)
        while await places(town) != {target: (False, 0)}:
            values += await fill(town, 1, start=number)
            number += 1
            assert (await town.fetch("orders", number - 1)).error_code == 0
            await town.cluster.clock.sleep_ms(100)
            assert number < 1000, "the move never ends"
        assert number > 35
        assert await town.values("orders") == values

    play(scenario, TWO)


def test_a_waiting_reader_gets_what_is_appended_after_the_move(play):
    async def scenario(town):
        await town.create("orders")
        await fill(town, 3)
        _, target = await home(town)
        other = await town.memory.connect()
        waiting = other.begin(FETCH, 17, town.fetch_request("orders", 3, max_wait_ms=20_000))
        await town.cluster.clock.sleep_ms(10)
        await alter(town, target)
        await moved(town, target)
        assert not waiting.done()
        await town.produce("orders", b"new")
        answer = await waiting
        assert len(answer.responses[0].partitions[0].records) > 0

    play(scenario, TWO)


def test_a_log_on_its_way_is_described_with_what_it_lacks(play):
    async def scenario(town):
        await town.create("orders")
        await fill(town, 10, size=300_000)
        source, target = await home(town)
        await throttle(town, 10_000)
        assert await alter(town, target) == 0
        await town.cluster.clock.sleep_ms(50)
        found = await places(town)
        assert found[source] == (False, 0)
        is_future, lag = found[target]
        assert is_future
        assert 0 < lag < 10
        await throttle(town, 1_000_000_000)
        await moved(town, target)

    play(scenario, TWO)


def test_the_throttle_holds_for_all_moves_together(play):
    async def scenario(town):
        await town.create("orders")
        await fill(town, 20, size=100_000)
        _, target = await home(town)
        await throttle(town, 100_000)
        begun_ms = town.cluster.clock.monotonic_ms()
        await alter(town, target)
        await moved(town, target)
        took_ms = town.cluster.clock.monotonic_ms() - begun_ms
        assert 15_000 < took_ms < 25_000

    play(scenario, TWO)


def test_what_cannot_be_moved_is_refused_by_itself(play):
    async def scenario(town):
        await town.create("orders", 2)
        await town.create("x" * 240)
        assert await alter(town, "/elsewhere") == ErrorCode.LOG_DIR_NOT_FOUND
        assert await alter(town, "a") == ErrorCode.LOG_DIR_NOT_FOUND
        assert await alter(town, "/a", topic="unknown") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await alter(town, "/a", partition=9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await alter(town, "/a", topic="x" * 240) == ErrorCode.INVALID_TOPIC_EXCEPTION
        source, target = await home(town)
        town.cluster.files.fail_next_write(errno.EIO, name_end=f"{source}/orders-0/{0:020}.log")
        await town.produce("orders", b"x")
        assert await alter(town, source) == ErrorCode.KAFKA_STORAGE_ERROR
        assert await alter(town, target) == ErrorCode.KAFKA_STORAGE_ERROR, "the partition is offline"
        assert await alter(town, target, partition=1) == 0, "it is there already"

    play(scenario, TWO)


def test_many_partitions_are_answered_each_by_itself(play):
    async def scenario(town):
        await town.create("orders", 3)
        wanted = [
            AlterReplicaLogDir("/b", [AlterReplicaLogDirTopic("orders", [0, 1, 2])]),
            AlterReplicaLogDir("/nowhere", [AlterReplicaLogDirTopic("orders", [1])]),
        ]
        answer = await town.ask(ALTER_REPLICA_LOG_DIRS, 2, AlterReplicaLogDirsRequest(wanted))
        (result,) = answer.results
        codes = {part.partition_index: part.error_code for part in result.partitions}
        assert codes == {0: 0, 1: ErrorCode.LOG_DIR_NOT_FOUND, 2: 0}, "the last wish for a partition counts"

    play(scenario, TWO)


@pytest.mark.parametrize("path", ["/a", "/b", "/c"])
def test_a_partition_that_is_not_here_yet_is_made_where_it_was_wished(play, path):
    async def scenario(town):
        assert await alter(town, path) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await town.create("orders")
        assert await places(town) == {path: (False, 0)}

    play(scenario, THREE)


def test_a_second_wish_puts_an_end_to_the_first(play):
    async def scenario(town):
        await town.create("orders", settings={"retention.ms": "-1"})
        values = await fill(town, 10, size=300_000)
        (source,) = await places(town)
        first, second = sorted({"/a", "/b", "/c"} - {source})
        await throttle(town, 10_000)
        assert await alter(town, first) == 0
        assert await alter(town, second) == 0
        assert set(await places(town)) == {source, second}
        assert await alter(town, source) == 0
        assert await places(town) == {source: (False, 0)}
        await throttle(town, 1_000_000_000)
        await town.cluster.clock.sleep_ms(120_000)
        assert await places(town) == {source: (False, 0)}
        assert names(town, first) == names(town, second) == []
        assert await town.values("orders") == values

    play(scenario, THREE)


def test_the_same_wish_again_changes_nothing(play):
    async def scenario(town):
        await town.create("orders")
        await fill(town, 10, size=300_000)
        _, target = await home(town)
        await throttle(town, 100_000)
        await alter(town, target)
        await town.cluster.clock.sleep_ms(15_000)
        before = await places(town)
        assert before[target][0]
        assert await alter(town, target) == 0
        assert await places(town) == before

    play(scenario, TWO)


def test_a_move_goes_on_after_a_restart(outlive):
    async def scenario(cluster, begin):
        town = await begin(TWO)
        await town.create("orders")
        values = await fill(town, 10, size=300_000)
        _, target = await home(town)
        await throttle(town, 100_000)
        await alter(town, target)
        await cluster.clock.sleep_ms(15_000)
        _, lag = (await places(town))[target]
        assert 0 < lag < 10
        await town.memory.stop()

        town = await begin(TWO)
        _, left = (await places(town))[target]
        assert 0 < left <= lag, "what was copied is not copied again"
        await moved(town, target)
        assert await town.values("orders") == values
        await town.memory.stop()

        town = await begin(TWO)
        assert await places(town) == {target: (False, 0)}
        assert await town.values("orders") == values
        await town.memory.stop()

    outlive(scenario)


def test_a_full_target_makes_a_move_wait_and_harms_nothing(play):
    async def scenario(town):
        await town.create("orders")
        values = await fill(town, 10)
        source, target = await home(town)
        files = town.cluster.files
        write, is_full = files.write, True

        def write_if_room(path, inode, position, data):
            if is_full and "-future/" in path and path.endswith(".log"):
                raise OSError(errno.ENOSPC, "No space left on device", path)
            write(path, inode, position, data)

        files.write = write_if_room
        assert await alter(town, target) == 0
        values += await fill(town, 3, start=10)
        await town.cluster.clock.sleep_ms(20_000)
        found = await places(town)
        assert (found[source], found[target][0]) == ((False, 0), True)
        assert await town.values("orders") == values
        is_full = False
        await moved(town, target)
        assert await town.values("orders") == values
        assert town.broker.failures == []

    play(scenario, TWO)


def test_a_failing_target_ends_the_move_and_harms_nothing(play):
    async def scenario(town):
        await town.create("orders")
        values = await fill(town, 10, size=300_000)
        source, target = await home(town)
        await throttle(town, 100_000)
        await alter(town, target)
        (future,) = names(town, target)
        town.cluster.files.fail_next_write(errno.EIO, name_end=f"{future}/{0:020}.log")
        await town.cluster.clock.sleep_ms(20_000)
        assert town.broker.log_dirs == [source]
        assert await town.values("orders") == values
        assert await places(town) == {source: (False, 0)}

    play(scenario, TWO)


def test_a_failing_source_takes_the_partition_offline_and_keeps_what_was_copied(play):
    async def scenario(town):
        await town.create("orders")
        await fill(town, 10, size=300_000)
        source, target = await home(town)
        await throttle(town, 100_000)
        await alter(town, target)
        town.cluster.files.fail_next_write(errno.EIO, name_end=f"{source}/orders-0/{0:020}.log")
        assert (await town.produce("orders", b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await town.cluster.clock.sleep_ms(60_000)
        assert (await town.fetch("orders")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        (future,) = names(town, target)
        assert future.endswith("-future")

    play(scenario, TWO)


def test_a_topic_that_is_deleted_while_it_moves_leaves_nothing(play):
    async def scenario(town):
        await town.create("orders")
        await fill(town, 10, size=300_000)
        source, target = await home(town)
        await throttle(town, 100_000)
        await alter(town, target)
        request = DeleteTopicsRequest([DeleteTopicState(name="orders")], [], 10_000)
        assert (await town.ask(DELETE_TOPICS, 6, request)).responses[0].error_code == 0
        await town.cluster.clock.sleep_ms(120_000)
        assert names(town, source) == names(town, target) == []
        assert await town.create("orders") == 0
        assert await town.values("orders") == []

    play(scenario, TWO)


@pytest.mark.parametrize("start", [1, 4, 7, 10])
def test_the_start_of_a_log_moves_along(outlive, start):
    async def scenario(cluster, begin):
        town = await begin(TWO)
        await town.create("orders", settings={"segment.bytes": "4000"})
        for number in range(5):
            await town.produce("orders", b"%d" % number, b"%d'" % number)
        part = DeleteRecordsPartition(0, start)
        await town.ask(DELETE_RECORDS, 2, DeleteRecordsRequest([DeleteRecordsTopic("orders", [part])], 1000))
        _, target = await home(town)
        await alter(town, target)
        await moved(town, target)
        assert await first_offset(town) == start
        assert (await town.fetch("orders", start - 1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (await town.produce("orders", b"next")).base_offset == 10
        await town.memory.stop()
        town = await begin(TWO)
        assert await first_offset(town) == start
        await town.memory.stop()

    outlive(scenario)


async def first_offset(town):
    asked = ListOffsetsTopic("orders", [ListOffsetsPartition(0, -1, -2)])
    answer = await town.ask(LIST_OFFSETS, 7, ListOffsetsRequest(-1, 0, [asked]))
    return answer.topics[0].partitions[0].offset


def test_a_start_that_overtakes_the_move_lets_it_begin_again(play):
    async def scenario(town):
        await town.create("orders", settings={"segment.bytes": "700000"})
        await fill(town, 10, size=300_000)
        _, target = await home(town)
        await throttle(town, 100_000)
        await alter(town, target)
        await town.cluster.clock.sleep_ms(100)
        assert (await places(town))[target][1] > 2
        part = DeleteRecordsPartition(0, 9)
        await town.ask(DELETE_RECORDS, 2, DeleteRecordsRequest([DeleteRecordsTopic("orders", [part])], 1000))
        await moved(town, target)
        assert await first_offset(town) == 9
        assert len(await town.values("orders", 9)) == 1

    play(scenario, TWO)


def test_a_repeated_batch_is_known_after_the_move(play):
    async def scenario(town):
        await town.create("orders")
        producer = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
        assert (await town.produce("orders", b"once", **producer)).base_offset == 0
        _, target = await home(town)
        await alter(town, target)
        await moved(town, target)
        assert (await town.produce("orders", b"once", **producer)).base_offset == 0
        assert await town.values("orders") == [b"once"]

    play(scenario, TWO)


def test_leader_epochs_move_along(outlive):
    async def scenario(cluster, begin):
        for number in range(3):
            town = await begin(TWO)
            if not number:
                await town.create("orders")
            await town.produce("orders", b"x")
            if number < 2:
                await town.memory.stop()
        before = log_of(town).epochs.entries
        _, target = await home(town)
        await alter(town, target)
        await moved(town, target)
        assert log_of(town).epochs.entries == before
        await town.memory.stop()

    outlive(scenario)


def test_settings_changed_during_a_move_hold_after_it(play):
    async def scenario(town):
        await town.create("orders")
        await fill(town, 10, size=300_000)
        _, target = await home(town)
        await throttle(town, 200_000)
        await alter(town, target)
        config = AlterableConfig("segment.bytes", 0, "123456")
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(2, "orders", [config])])
        await town.ask(INCREMENTAL_ALTER_CONFIGS, 1, request)
        await moved(town, target)
        assert log_of(town).config.segment_bytes == 123456

    play(scenario, TWO)


def test_compaction_leaves_a_log_alone_while_it_moves_and_goes_on_after(play):
    async def scenario(town):
        await town.create("orders", settings={"cleanup.policy": "compact,delete", "retention.ms": "-1"})
        partition = town.broker._replicas.find(*ORDERS)
        for number in range(10):
            batch = BatchBuilder()
            batch.append(1000, b"key", b"%d" % number + bytes(300_000))
            partition.append(bytearray(batch.build()), -1, 11, 1000)
        _, target = await home(town)
        await throttle(town, 500_000)
        paused = town.broker._cleaner._pauses
        await alter(town, target)
        await town.cluster.clock.sleep_ms(10)
        assert paused[ORDERS] == 1
        await alter(town, target)
        await moved(town, target)
        assert ORDERS not in paused
        await alter(town, "/a" if target == "/b" else "/b")
        await town.cluster.clock.sleep_ms(10)
        assert paused[ORDERS] == 1
        await alter(town, target)
        assert ORDERS not in paused

    play(scenario, TWO)
