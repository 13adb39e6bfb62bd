"""Admin calls on partitions led by different brokers."""

from __future__ import annotations

import asyncio

import pytest

from odradek.client.admin.offsets import OffsetSpec
from odradek.client.admin.records import ALL_RECORDS
from odradek.model.client_errors import TimedOut
from odradek.model.ids import TopicPartition

from .client_cluster import ClientCluster, play, write

TOPIC, CLIENT_ID = "ledger", "admin"
LIST_OFFSETS, DELETE_RECORDS = 2, 21
REPLICAS = ((0, 1, 2), (1, 2, 0), (2, 0, 1))
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(3)]


async def create_and_write(fixture: ClientCluster) -> None:
    """Create a partition led by each broker, with ten more records in each."""
    await fixture.create(TOPIC, REPLICAS)
    for partition in PARTITIONS:
        await write(fixture, partition, range(10 * (partition.partition + 1)))
    await fixture.until_in_sync(*PARTITIONS)


def test_list_offsets_asks_each_leader_and_follows_moves() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        await create_and_write(fixture)
        admin = fixture.admin(client_id=CLIENT_ID)
        expected = {partition: 10 * (partition.partition + 1) for partition in PARTITIONS}
        ends = await admin.list_offsets(dict.fromkeys(PARTITIONS, OffsetSpec.LATEST))
        assert {partition: end.offset for partition, end in ends.items()} == expected
        assert [fixture.requests.of(broker_id, LIST_OFFSETS, CLIENT_ID) for broker_id in range(3)] == [1] * 3
        await fixture.move(PARTITIONS[0], 1)
        await fixture.kill(2)
        await fixture.until_led(PARTITIONS[2])
        ends = await admin.list_offsets(dict.fromkeys(PARTITIONS, OffsetSpec.LATEST))
        assert {partition: end.offset for partition, end in ends.items()} == expected

    play(scenario)


def test_describe_topics_shows_leaders_and_isr_as_they_change() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        await create_and_write(fixture)
        admin = fixture.admin()
        await fixture.kill(2)
        for partition in PARTITIONS:
            await fixture.until_led(partition)
        topic = (await admin.describe_topics([TOPIC]))[TOPIC]
        states = [fixture.state(partition) for partition in PARTITIONS]
        assert [info.leader for info in topic.partitions] == [state.leader for state in states] == [0, 1, 0]
        assert [set(info.in_sync) for info in topic.partitions] == [{0, 1}] * 3
        assert [info.replicas for info in topic.partitions] == list(REPLICAS)

    play(scenario)


def test_describe_log_dirs_has_the_replicas_of_all_brokers() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        await create_and_write(fixture)
        log_dirs = await fixture.admin().describe_log_dirs()
        assert sorted(log_dirs) == [0, 1, 2]
        sizes = [
            {partition: replica.size_bytes for partition, replica in log_dir.replicas.items()}
            for directories in log_dirs.values()
            for log_dir in directories.values()
        ]
        assert sizes[0].keys() == set(PARTITIONS)
        assert sizes[0] == sizes[1] == sizes[2]
        assert min(sizes[0].values()) > 0

    play(scenario)


def test_delete_records_waits_for_all_replicas() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        partition = await fixture.create(TOPIC)
        await write(fixture, partition, range(20))
        await fixture.until_in_sync(partition)
        admin = fixture.admin(client_id=CLIENT_ID, request_timeout_ms=30_000)
        fixture.broker(2).pause()
        deletion = asyncio.create_task(admin.delete_records({partition: 15}))
        await fixture.until(lambda: fixture.partition(1, partition).log.log_start_offset == 15)
        await asyncio.sleep(2)
        assert not deletion.done()
        fixture.broker(2).resume()
        assert await deletion == {partition: 15}
        starts = [fixture.partition(broker_id, partition).log.log_start_offset for broker_id in range(3)]
        assert starts == [15, 15, 15]

    play(scenario)


def test_delete_records_of_all_partitions_asks_each_leader_after_moves() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        await create_and_write(fixture)
        admin = fixture.admin(client_id=CLIENT_ID)
        await admin.list_offsets(dict.fromkeys(PARTITIONS, OffsetSpec.LATEST))
        await fixture.move(PARTITIONS[0], 1)
        await fixture.stop(2)
        await fixture.until_led(PARTITIONS[2])
        deletion = asyncio.create_task(admin.delete_records(dict.fromkeys(PARTITIONS, ALL_RECORDS)))
        await fixture.start(2)
        assert await deletion == {partition: 10 * (partition.partition + 1) for partition in PARTITIONS}

    play(scenario)


def test_replica_that_stays_away_fails_the_deletion_with_a_timeout() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        partition = await fixture.create(TOPIC)
        await write(fixture, partition, range(20))
        await fixture.until_in_sync(partition)
        fixture.broker(2).pause()
        admin = fixture.admin(request_timeout_ms=2_000, default_api_timeout_ms=2_000)
        with pytest.raises(TimedOut, match="not completed within"):
            await admin.delete_records({partition: 15})
        fixture.broker(2).resume()

    play(scenario)
