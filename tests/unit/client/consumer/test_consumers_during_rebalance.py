"""Consumers whose group rebalances while they read, on virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.support.simulation.consumer_fixture import ConsumerFixture, play

from odradek.client.consumer.consumer import Consumer
from odradek.model.ids import TopicPartition
from odradek.testing.broker import CLIENT_HOST

PARTITIONS = 4
BROKER = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
}
STRATEGIES = ["range", "roundrobin", "sticky", "cooperative-sticky"]
QUICK = {
    "group_id": "g",
    "auto_offset_reset": "earliest",
    "session_timeout_ms": 10_000,
    "heartbeat_interval_ms": 1000,
    "max_poll_interval_ms": 60_000,
    "max_poll_records": 7,
}


class GroupReaders:
    """Members of one group that read numbers while they are written."""

    def __init__(self, fixture: ConsumerFixture, strategy: str) -> None:
        self.fixture = fixture
        self.strategy = strategy
        self.read: list[int] = []
        self.written = 0
        self.running: list[tuple[asyncio.Task[None], asyncio.Event]] = []
        self.rebalances = 0

    async def join(self) -> None:
        consumer = self.fixture.consumer(partition_assignment_strategy=self.strategy, **QUICK)
        consumer.subscribe(["t"])
        stop = asyncio.Event()
        self.running.append((asyncio.create_task(self._read(consumer, stop)), stop))

    async def _read(self, consumer: Consumer, stop: asyncio.Event) -> None:
        while not stop.is_set():
            if self.rebalances:
                self.rebalances -= 1
                consumer.enforce_rebalance("test")
            self.read += [int(record.value or b"") for record in await consumer.poll(0.3)]
            await asyncio.sleep(0.01)
        await consumer.close()

    async def leave(self, number: int) -> None:
        if self.running:
            task, stop = self.running.pop(number % len(self.running))
            stop.set()
            await task

    async def write(self, count: int) -> None:
        for _ in range(count):
            partition = TopicPartition("t", self.written % PARTITIONS)
            await self.fixture.write(partition, b"%d" % self.written)
            self.written += 1

    async def finish(self) -> None:
        """Wait until all records are read, and stop all members."""
        if not self.running:
            await self.join()
        async with asyncio.timeout(120):
            while set(self.read) != set(range(self.written)):
                await asyncio.sleep(0.1)
        while self.running:
            await self.leave(0)


steps = st.lists(
    st.tuples(
        st.sampled_from(["join", "join", "leave", "write", "rejoin"]),
        st.integers(0, 12),
        st.integers(0, 4000),
    ),
    max_size=12,
)


# A member that closes while its group completes a rebalance.
_CLOSING = [("join", 0, 249), ("join", 0, 876), ("write", 1, 0), ("leave", 0, 0)]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(STRATEGIES), steps)
@example("cooperative-sticky", _CLOSING)
def test_records_are_read_once_through_rebalances(strategy: str, events: list[tuple[str, int, int]]) -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("t", PARTITIONS)
        readers = GroupReaders(fixture, strategy)
        for event, number, pause_ms in events:
            if event == "join" and len(readers.running) < 4:
                await readers.join()
            elif event == "leave":
                await readers.leave(number)
            elif event == "write":
                await readers.write(number)
            elif event == "rejoin" and readers.running:
                readers.rebalances += 1
            await asyncio.sleep(pause_ms / 1000)
        await readers.finish()
        assert Counter(readers.read) == Counter(range(readers.written))

    play(scenario, BROKER, delay_max_ms=5)


rough_steps = st.lists(
    st.tuples(
        st.sampled_from(["join", "join", "leave", "write", "cut", "restart", "partition", "heal"]),
        st.integers(0, 12),
        st.integers(0, 8000),
    ),
    max_size=10,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(STRATEGIES), rough_steps)
def test_no_records_are_lost_through_network_failures(
    strategy: str, events: list[tuple[str, int, int]]
) -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        network = fixture.memory.network
        await fixture.create("t", PARTITIONS)
        readers = GroupReaders(fixture, strategy)
        for event, number, pause_ms in events:
            if event == "join" and len(readers.running) < 4:
                await readers.join()
            elif event == "leave":
                await readers.leave(number)
            elif event == "write":
                await readers.write(number)
            elif event == "cut":
                network.reset_all(CLIENT_HOST)
            elif event == "restart":
                await fixture.broker.stop()
                await asyncio.sleep(number)
                fixture.broker = await fixture.memory.start(BROKER)
            elif event == "partition":
                network.partition(CLIENT_HOST, "broker")
            elif event == "heal":
                network.heal()
            await asyncio.sleep(pause_ms / 1000)
        network.heal()
        await readers.finish()
        assert set(readers.read) == set(range(readers.written))

    play(scenario, BROKER, delay_max_ms=5)


@pytest.mark.parametrize("reads", ["records", "nothing", "paused"])
def test_long_poll_does_not_expire_poll_timeout(reads: str) -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("t", 1)
        consumer, other = fixture.consumer(**QUICK), fixture.consumer(**QUICK)
        members = [consumer, other] if reads == "nothing" else [consumer]
        for member in members:
            member.subscribe(["t"])
        for _ in range(20):
            await asyncio.gather(*(member.poll(1) for member in members))
        assert sum(len(member.assignment()) for member in members) == 1
        if reads == "paused":
            consumer.pause(*consumer.assignment())
        before = [member.group_metadata().generation_id for member in members]
        await asyncio.gather(*(member.poll(200) for member in members))
        assert [member.group_metadata().generation_id for member in members] == before

    play(scenario, BROKER)


def test_auto_commit_during_waiting_poll() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("t", 1)
        consumer = fixture.consumer(auto_commit_interval_ms=2000, **QUICK)
        consumer.subscribe(["t"])
        partition = TopicPartition("t", 0)
        await fixture.write(partition, b"1")
        while not await consumer.poll(1):
            pass
        other = fixture.consumer(group_id="g")
        waiting = asyncio.create_task(consumer.poll(60))
        await asyncio.sleep(8)
        committed = (await other.committed(partition))[partition]
        assert not waiting.done()
        assert committed is not None
        assert committed.offset == 1
        await waiting

    play(scenario, BROKER)


def test_waiting_poll_takes_part_in_rebalance() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("t", 2)
        first = fixture.consumer(**QUICK)
        first.subscribe(["t"])
        waiting = asyncio.create_task(first.poll(50))
        await asyncio.sleep(5)
        assert len(first.assignment()) == 2
        second = fixture.consumer(**QUICK)
        second.subscribe(["t"])
        second_poll = asyncio.create_task(second.poll(40))
        await asyncio.sleep(10)
        assert [len(first.assignment()), len(second.assignment())] == [1, 1]
        await asyncio.gather(waiting, second_poll)

    play(scenario, BROKER)


@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
def test_only_eager_members_stop_during_slow_join(strategy: str) -> None:
    # A member that does not poll delays the rebalance.
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("t", PARTITIONS)
        options: dict[str, Any] = {**QUICK, "partition_assignment_strategy": strategy}
        busy, reader = fixture.consumer(**options), fixture.consumer(**options)
        for member in (busy, reader):
            member.subscribe(["t"])
        while [len(busy.assignment()), len(reader.assignment())] != [2, 2]:
            await asyncio.gather(busy.poll(0.2), reader.poll(0.2))
        newcomer = fixture.consumer(**options)
        newcomer.subscribe(["t"])
        joining = asyncio.create_task(newcomer.poll(40))
        await asyncio.sleep(3)
        for partition in sorted(reader.assignment()):
            await fixture.write(partition, b"x")
        read = []
        for _ in range(20):
            read += await reader.poll(1)
        assert len(read) == (2 if strategy == "cooperative-sticky" else 0)
        while not joining.done():
            await asyncio.gather(busy.poll(1), reader.poll(1))

    play(scenario, BROKER)
