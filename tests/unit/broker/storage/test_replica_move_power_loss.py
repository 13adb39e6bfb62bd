"""Power loss at any file operation of a replica move: one log is left, with all acknowledged records.

The same move is repeated, with a flush for every record. Each time the files stop changing one operation
later; then power is lost, and the next broker on the same files must find the partition in one
directory, with every acknowledged record and no others.

Once the old log is removed, its directory may be lost too.
"""

import asyncio
import errno
from functools import partial
from typing import Any

import pytest
from hypothesis import settings

from odradek.model.ids import TopicPartition
from odradek.ports.files import FileSlice
from odradek.records import codec
from odradek.records.batch import BatchBuilder
from odradek.testing.broker import MemoryCluster
from odradek.testing.clock import run_virtually
from odradek.testing.entropy import SeededEntropy
from odradek.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE, FETCH, CREATE_TOPICS, ALTER_REPLICA_LOG_DIRS = 0, 1, 19, 34
TWO = {"log.dirs": "/a,/b", "broker.id": "7"}
NO_CHECKPOINTS = {
    "log.flush.offset.checkpoint.interval.ms": "1000000",
    "log.flush.start.offset.checkpoint.interval.ms": "1000000",
    "replica.high.watermark.checkpoint.interval.ms": "1000000",
}
"""Settings without periodic checkpoints: each would sync the log directory, and with it all names."""
ORDERS = TopicPartition("orders", 0)
BEFORE, DURING, AFTER = 3, 5, 1
CLEARED_EVERY = 10
"""One in this many runs waits until the files of the other log are removed."""


class KeepsAll:
    """Outcome of a killed process: the OS has all writes."""

    def below(self, limit):
        return limit - 1


class KeepsNothing:
    """Worst power loss: only synced data is left."""

    def below(self, limit):
        return 0


SEEDS = 3 if settings().max_examples > 1000 else 1
"""Random losses between the two extremes: more in the long profile."""
LOSSES = [KeepsAll(), KeepsNothing(), *map(SeededEntropy, range(1, SEEDS + 1))]


class Stopping:
    """Counts the operations that change files, and fails all from a given one on."""

    def __init__(self, files, count_max):
        self.count = 0
        self._count_max = count_max
        for name in ("write", "_change", "refuse_sync"):
            setattr(files, name, self._counted(getattr(files, name)))

    @property
    def is_stopped(self):
        return self.count >= self._count_max

    def _counted(self, work):
        def run(*specified):
            if self.is_stopped:
                raise OSError(errno.EIO, "the machine has stopped")
            self.count += 1
            work(*specified)

        return run


async def later(work):
    """Simulate a slow thread, so that records arrive between any two steps."""
    await asyncio.sleep(0.001)
    return work()


class ReplicaMove:
    """One replica move, until the files stop changing."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.sent = []
        self.acknowledged = 0
        self.stopping = None

    async def produce(self, count):
        for _ in range(count):
            value = b"%d:" % len(self.sent) + bytes(300)
            builder = BatchBuilder()
            builder.append(self.cluster.clock.wall_ms(), None, value)
            data = TopicProduceData("orders", [PartitionProduceData(0, bytearray(builder.build()))])
            self.sent.append(value)
            response = await self.client.request(PRODUCE, 11, ProduceRequest(None, -1, 30_000, [data]))
            code = response.responses[0].partition_responses[0].error_code
            if code == 0 and not (self.stopping and self.stopping.is_stopped):
                self.acknowledged = len(self.sent)

    async def begin(self, settings=TWO):
        self.memory_broker = await self.cluster.start(settings)
        self.client = await self.memory_broker.connect()

    async def create(self, topic, **configs):
        entries = [CreatableTopicConfig(name.replace("_", "."), value) for name, value in configs.items()]
        request = CreateTopicsRequest([CreatableTopic(topic, 1, 1, [], entries)])
        await self.client.request(CREATE_TOPICS, 7, request)

    def request_move(self, target):
        expected = [AlterReplicaLogDir(target, [AlterReplicaLogDirTopic("orders", [0])])]
        return self.client.send(ALTER_REPLICA_LOG_DIRS, 2, AlterReplicaLogDirsRequest(expected))

    async def move(self, count_max):
        """Return the number of file operations, and whether the move completed."""
        await self.begin()
        await self.create("orders", flush_messages="1", segment_bytes="1000")
        await self.produce(BEFORE)
        target = "/b" if self.log_dir() == "/a" else "/a"
        self.stopping = Stopping(self.cluster.files, count_max)
        self.cluster.files.offload = later
        requested = self.request_move(target)
        self.client = await self.memory_broker.connect()
        await self.produce(DURING)
        await requested
        await self.cluster.clock.sleep_ms(1000)
        is_done = self.log_dir() == target
        await self.produce(AFTER)
        return self.stopping.count, is_done and not self.stopping.is_stopped

    def log_dir(self):
        result = self.memory_broker.broker._log_manager.find(ORDERS)
        return None if result is None else result[0].path

    async def lose_power(self, randomness):
        for name in ("write", "_change", "refuse_sync", "offload"):
            vars(self.cluster.files).pop(name, None)
        self.cluster.entropy, entropy = randomness, self.cluster.entropy
        await self.memory_broker.kill()
        self.cluster.entropy = entropy

    async def read(self):
        values: list[Any] = []
        topic = self.memory_broker.broker.metadata_cache.topic("orders")
        while True:
            part = FetchPartition(0, fetch_offset=len(values), partition_max_bytes=1 << 20)
            requested = FetchTopic(topic="orders", topic_id=topic.topic_id, partitions=[part])
            request = FetchRequest(topics=[requested], min_bytes=1, max_wait_ms=0, max_bytes=1 << 20)
            entry = (await self.client.request(FETCH, 17, request)).responses[0].partitions[0]
            assert entry.error_code == 0
            records = entry.records
            data = records.read() if isinstance(records, FileSlice) else bytes(records or b"")
            result = [record.value for record in codec.decode(data)]
            if not result:
                return values
            values += result


async def run_scenario(count_max, randomness):
    cluster = MemoryCluster()
    for path in ("/a", "/b"):
        cluster.files.make_directories(path)
    cluster.files.sync_dir("/")
    try:
        move_run = ReplicaMove(cluster)
        count, is_done = await move_run.move(count_max)
        await move_run.lose_power(randomness)
        await move_run.begin()
        names = [(path, name) for path in ("/a", "/b") for name in cluster.files.list_names(path)]
        assert len([name for name in names if name[1] == "orders-0"]) == 1, names
        await check(move_run)
        if count_max % CLEARED_EVERY == 0:
            await cluster.clock.sleep_ms(70_000)
            left = [name for path in ("/a", "/b") for name in cluster.files.list_names(path)]
            assert [name for name in left if name.startswith("orders")] == ["orders-0"]
            await check(move_run)
        await move_run.memory_broker.stop()
        return count, is_done
    finally:
        await cluster.close()


async def check(move_run):
    values = await move_run.read()
    assert values == move_run.sent[: len(values)]
    assert len(values) >= move_run.acknowledged


@pytest.mark.parametrize("loss", range(len(LOSSES)))
def test_power_loss_at_any_step_of_a_replica_move_leaves_one_complete_log(loss):
    count, is_done = run_virtually(lambda: run_scenario(1 << 30, LOSSES[loss]))
    assert is_done
    assert count > 40
    for count_max in range(count):
        run_virtually(partial(run_scenario, count_max, LOSSES[loss]))


async def run_finished_move(randomness):
    cluster = MemoryCluster()
    try:
        move_run = ReplicaMove(cluster)
        await move_run.begin(TWO | NO_CHECKPOINTS)
        await move_run.create("other")  # in the first directory
        await move_run.create("orders", flush_messages="1", file_delete_delay_ms="0")
        assert move_run.log_dir() == "/b"
        await move_run.produce(BEFORE)
        await move_run.request_move("/a")
        while any(name.startswith("orders") for name in cluster.files.list_names("/b")):
            await cluster.clock.sleep_ms(10)
        await move_run.produce(AFTER)
        await move_run.lose_power(randomness)
        cluster.files.remove("/b/meta.properties")
        cluster.files.make_directories("/b/meta.properties")  # reading it fails, and the directory is offline
        await move_run.begin()
        assert move_run.memory_broker.broker.log_dirs == ["/a"]
        assert move_run.log_dir() == "/a"
        await check(move_run)
        assert move_run.acknowledged == BEFORE + AFTER
        await move_run.memory_broker.stop()
    finally:
        await cluster.close()


@pytest.mark.parametrize("loss", range(len(LOSSES)))
def test_moved_log_survives_a_power_loss_without_its_old_directory(loss):
    """A start completes no move while a directory is offline, as that may contain the current log."""
    run_virtually(lambda: run_finished_move(LOSSES[loss]))
