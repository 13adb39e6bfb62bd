"""Consumers with ``client.rack`` read from the follower in their rack (KIP-392), or else from the leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from odradek.client.consumer.consumer import Consumer
from odradek.model.ids import TopicPartition

from .client_cluster import FOLLOWER_READS, ClientCluster, Scenario, numbers_of, play, read_until, write

FETCH = 1
TOPIC, CLIENT_ID = "archive", "reader"
RACKS = ("a", "b", "c")
LEADER, FOLLOWER = 0, 1
MAX_AGE_MS = 30_000
OPTIONS = {"client_id": CLIENT_ID, "client_rack": RACKS[FOLLOWER], "metadata_max_age_ms": MAX_AGE_MS}


def play_with_racks(scenario: Scenario) -> None:
    play(scenario, FOLLOWER_READS, racks=RACKS)


class FetchedFrom:
    """Fetches of the consumer by broker, since the last call."""

    def __init__(self, fixture: ClientCluster) -> None:
        self._fixture = fixture
        self._before = self._counts()

    def _counts(self) -> list[int]:
        return [self._fixture.requests.of(broker_id, FETCH, CLIENT_ID) for broker_id in range(3)]

    def total(self) -> list[int]:
        """Return the fetches without beginning anew."""
        return [now - then for now, then in zip(self._counts(), self._before, strict=True)]

    def __call__(self) -> list[int]:
        differences = self.total()
        self._before = self._counts()
        return differences


async def start_at_follower(fixture: ClientCluster) -> tuple[TopicPartition, Consumer, FetchedFrom]:
    """Return a partition of ten records, and a consumer that has read them from the follower."""
    partition = await fixture.create(TOPIC)
    await write(fixture, partition, range(10))
    await fixture.until_in_sync(partition)
    consumer = fixture.consumer(partition, **OPTIONS)
    fetched_from = FetchedFrom(fixture)
    assert numbers_of(await read_until(consumer, 10)) == list(range(10))
    leader, follower, other = fetched_from()
    assert (leader, other) == (1, 0)  # the leader names the follower once, and is not asked again
    assert follower >= 1
    return partition, consumer, fetched_from


async def poll_until(fixture: ClientCluster, consumer: Consumer, condition: Callable[[], bool]) -> list[int]:
    """Poll until a condition holds; return the numbers read meanwhile."""
    numbers: list[int] = []
    deadline = asyncio.get_running_loop().time() + 120
    while not condition():
        assert asyncio.get_running_loop().time() < deadline
        numbers += numbers_of(await consumer.poll(0.2))
    return numbers


def test_records_are_read_from_the_follower_in_the_rack_of_the_consumer() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        partition, consumer, fetched_from = await start_at_follower(fixture)
        await write(fixture, partition, range(10, 30))
        assert numbers_of(await read_until(consumer, 20)) == list(range(10, 30))
        leader, follower, other = fetched_from()
        assert (leader, other) == (0, 0)
        assert follower >= 1

    play_with_racks(scenario)


def test_consumer_without_a_rack_or_in_the_rack_of_the_leader_reads_from_the_leader() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        partition = await fixture.create(TOPIC)
        await write(fixture, partition, range(10))
        fetched_from = FetchedFrom(fixture)
        for rack in (None, RACKS[LEADER], "unknown"):
            consumer = fixture.consumer(partition, **{**OPTIONS, "client_rack": rack})
            assert numbers_of(await read_until(consumer, 10)) == list(range(10))
            leader, follower, other = fetched_from()
            assert leader >= 1
            assert (follower, other) == (0, 0)

    play_with_racks(scenario)


def test_leader_is_read_after_the_follower_was_killed_and_the_follower_again_when_it_is_back() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        partition, consumer, fetched_from = await start_at_follower(fixture)
        await fixture.kill(FOLLOWER)
        await write(fixture, partition, range(10, 20))
        assert numbers_of(await read_until(consumer, 10)) == list(range(10, 20))
        assert fetched_from()[LEADER] >= 1
        await fixture.start(FOLLOWER)
        await fixture.until_in_sync(partition)
        # The leader names it again with the next fetch, since it is in the ISR.
        await write(fixture, partition, range(20, 30))
        assert numbers_of(await read_until(consumer, 10)) == list(range(20, 30))
        assert await poll_until(fixture, consumer, lambda: fetched_from()[FOLLOWER] >= 1) == []

    play_with_racks(scenario)


def test_leader_is_read_when_the_follower_is_dead_and_its_session_lives_on() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        partition, consumer, _ = await start_at_follower(fixture)
        await fixture.broker(FOLLOWER).kill()
        # It is in the metadata, and the leader names it until it has left the ISR.
        await write(fixture, partition, range(10, 20))
        assert fixture.leader_isr(partition) == {0, 2}
        started = asyncio.get_running_loop().time()
        assert numbers_of(await read_until(consumer, 10)) == list(range(10, 20))
        assert asyncio.get_running_loop().time() - started < MAX_AGE_MS / 1000 / 2
        await fixture.broker(FOLLOWER).expire_session()

    play_with_racks(scenario)


def test_leader_is_read_when_the_follower_does_not_answer() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        partition, consumer, fetched_from = await start_at_follower(fixture)
        fixture.broker(FOLLOWER).pause()
        await fixture.broker(FOLLOWER).expire_session()
        await write(fixture, partition, range(10, 20))
        assert numbers_of(await read_until(consumer, 10)) == list(range(10, 20))
        assert fetched_from()[LEADER] >= 1
        fixture.broker(FOLLOWER).resume()

    play_with_racks(scenario)


def test_follower_outside_the_isr_is_left_when_the_lease_expires() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        partition, consumer, fetched_from = await start_at_follower(fixture)
        fixture.cluster.network.partition("broker0", "broker1")
        await write(fixture, partition, range(10, 20))
        assert fixture.leader_isr(partition) == {0, 2}
        # The follower answers, but has no new records; the leader is asked after metadata.max.age.ms.
        assert numbers_of(await read_until(consumer, 10)) == list(range(10, 20))
        assert fetched_from()[LEADER] >= 1
        await write(fixture, partition, range(20, 30))
        assert numbers_of(await read_until(consumer, 10)) == list(range(20, 30))
        assert fetched_from()[FOLLOWER] == 0

    play_with_racks(scenario)


def test_leader_is_asked_again_when_the_lease_expires() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        _, consumer, fetched_from = await start_at_follower(fixture)
        started = asyncio.get_running_loop().time()
        assert await poll_until(fixture, consumer, lambda: fetched_from.total()[LEADER] > 0) == []
        assert asyncio.get_running_loop().time() - started >= MAX_AGE_MS / 1000 - 1
        assert fetched_from()[FOLLOWER] > 1
        await consumer.poll(2)
        assert fetched_from()[LEADER] == 0

    play_with_racks(scenario)


def test_offset_beyond_the_log_of_the_follower_is_read_from_the_leader() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        partition, consumer, fetched_from = await start_at_follower(fixture)
        fixture.cluster.network.partition("broker0", "broker1")
        await write(fixture, partition, range(10, 30))
        # At the follower 25 is out of range; by policy the consumer would start at 0 again.
        consumer.seek(partition, 25)
        started = asyncio.get_running_loop().time()
        assert numbers_of(await read_until(consumer, 5)) == list(range(25, 30))
        assert asyncio.get_running_loop().time() - started < MAX_AGE_MS / 1000 / 2
        leader, follower, _ = fetched_from()
        assert (leader >= 1, follower >= 1) == (True, True)

    play_with_racks(scenario)


def test_late_error_of_a_former_read_replica_does_not_reset_the_position() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        partition = await fixture.create(TOPIC)
        await write(fixture, partition, range(10))
        await fixture.until_in_sync(partition)
        consumer = fixture.consumer(
            partition, **{**OPTIONS, "metadata_max_age_ms": 10_000, "request_timeout_ms": 60_000}
        )
        await read_until(consumer, 10)
        network = fixture.cluster.network
        network.partition("broker0", "broker1")
        await write(fixture, partition, range(10, 30))
        # Out of range at the follower, whose response comes after its lease has expired.
        consumer.seek(partition, 30)
        fetches = FetchedFrom(fixture)

        def hold_response(broker_id: int, api_key: int, client_id: str | None) -> None:
            if (broker_id, api_key, client_id) == (FOLLOWER, FETCH, CLIENT_ID):
                network.block("broker1", "client")

        fixture.requests.on_request = hold_response
        assert await poll_until(fixture, consumer, lambda: fetches.total()[LEADER] > 0) == []
        assert fetches.total()[FOLLOWER] == 1
        network.heal()
        assert await consumer.poll(5) == []
        assert await consumer.position(partition) == 30

    play_with_racks(scenario)


def test_new_leader_names_a_follower_anew() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        partition, consumer, fetched_from = await start_at_follower(fixture)
        await fixture.move(partition, 2)
        await write(fixture, partition, range(10, 20))
        assert numbers_of(await read_until(consumer, 10)) == list(range(10, 20))
        fetched_from()
        await write(fixture, partition, range(20, 30))
        assert numbers_of(await read_until(consumer, 10)) == list(range(20, 30))
        await fixture.move(partition, FOLLOWER)
        await write(fixture, partition, range(30, 40))
        assert numbers_of(await read_until(consumer, 10)) == list(range(30, 40))
        assert fetched_from()[FOLLOWER] >= 1

    play_with_racks(scenario)
