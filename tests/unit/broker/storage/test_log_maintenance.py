"""Log maintenance, and flushes that responses wait for, on a whole broker in memory."""

import asyncio
import contextlib
import errno
from typing import Any

import pytest

from odradek.broker.storage import log_maintenance
from odradek.broker.storage.log_maintenance import LOGS_PER_BATCH, LogMaintenance
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.log.log_config import LogConfig
from odradek.model.errors import ErrorCode, StorageError
from odradek.ports.files import FileSlice
from odradek.records import codec
from odradek.records.batch import BatchBuilder
from odradek.testing.broker import MemoryCluster, running_broker
from odradek.testing.clock import VirtualClock, run_virtually
from odradek.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE, FETCH, CREATE_TOPICS, ALTER_CONFIGS = 0, 1, 19, 44
TOPIC, BROKER = 2, 4
CHECK_S = 300
HOUR_MS = 3_600_000


class LogHarness:
    """Broker and client, with one topic of one partition."""

    def __init__(self, cluster, memory_broker, client):
        self.cluster = cluster
        self.memory_broker = memory_broker
        self.client = client

    @property
    def log(self):
        return self.memory_broker.broker._replica_manager.get_leader_partition("orders", 0).log

    async def create(self, **settings):
        configs = [CreatableTopicConfig(name.replace("_", "."), value) for name, value in settings.items()]
        request = CreatableTopic("orders", 1, 1, [], configs)
        response = await self.client.request(CREATE_TOPICS, 7, CreateTopicsRequest([request]))
        assert response.topics[0].error_code == 0

    def send(self, value=b"value", *, acks=-1, timeout_ms=1000):
        builder = BatchBuilder()
        builder.append(self.cluster.clock.wall_ms(), None, value)
        data = PartitionProduceData(0, bytearray(builder.build()))
        request = ProduceRequest(None, acks, timeout_ms, [TopicProduceData("orders", [data])])
        if acks == 0:
            self.client.send_oneway(PRODUCE, 11, request)
            return None
        return self.client.send(PRODUCE, 11, request)

    async def produce(self, value=b"value", **options):
        response = await self.send(value, **options)
        return response.responses[0].partition_responses[0]

    async def alter(self, kind, name, setting, value):
        resource = AlterConfigsResource(kind, name, [AlterableConfig(setting, 0, value)])
        response = await self.client.request(
            ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest([resource], False)
        )
        assert response.responses[0].error_code == 0
        await asyncio.sleep(0.01)

    async def values(self):
        """Return all readable values."""
        topic_id = self.memory_broker.broker.metadata_cache.topic("orders").topic_id
        offset = self.log.log_start_offset
        result: list[Any] = []
        while True:
            part = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
            requested = FetchTopic(topic_id=topic_id, partitions=[part])
            response = await self.client.request(
                FETCH, 17, FetchRequest(max_bytes=1 << 20, topics=[requested])
            )
            entry = response.responses[0].partitions[0]
            assert entry.error_code == 0
            data = entry.records.read() if isinstance(entry.records, FileSlice) else bytes(entry.records)
            records = codec.decode(data)
            if not records:
                return result
            result += [record.value for record in records]
            offset = records[-1].offset + 1

    def files(self, ending=""):
        return [name for name in self.cluster.files.list_files("/data/orders-0") if name.endswith(ending)]


def run_scenario(scenario, settings=None):
    async def main():
        async with running_broker({"connections.max.idle.ms": str(24 * HOUR_MS), **(settings or {})}) as (
            cluster,
            broker,
        ):
            await scenario(LogHarness(cluster, broker, await broker.connect()))

    run_virtually(main)


# Retention.


def test_expired_segments_are_deleted_at_the_next_check_and_their_files_a_minute_later():
    async def scenario(harness):
        await harness.create(retention_ms=str(HOUR_MS))
        await harness.produce(b"old")
        await asyncio.sleep(3500)
        assert await harness.values() == [b"old"]
        await asyncio.sleep(100 + CHECK_S)
        assert (harness.log.log_start_offset, harness.log.log_end_offset) == (1, 1)
        await asyncio.sleep(62)
        assert harness.files(".deleted") == []
        assert (await harness.produce(b"new")).base_offset == 1
        assert await harness.values() == [b"new"]

    run_scenario(scenario)


def test_first_retention_check_follows_the_initial_delay():
    async def scenario(harness):
        await harness.create(retention_ms="1000")
        await harness.produce()
        await asyncio.sleep(29)
        assert harness.log.log_start_offset == 0
        await asyncio.sleep(2)
        assert harness.log.log_start_offset == 1

    run_scenario(scenario)


def test_retention_bytes_deletes_the_oldest_segments():
    async def scenario(harness):
        await harness.create(segment_bytes="1000", retention_bytes="3000")
        for _ in range(20):
            await harness.produce(bytes(800))
        await asyncio.sleep(31)
        assert 3000 <= harness.log.size_bytes < 4000
        assert harness.log.log_start_offset == 16

    run_scenario(scenario)


@pytest.mark.parametrize("scope", ["topic", "broker"])
def test_lowered_retention_applies_at_the_next_check(scope):
    async def scenario(harness):
        await harness.create()
        await harness.produce()
        await asyncio.sleep(1000)
        assert harness.log.log_start_offset == 0
        if scope == "topic":
            await harness.alter(TOPIC, "orders", "retention.ms", "1000")
        else:
            await harness.alter(BROKER, "", "log.retention.ms", "1000")
        await asyncio.sleep(CHECK_S + 1)
        assert harness.log.log_start_offset == 1

    run_scenario(scenario)


def test_retention_check_interval_is_a_setting():
    async def scenario(harness):
        await harness.create(retention_ms="1000")
        await asyncio.sleep(31)
        await harness.produce()
        await asyncio.sleep(8)
        assert harness.log.log_start_offset == 1

    run_scenario(scenario, {"log.retention.check.interval.ms": "5000"})


def test_log_end_offset_of_an_emptied_log_survives_power_loss():
    async def main():
        cluster = MemoryCluster()
        memory_broker = await cluster.start()
        harness = LogHarness(cluster, memory_broker, await memory_broker.connect())
        await harness.create(retention_ms="1000")
        await harness.produce()
        await asyncio.sleep(40)
        assert harness.log.log_start_offset == 1
        await memory_broker.kill()
        harness.memory_broker = await cluster.start()
        assert (harness.log.log_start_offset, harness.log.log_end_offset) == (1, 1)
        await harness.memory_broker.stop()
        await cluster.close()

    run_virtually(main)


# Flush by time.


@pytest.mark.parametrize("scheduler", [None, "500"])
def test_log_is_flushed_after_flush_ms(scheduler):
    async def scenario(harness):
        await harness.create(flush_ms="2000")
        await asyncio.sleep(10)
        for number in range(4):  # at any time between two checks
            await harness.produce()
            assert harness.log.recovery_point == number
            await asyncio.sleep(3.1)
            assert harness.log.recovery_point == number + 1
            await asyncio.sleep(0.7)

    run_scenario(scenario, {} if scheduler is None else {"log.flush.scheduler.interval.ms": scheduler})


def test_no_flush_by_time_without_flush_ms():
    async def scenario(harness):
        await harness.create()
        await harness.produce()
        await asyncio.sleep(3600)
        assert harness.log.recovery_point == 0

    run_scenario(scenario)


def test_changed_flush_settings_apply_at_once():
    async def scenario(harness):
        await harness.create()
        await harness.produce()
        await asyncio.sleep(60)
        assert harness.log.recovery_point == 0
        await harness.alter(TOPIC, "orders", "flush.ms", "100")
        await asyncio.sleep(1.1)
        assert harness.log.recovery_point == 1
        await harness.alter(TOPIC, "orders", "flush.ms", str(HOUR_MS))
        await harness.alter(BROKER, "", "log.flush.interval.messages", "2")
        await harness.produce()
        assert harness.log.recovery_point == 1
        await harness.produce()
        assert harness.log.recovery_point == 3

    run_scenario(scenario)


class StubLogDirectory(dict):
    """Stub log directory."""

    def __iter__(self):
        return iter(self.values())


class StubLog:
    """Stub log that records its calls, and fails on demand."""

    def __init__(self, name, failing=False):
        self.topic_partition = name
        self.failing = failing
        self.failure = None
        self.flushed_ms = None
        self.config = LogConfig(flush_ms=0)
        self.done = 0

    async def _do(self):
        if self.failing:
            raise StorageError("broken")
        self.done += 1
        return []

    async def flush(self):
        return await self._do()

    async def delete_old_segments(self, now_ms, monotonic_ms):
        return await self._do()


@pytest.mark.parametrize("work", ["flush_due", "apply_retention"])
def test_failing_log_does_not_stop_maintenance_of_the_others(work, monkeypatch):
    monkeypatch.setattr(log_maintenance, "delete_old_segments", StubLog.delete_old_segments)

    async def main():
        logs = [StubLog("a"), StubLog("b", failing=True), StubLog("c")]
        directory: Any = StubLogDirectory({log.topic_partition: log for log in logs})
        maintenance = LogMaintenance(
            [directory], DynamicBrokerConfig({}), VirtualClock(asyncio.get_running_loop())
        )
        await getattr(maintenance, work)()
        assert [log.done for log in logs] == [1, 0, 1]
        logs[0].failure = StorageError("broken")
        await getattr(maintenance, work)()
        assert [log.done for log in logs] == [1, 0, 2]

    run_virtually(main)


def test_maintenance_of_many_logs_yields_to_the_event_loop(monkeypatch):
    monkeypatch.setattr(log_maintenance, "delete_old_segments", StubLog.delete_old_segments)

    async def main():
        logs = [StubLog(number) for number in range(5 * LOGS_PER_BATCH)]
        directory: Any = StubLogDirectory({log.topic_partition: log for log in logs})
        maintenance = LogMaintenance(
            [directory], DynamicBrokerConfig({}), VirtualClock(asyncio.get_running_loop())
        )
        task = asyncio.get_running_loop().create_task(maintenance.apply_retention())
        iterations = 0
        while not task.done():
            await asyncio.sleep(0)
            iterations += 1
        assert iterations >= 5
        assert all(log.done == 1 for log in logs)

    run_virtually(main)


# Flush by count.


class SlowDisk:
    """Delays fsync until the test releases it."""

    def __init__(self, files):
        self.plain = files.offload
        self.held = []
        files.offload = self.offload

    async def offload(self, work):
        gate = asyncio.get_running_loop().create_future()
        self.held.append(gate)
        await gate
        return await self.plain(work)

    def release(self):
        held, self.held = self.held, []
        for gate in held:
            gate.set_result(None)


@pytest.mark.parametrize("acks", [1, -1])
def test_response_and_readers_wait_for_the_flush(acks):
    async def scenario(harness):
        await harness.create(flush_messages="1")
        disk = SlowDisk(harness.cluster.files)
        response = harness.send(b"first", acks=acks, timeout_ms=0)
        await asyncio.sleep(0.5)
        assert not response.done()
        other = LogHarness(harness.cluster, harness.memory_broker, await harness.memory_broker.connect())
        assert await other.values() == []
        more = [harness.send(b"more", acks=acks, timeout_ms=0) for _ in range(5)]
        await asyncio.sleep(0.1)
        disk.release()
        assert (await response).responses[0].partition_responses[0].error_code == 0
        assert await other.values() == [b"first"]
        await asyncio.sleep(0.1)
        assert not any(item.done() for item in more)
        assert len(disk.held) == 1
        disk.release()
        for item in more:
            assert (await item).responses[0].partition_responses[0].error_code == 0
        assert len(await other.values()) == 6
        harness.cluster.files.offload = disk.plain

    run_scenario(scenario)


def test_log_is_flushed_every_flush_messages():
    async def scenario(harness):
        await harness.create(flush_messages="3")
        points = []
        for _ in range(7):
            await harness.produce()
            points.append(harness.log.recovery_point)
        assert points == [0, 0, 3, 3, 3, 6, 6]

    run_scenario(scenario)


def test_acks_0_records_are_flushed_too():
    async def scenario(harness):
        await harness.create(flush_messages="1")
        harness.send(acks=0)
        await asyncio.sleep(0.1)
        assert harness.log.recovery_point == 1

    run_scenario(scenario)


def test_failed_flush_fails_the_produce_and_takes_the_log_offline():
    async def scenario(harness):
        await harness.create(flush_messages="1")
        assert (await harness.produce(b"good")).error_code == 0
        harness.cluster.files.fail_next_sync(errno.EIO, name_end=".log")
        entry = await harness.produce(b"lost", acks=1)
        assert (entry.error_code, entry.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        assert (await harness.produce(b"more")).error_code == ErrorCode.KAFKA_STORAGE_ERROR

    with contextlib.suppress(StorageError):  # the stop is not clean and may raise
        run_scenario(scenario)


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("seed", range(15))
def test_no_acknowledged_record_is_lost_with_flush_messages_1(seed, acks):
    async def main():
        cluster = MemoryCluster(seed, delay_max_ms=3)
        acknowledged: list[Any] = []
        number = 0
        harness = None
        for life in range(4):
            memory_broker = await cluster.start()
            harness = LogHarness(cluster, memory_broker, await memory_broker.connect())
            if life == 0:
                await harness.create(flush_messages="1", segment_bytes="500")
            result = await harness.values()
            assert [item for item in acknowledged if item not in result] == []
            assert result == sorted(result)
            for _ in range(1 + cluster.entropy.below(8)):
                number += 1
                value = b"%06d" % number
                assert (await harness.produce(value, acks=acks)).error_code == 0
                acknowledged.append(value)
            for _ in range(cluster.entropy.below(4)):
                number += 1
                task = harness.send(b"%06d" % number, acks=acks)
                task.add_done_callback(lambda done: done.cancelled() or done.exception())
            await asyncio.sleep(cluster.entropy.below(4) / 1000)
            await memory_broker.kill()
        await cluster.close()

    run_virtually(main)
