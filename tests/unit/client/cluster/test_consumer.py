"""Consumers through changes of leaders and coordinators: each record is read once, and commits are kept."""

from __future__ import annotations

import asyncio

import pytest

from odradek.client.consumer.consumer import Consumer
from odradek.model.ids import OFFSETS_TOPIC, TopicPartition
from odradek.records.client.consumer import ConsumerRecord

from .client_cluster import ClientCluster, Writer, numbers_of, play, read_until, write

TOPIC, GROUP = "news", "readers"
OFFSETS_LOG = TopicPartition(OFFSETS_TOPIC, 0)
FETCH, JOIN_GROUP = 1, 11
CLIENT_ID = "reader"
GROUP_OPTIONS = {"group_id": GROUP, "session_timeout_ms": 30_000, "heartbeat_interval_ms": 500}


class Reader:
    """Polls in a task of its own, and keeps all records."""

    def __init__(self, consumer: Consumer) -> None:
        self.records: list[ConsumerRecord] = []
        self._consumer = consumer
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            self.records += await self._consumer.poll(0.5)

    def offsets(self, partition: TopicPartition) -> list[int]:
        return [record.offset for record in self.records if record.partition == partition.partition]

    async def until_read(self, fixture: ClientCluster, count: int) -> None:
        try:
            await fixture.until(lambda: len(self.records) >= count or self._task.done())
            assert not self._task.done() or self._task.result()
        finally:
            self._task.cancel()
            await asyncio.wait([self._task])


@pytest.mark.parametrize("seed", range(3))
def test_each_offset_is_read_once_through_leader_moves_and_kills(seed: int) -> None:
    async def scenario(fixture: ClientCluster) -> None:
        await fixture.create(TOPIC, [(0, 1, 2), (1, 2, 0)])
        first, second = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
        reader = Reader(fixture.consumer(first, second, max_poll_records=7))
        writer = Writer(fixture.producer(), first, second)
        for leader in (1, 2):
            await fixture.move(first, leader)
            await fixture.bump_epoch(second)
        await fixture.kill(2)
        await asyncio.sleep(1)
        await fixture.start(2)
        await fixture.until(lambda: len(fixture.state(first).isr) == 3)
        await fixture.stop(1)
        await asyncio.sleep(0.5)
        written = await writer.finish()
        await reader.until_read(fixture, len(written))
        for partition, sent in writer.sent.items():
            assert reader.offsets(partition) == list(range(len(sent)))
            values = [record for record in reader.records if record.partition == partition.partition]
            assert numbers_of(values) == sent

    play(scenario, seed=seed)


def test_leader_that_was_cut_off_returns_no_records_twice() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        partition = await fixture.create(TOPIC)
        reader = Reader(fixture.consumer(partition))
        await write(fixture, partition, range(20))
        await fixture.until(lambda: len(reader.records) == 20)
        # It goes on to serve clients in its epoch, until it hears of the next one.
        for host in ("broker1", "broker2", "controller"):
            fixture.cluster.network.partition("broker0", host)
        await fixture.broker(0).expire_session()
        await fixture.until(lambda: fixture.leader(partition) not in (0, -1))
        await write(fixture, partition, range(20, 40))
        fixture.cluster.network.heal()
        await reader.until_read(fixture, 40)
        assert numbers_of(reader.records) == list(range(40))

    play(scenario)


def test_idle_consumer_continues_at_the_new_leader() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        partition = await fixture.create(TOPIC)
        consumer = fixture.consumer(partition, client_id=CLIENT_ID, metadata_max_age_ms=600_000)
        await write(fixture, partition, range(5))
        await read_until(consumer, 5)
        await fixture.move(partition, 1)
        await write(fixture, partition, range(5, 10))
        assert numbers_of(await read_until(consumer, 5)) == list(range(5, 10))
        assert fixture.requests.of(1, FETCH, CLIENT_ID) > 0

    play(scenario)


def test_consumer_finds_the_leader_after_every_broker_was_replaced_in_turn() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        partition = await fixture.create(TOPIC)
        reader = Reader(fixture.consumer(partition))
        writer = Writer(fixture.producer(), partition)
        for broker_id in (0, 1, 2):
            await fixture.kill(broker_id)
            await asyncio.sleep(1)
            await fixture.start(broker_id)
            await fixture.until(lambda: len(fixture.state(partition).isr) == 3)
        written = await writer.finish()
        await reader.until_read(fixture, len(written))
        assert reader.offsets(partition) == list(range(len(written)))

    play(scenario)


async def join(fixture: ClientCluster, count: int = 1) -> list[Consumer]:
    """Return members of the group that have partitions."""
    consumers = [fixture.consumer(**GROUP_OPTIONS, client_id=CLIENT_ID) for _ in range(count)]
    for consumer in consumers:
        consumer.subscribe([TOPIC])

    async def poll(consumer: Consumer) -> None:
        while not consumer.assignment():
            assert not await consumer.poll(0.2)

    await asyncio.gather(*(poll(consumer) for consumer in consumers))
    return consumers


def test_moved_group_coordinator_keeps_generation_and_commits() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        await fixture.create_internal_topics()
        partition = await fixture.create(TOPIC)
        (consumer,) = await join(fixture)
        await write(fixture, partition, range(10))
        assert numbers_of(await read_until(consumer, 10)) == list(range(10))
        await consumer.commit()
        generation = consumer.group_metadata()
        joins = sum(fixture.requests.of(broker_id, JOIN_GROUP, CLIENT_ID) for broker_id in range(3))
        for coordinator in (1, 2):
            await fixture.move(OFFSETS_LOG, coordinator)
            await write(fixture, partition, range(10, 20))
            assert numbers_of(await read_until(consumer, 10)) == list(range(10, 20))
            await consumer.commit()
            offset = (await consumer.committed(partition))[partition]
            assert offset is not None
            assert offset.offset == 10 * (coordinator + 1)
        assert consumer.group_metadata() == generation
        assert sum(fixture.requests.of(broker_id, JOIN_GROUP, CLIENT_ID) for broker_id in range(3)) == joins

    play(scenario)


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
def test_group_goes_on_after_its_coordinator_ended(is_clean: bool) -> None:
    async def scenario(fixture: ClientCluster) -> None:
        await fixture.create_internal_topics()
        partition = await fixture.create(TOPIC, [(1, 2, 0)])
        (consumer,) = await join(fixture)
        await write(fixture, partition, range(10))
        assert numbers_of(await read_until(consumer, 10)) == list(range(10))
        await consumer.commit()
        generation = consumer.group_metadata()
        await (fixture.stop(0) if is_clean else fixture.kill(0))
        await write(fixture, partition, range(10, 20))
        assert numbers_of(await read_until(consumer, 10)) == list(range(10, 20))
        await consumer.commit()
        assert consumer.group_metadata() == generation
        await consumer.close()
        await write(fixture, partition, range(20, 25))
        (successor,) = await join_and_read(fixture)
        assert successor == list(range(20, 25))

    async def join_and_read(fixture: ClientCluster) -> list[list[int]]:
        consumer = fixture.consumer(**GROUP_OPTIONS)
        consumer.subscribe([TOPIC])
        return [numbers_of(await read_until(consumer, 5))]

    play(scenario)


def test_commit_carries_the_leader_epoch_of_the_last_record() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        await fixture.create_internal_topics()
        partition = await fixture.create(TOPIC)
        (consumer,) = await join(fixture)
        await write(fixture, partition, range(3))
        await read_until(consumer, 3)
        await consumer.commit()
        first = (await consumer.committed(partition))[partition]
        epoch = fixture.state(partition).leader_epoch
        await fixture.move(partition, 1)
        await write(fixture, partition, range(3))
        await read_until(consumer, 3)
        await consumer.commit()
        second = (await consumer.committed(partition))[partition]
        assert first is not None
        assert second is not None
        assert (first.offset, first.leader_epoch) == (3, epoch)
        assert (second.offset, second.leader_epoch) == (6, fixture.state(partition).leader_epoch)

    play(scenario)


def test_members_read_each_record_once_while_leaders_and_the_coordinator_move() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        await fixture.create_internal_topics()
        await fixture.create(TOPIC, [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
        partitions = [TopicPartition(TOPIC, number) for number in range(3)]
        readers = [Reader(consumer) for consumer in await join(fixture, 2)]
        writer = Writer(fixture.producer(), *partitions)
        for leader in (1, 2, 0):
            await fixture.move(OFFSETS_LOG, leader)
            for partition in partitions:
                await fixture.move(partition, leader)
        written = await writer.finish()
        await fixture.until(lambda: sum(len(reader.records) for reader in readers) >= len(written))
        for reader in readers:
            await reader.until_read(fixture, 0)
        read = sorted((record.partition, record.offset) for reader in readers for record in reader.records)
        assert read == sorted(
            (partition.partition, offset)
            for partition, sent in writer.sent.items()
            for offset in range(len(sent))
        )

    play(scenario)
