"""The periodic work on logs, and the flushes that answers wait for, on a whole broker in memory."""

import asyncio
import contextlib
import errno

import pytest

from odradek.broker.log_maintenance import LOGS_A_TURN, Upkeep
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


class Shop:
    """A broker, a client, and one topic with one partition."""

    def __init__(self, cluster, memory, client):
        self.cluster = cluster
        self.memory = memory
        self.client = client

    @property
    def log(self):
        return self.memory.broker._replicas.get_leader_partition("orders", 0).log

    async def create(self, **settings):
        configs = [CreatableTopicConfig(name.replace("_", "."), value) for name, value in settings.items()]
        wish = CreatableTopic("orders", 1, 1, [], configs)
        response = await self.client.request(CREATE_TOPICS, 7, CreateTopicsRequest([wish]))
        assert response.topics[0].error_code == 0

    def send(self, value=b"value", *, acks=-1, timeout_ms=1000):
        builder = BatchBuilder()
        builder.append(self.cluster.clock.wall_ms(), None, value)
        data = PartitionProduceData(0, bytearray(builder.build()))
        request = ProduceRequest(None, acks, timeout_ms, [TopicProduceData("orders", [data])])
        if acks == 0:
            self.client.tell(PRODUCE, 11, request)
            return None
        return self.client.begin(PRODUCE, 11, request)

    async def produce(self, value=b"value", **how):
        response = await self.send(value, **how)
        return response.responses[0].partition_responses[0]

    async def alter(self, kind, name, setting, value):
        resource = AlterConfigsResource(kind, name, [AlterableConfig(setting, 0, value)])
        response = await self.client.request(
            ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest([resource], False)
        )
        assert response.responses[0].error_code == 0
        await asyncio.sleep(0.01)

    async def values(self):
        """Everything that can be read."""
        topic_id = self.memory.broker.image.topic("orders").topic_id
        offset, found = self.log.log_start_offset, []
        while True:
            part = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
            asked = FetchTopic(topic_id=topic_id, partitions=[part])
            response = await self.client.request(FETCH, 17, FetchRequest(max_bytes=1 << 20, topics=[asked]))
            entry = response.responses[0].partitions[0]
            assert entry.error_code == 0
            data = entry.records.read() if isinstance(entry.records, FileSlice) else bytes(entry.records)
            records = codec.decode(data)
            if not records:
                return found
            found += [one.value for one in records]
            offset = records[-1].offset + 1

    def files(self, ending=""):
        return [name for name in self.cluster.files.list_files("/data/orders-0") if name.endswith(ending)]


def play(scenario, settings=None):
    async def main():
        async with running_broker({"connections.max.idle.ms": str(24 * HOUR_MS), **(settings or {})}) as (
            cluster,
            broker,
        ):
            await scenario(Shop(cluster, broker, await broker.connect()))

    run_virtually(main)


# Retention.


def test_old_records_go_at_the_next_check_and_their_files_a_minute_later():
    async def scenario(shop):
        await shop.create(retention_ms=str(HOUR_MS))
        await shop.produce(b"old")
        await asyncio.sleep(3500)
        assert await shop.values() == [b"old"]
        await asyncio.sleep(100 + CHECK_S)
        assert (shop.log.log_start_offset, shop.log.log_end_offset) == (1, 1)
        await asyncio.sleep(62)
        assert shop.files(".deleted") == []
        assert (await shop.produce(b"new")).base_offset == 1
        assert await shop.values() == [b"new"]

    play(scenario)


def test_the_first_check_is_soon_after_the_start():
    async def scenario(shop):
        await shop.create(retention_ms="1000")
        await shop.produce()
        await asyncio.sleep(29)
        assert shop.log.log_start_offset == 0
        await asyncio.sleep(2)
        assert shop.log.log_start_offset == 1

    play(scenario)


def test_a_topic_of_too_many_bytes_loses_its_oldest_segments():
    async def scenario(shop):
        await shop.create(segment_bytes="1000", retention_bytes="3000")
        for _ in range(20):
            await shop.produce(bytes(800))
        await asyncio.sleep(31)
        assert 3000 <= shop.log.size_bytes < 4000
        assert shop.log.log_start_offset == 16

    play(scenario)


@pytest.mark.parametrize("scope", ["topic", "broker"])
def test_a_bound_lowered_while_running_holds_from_the_next_check_on(scope):
    async def scenario(shop):
        await shop.create()
        await shop.produce()
        await asyncio.sleep(1000)
        assert shop.log.log_start_offset == 0
        if scope == "topic":
            await shop.alter(TOPIC, "orders", "retention.ms", "1000")
        else:
            await shop.alter(BROKER, "", "log.retention.ms", "1000")
        await asyncio.sleep(CHECK_S + 1)
        assert shop.log.log_start_offset == 1

    play(scenario)


def test_how_often_is_looked_is_a_setting():
    async def scenario(shop):
        await shop.create(retention_ms="1000")
        await asyncio.sleep(31)
        await shop.produce()
        await asyncio.sleep(8)
        assert shop.log.log_start_offset == 1

    play(scenario, {"log.retention.check.interval.ms": "5000"})


def test_the_end_of_an_emptied_log_survives_power_loss():
    async def main():
        cluster = MemoryCluster()
        memory = await cluster.start()
        shop = Shop(cluster, memory, await memory.connect())
        await shop.create(retention_ms="1000")
        await shop.produce()
        await asyncio.sleep(40)
        assert shop.log.log_start_offset == 1
        await memory.kill()
        shop.memory = await cluster.start()
        assert (shop.log.log_start_offset, shop.log.log_end_offset) == (1, 1)
        await shop.memory.stop()
        await cluster.close()

    run_virtually(main)


# Flush by time.


@pytest.mark.parametrize("scheduler", [None, "500"])
def test_a_log_is_flushed_when_its_time_is_up(scheduler):
    async def scenario(shop):
        await shop.create(flush_ms="2000")
        await asyncio.sleep(10)
        for number in range(4):  # whenever they come between two looks
            await shop.produce()
            assert shop.log.recovery_point == number
            await asyncio.sleep(3.1)
            assert shop.log.recovery_point == number + 1
            await asyncio.sleep(0.7)

    play(scenario, {} if scheduler is None else {"log.flush.scheduler.interval.ms": scheduler})


def test_without_a_setting_nothing_is_flushed_by_time():
    async def scenario(shop):
        await shop.create()
        await shop.produce()
        await asyncio.sleep(3600)
        assert shop.log.recovery_point == 0

    play(scenario)


def test_flush_settings_hold_from_when_they_are_changed():
    async def scenario(shop):
        await shop.create()
        await shop.produce()
        await asyncio.sleep(60)
        assert shop.log.recovery_point == 0
        await shop.alter(TOPIC, "orders", "flush.ms", "100")
        await asyncio.sleep(1.1)
        assert shop.log.recovery_point == 1
        await shop.alter(TOPIC, "orders", "flush.ms", str(HOUR_MS))
        await shop.alter(BROKER, "", "log.flush.interval.messages", "2")
        await shop.produce()
        assert shop.log.recovery_point == 1
        await shop.produce()
        assert shop.log.recovery_point == 3

    play(scenario)


class Shelf(dict):
    """A directory of logs."""

    def __iter__(self):
        return iter(self.values())


class Volume:
    """A log that notes what is asked of it, and fails when told to."""

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


@pytest.mark.parametrize("work", ["flush_due", "retain"])
def test_a_log_that_fails_does_not_keep_the_others_from_their_turn(work):
    async def main():
        volumes = [Volume("a"), Volume("b", failing=True), Volume("c")]
        shelf = Shelf({one.topic_partition: one for one in volumes})
        upkeep = Upkeep([shelf], DynamicBrokerConfig({}), VirtualClock(asyncio.get_running_loop()))
        await getattr(upkeep, work)()
        assert [one.done for one in volumes] == [1, 0, 1]
        volumes[0].failure = StorageError("broken")
        await getattr(upkeep, work)()
        assert [one.done for one in volumes] == [1, 0, 2]

    run_virtually(main)


def test_others_on_the_loop_have_their_turn_while_many_logs_are_gone_over():
    async def main():
        volumes = [Volume(number) for number in range(5 * LOGS_A_TURN)]
        shelf = Shelf({one.topic_partition: one for one in volumes})
        upkeep = Upkeep([shelf], DynamicBrokerConfig({}), VirtualClock(asyncio.get_running_loop()))
        task = asyncio.get_running_loop().create_task(upkeep.retain())
        turns = 0
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns >= 5
        assert all(one.done == 1 for one in volumes)

    run_virtually(main)


# Flush by count.


class SlowDisk:
    """Holds syncs of a broker's files back until the test lets them go."""

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
def test_an_answer_waits_for_the_flush_and_so_do_readers(acks):
    async def scenario(shop):
        await shop.create(flush_messages="1")
        disk = SlowDisk(shop.cluster.files)
        answer = shop.send(b"first", acks=acks, timeout_ms=0)
        await asyncio.sleep(0.5)
        assert not answer.done()
        other = Shop(shop.cluster, shop.memory, await shop.memory.connect())
        assert await other.values() == []
        more = [shop.send(b"more", acks=acks, timeout_ms=0) for _ in range(5)]
        await asyncio.sleep(0.1)
        disk.release()
        assert (await answer).responses[0].partition_responses[0].error_code == 0
        assert await other.values() == [b"first"]
        await asyncio.sleep(0.1)
        assert not any(one.done() for one in more)
        assert len(disk.held) == 1
        disk.release()
        for one in more:
            assert (await one).responses[0].partition_responses[0].error_code == 0
        assert len(await other.values()) == 6
        shop.cluster.files.offload = disk.plain

    play(scenario)


def test_flushes_come_at_the_given_count():
    async def scenario(shop):
        await shop.create(flush_messages="3")
        points = []
        for _ in range(7):
            await shop.produce()
            points.append(shop.log.recovery_point)
        assert points == [0, 0, 3, 3, 3, 6, 6]

    play(scenario)


def test_without_acknowledgement_the_flush_comes_all_the_same():
    async def scenario(shop):
        await shop.create(flush_messages="1")
        shop.send(acks=0)
        await asyncio.sleep(0.1)
        assert shop.log.recovery_point == 1

    play(scenario)


def test_after_a_failed_flush_the_producer_is_refused_and_the_log_is_not_trusted():
    async def scenario(shop):
        await shop.create(flush_messages="1")
        assert (await shop.produce(b"good")).error_code == 0
        shop.cluster.files.fail_next_sync(errno.EIO, name_end=".log")
        entry = await shop.produce(b"lost", acks=1)
        assert (entry.error_code, entry.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        assert (await shop.produce(b"more")).error_code == ErrorCode.KAFKA_STORAGE_ERROR

    with contextlib.suppress(StorageError):  # such a stop is not a clean one, and may say so
        play(scenario)


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("seed", range(15))
def test_with_a_flush_per_record_power_loss_takes_no_acknowledged_record(seed, acks):
    async def main():
        cluster = MemoryCluster(seed, delay_max_ms=3)
        acknowledged, number = [], 0
        shop = None
        for life in range(4):
            memory = await cluster.start()
            shop = Shop(cluster, memory, await memory.connect())
            if life == 0:
                await shop.create(flush_messages="1", segment_bytes="500")
            found = await shop.values()
            assert [one for one in acknowledged if one not in found] == []
            assert found == sorted(found)
            for _ in range(1 + cluster.entropy.below(8)):
                number += 1
                value = b"%06d" % number
                assert (await shop.produce(value, acks=acks)).error_code == 0
                acknowledged.append(value)
            for _ in range(cluster.entropy.below(4)):
                number += 1
                task = shop.send(b"%06d" % number, acks=acks)
                task.add_done_callback(lambda done: done.cancelled() or done.exception())
            await asyncio.sleep(cluster.entropy.below(4) / 1000)
            await memory.kill()
        await cluster.close()

    run_virtually(main)
