"""Producers through changes of leaders: records are written once and in order."""

from __future__ import annotations

import asyncio

import pytest

from odradek.model.ids import TopicPartition

from .client_cluster import ClientCluster, Writer, numbers_of, play, read_until, record_for

PRODUCE, METADATA = 0, 3
CLIENT_ID = "writer"
TOPIC = "letters"


async def check_written(fixture: ClientCluster, writer: Writer) -> None:
    """Check that each partition has the records that were sent, once and in order."""
    offsets: dict[int, list[int]] = {}
    for metadata in await writer.finish():
        offsets.setdefault(metadata.partition, []).append(metadata.offset)
    for partition, sent in writer.sent.items():
        records = await read_until(fixture.consumer(partition), len(sent))
        assert numbers_of(records) == sent
        assert [record.offset for record in records] == offsets[partition.partition] == list(range(len(sent)))


@pytest.mark.parametrize("seed", range(3))
def test_records_are_written_once_and_in_order_through_leader_moves(seed: int) -> None:
    async def scenario(fixture: ClientCluster) -> None:
        await fixture.create(TOPIC, [(0, 1, 2), (1, 2, 0)])
        first, second = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
        writer = Writer(fixture.producer(), first, second)
        for leader in (1, 2, 0):
            await fixture.move(first, leader)
            await fixture.bump_epoch(second)
            await asyncio.sleep(0.3)
        await check_written(fixture, writer)

    play(scenario, seed=seed)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("power_failure", [False, True], ids=["process", "power"])
def test_records_are_written_once_and_in_order_through_kills_of_leaders(
    seed: int, power_failure: bool
) -> None:
    async def scenario(fixture: ClientCluster) -> None:
        partition = await fixture.create(TOPIC)
        writer = Writer(fixture.producer(), partition)
        for _ in range(3):
            await asyncio.sleep(0.5)
            leader = fixture.leader(partition)
            await fixture.kill(leader, power_failure=power_failure)
            await fixture.until_led(partition)
            await asyncio.sleep(0.5)
            await fixture.start(leader)
            await fixture.until(lambda: len(fixture.state(partition).isr) == 3)
        await check_written(fixture, writer)

    play(scenario, seed=seed)


def test_records_are_written_once_and_in_order_through_clean_stops() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        partition = await fixture.create(TOPIC)
        writer = Writer(fixture.producer(), partition)
        for broker_id in (0, 1, 2):
            await fixture.stop(broker_id)
            await fixture.until_led(partition)
            await asyncio.sleep(0.5)
            await fixture.start(broker_id)
            await fixture.until(lambda: len(fixture.state(partition).isr) == 3)
        await check_written(fixture, writer)

    play(scenario)


def test_record_appended_by_a_leader_that_dies_before_the_response_is_written_once() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        partition = await fixture.create(TOPIC)
        producer = fixture.producer()
        await (await producer.send(*record_for(partition, 0)))
        # The response is lost, the record is not: the next leader has it, and must recognise the retry.
        fixture.cluster.network.block("broker0", "client")
        delivery = await producer.send(*record_for(partition, 1))
        await fixture.until(lambda: fixture.partition(1, partition).high_watermark == 2)
        await fixture.kill(0)
        fixture.cluster.network.heal()
        assert (await delivery).offset == 1
        await (await producer.send(*record_for(partition, 2)))
        assert numbers_of(await read_until(fixture.consumer(partition), 3)) == [0, 1, 2]

    play(scenario)


def test_not_enough_replicas_is_retried_until_there_are_enough() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        partition = await fixture.create(TOPIC)
        producer = fixture.producer(client_id=CLIENT_ID)
        await (await producer.send(*record_for(partition, 0)))
        await fixture.kill(1)
        await fixture.kill(2)
        await fixture.until(lambda: fixture.leader_isr(partition) == {0})
        produced = fixture.requests.of(0, PRODUCE, CLIENT_ID)
        delivery = await producer.send(*record_for(partition, 1))
        await asyncio.sleep(5)
        assert not delivery.done()
        assert fixture.requests.of(0, PRODUCE, CLIENT_ID) >= produced + 3
        await fixture.start(1)
        assert (await delivery).offset == 1
        assert numbers_of(await read_until(fixture.consumer(partition), 2)) == [0, 1]

    play(scenario)


def test_record_appended_by_a_leader_without_enough_replicas_is_written_once() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        partition = await fixture.create(TOPIC, [(0, 1)])
        producer = fixture.producer(client_id=CLIENT_ID)
        await (await producer.send(*record_for(partition, 0)))
        produced = fixture.requests.of(0, PRODUCE, CLIENT_ID)
        # Appended while the follower was in the ISR, but not replicated: the request times out.
        fixture.cluster.network.partition("broker0", "broker1")
        delivery = await producer.send(*record_for(partition, 1))
        await fixture.until(lambda: fixture.leader_isr(partition) == {0})
        await fixture.until(lambda: fixture.requests.of(0, PRODUCE, CLIENT_ID) >= produced + 3)
        assert not delivery.done()
        assert fixture.partition(0, partition).log_end_offset == 2
        fixture.cluster.network.heal()
        assert (await delivery).offset == 1
        await fixture.until_in_sync(partition)
        assert fixture.partition(0, partition).log_end_offset == 2

    play(scenario)


def test_idle_producer_finds_the_new_leader_with_the_next_record() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        partition = await fixture.create(TOPIC)
        producer = fixture.producer(client_id=CLIENT_ID)
        await (await producer.send(*record_for(partition, 0)))
        await fixture.move(partition, 1)
        before = [fixture.requests.of(broker_id, PRODUCE, CLIENT_ID) for broker_id in range(3)]
        asked = sum(fixture.requests.of(broker_id, METADATA, CLIENT_ID) for broker_id in range(3))
        assert (await (await producer.send(*record_for(partition, 1)))).offset == 1
        after = [fixture.requests.of(broker_id, PRODUCE, CLIENT_ID) for broker_id in range(3)]
        # Rejected once by the old leader, which names the new one (KIP-951): no metadata is needed.
        assert [now - then for now, then in zip(after, before, strict=True)] == [1, 1, 0]
        assert sum(fixture.requests.of(broker_id, METADATA, CLIENT_ID) for broker_id in range(3)) == asked

    play(scenario)


def test_acks_1_and_0_continue_at_the_new_leader() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        partition = await fixture.create(TOPIC)
        producer = fixture.producer(acks=1, enable_idempotence=False)
        silent = fixture.producer(acks=0, enable_idempotence=False)
        for number, leader in enumerate((1, 2, 0)):
            await fixture.move(partition, leader)
            await (await producer.send(*record_for(partition, number)))
            # A refused record of acks=0 closes the connection: then the new leader is found.
            while (end := fixture.partition(leader, partition).log_end_offset) == 2 * number + 1:
                await (await silent.send(*record_for(partition, number)))
                await asyncio.sleep(0.5)
            assert end == 2 * number + 2
        await fixture.until_in_sync(partition)

    play(scenario)
