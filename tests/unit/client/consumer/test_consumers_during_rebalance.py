"""Whole consumers in groups that change while they read, on virtual time: every record is read once."""

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


class Readings:
    """What members of one group read, while somebody writes numbers."""

    def __init__(self, stage: ConsumerFixture, strategy: str) -> None:
        self.stage = stage
        self.strategy = strategy
        self.read: list[int] = []
        self.written = 0
        self.there: list[tuple[asyncio.Task[None], asyncio.Event]] = []
        self.rebalances = 0

    async def join(self) -> None:
        consumer = self.stage.consumer(partition_assignment_strategy=self.strategy, **QUICK)
        consumer.subscribe(["t"])
        ends = asyncio.Event()
        self.there.append((asyncio.create_task(self._read(consumer, ends)), ends))

    async def _read(self, consumer: Consumer, ends: asyncio.Event) -> None:
        while not ends.is_set():
            if self.rebalances:
                self.rebalances -= 1
                consumer.enforce_rebalance("just so")
            self.read += [int(record.value) for record in await consumer.poll(0.3)]
            await asyncio.sleep(0.01)
        await consumer.close()

    async def leave(self, which: int) -> None:
        if self.there:
            task, ends = self.there.pop(which % len(self.there))
            ends.set()
            await task

    async def write(self, count: int) -> None:
        for _ in range(count):
            partition = TopicPartition("t", self.written % PARTITIONS)
            await self.stage.write(partition, b"%d" % self.written)
            self.written += 1

    async def finish(self) -> None:
        """Let somebody read the rest, and see what everybody has read."""
        if not self.there:
            await self.join()
        async with asyncio.timeout(120):
            while set(self.read) != set(range(self.written)):
                await asyncio.sleep(0.1)
        while self.there:
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
def test_members_that_come_and_go_in_order_read_every_record_once(
    strategy: str, played: list[tuple[str, int, int]]
) -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        await stage.create("t", PARTITIONS)
        readings = Readings(stage, strategy)
        for what, number, pause_ms in played:
            if what == "join" and len(readings.there) < 4:
                await readings.join()
            elif what == "leave":
                await readings.leave(number)
            elif what == "write":
                await readings.write(number)
            elif what == "rejoin" and readings.there:
                readings.rebalances += 1
            await asyncio.sleep(pause_ms / 1000)
        await readings.finish()
        assert Counter(readings.read) == Counter(range(readings.written))

    play(scenario, BROKER, delay_max_ms=5)


rough_steps = st.lists(
    st.tuples(
        st.sampled_from(["join", "join", "leave", "write", "cut", "restart", "silence", "hear"]),
        st.integers(0, 12),
        st.integers(0, 8000),
    ),
    max_size=10,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(STRATEGIES), rough_steps)
def test_nothing_is_lost_when_connections_break_and_brokers_restart(
    strategy: str, played: list[tuple[str, int, int]]
) -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        network = stage.memory.network
        await stage.create("t", PARTITIONS)
        readings = Readings(stage, strategy)
        for what, number, pause_ms in played:
            if what == "join" and len(readings.there) < 4:
                await readings.join()
            elif what == "leave":
                await readings.leave(number)
            elif what == "write":
                await readings.write(number)
            elif what == "cut":
                network.reset_all(CLIENT_HOST)
            elif what == "restart":
                await stage.broker.stop()
                await asyncio.sleep(number)
                stage.broker = await stage.memory.start(BROKER)
            elif what == "silence":
                network.part(CLIENT_HOST, "broker")
            elif what == "hear":
                network.heal()
            await asyncio.sleep(pause_ms / 1000)
        network.heal()
        await readings.finish()
        assert set(readings.read) == set(range(readings.written))

    play(scenario, BROKER, delay_max_ms=5)


@pytest.mark.parametrize("reads", ["records", "nothing", "paused"])
def test_a_poll_that_waits_for_long_is_no_application_that_does_not_poll(reads: str) -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        await stage.create("t", 1)
        consumer, other = stage.consumer(**QUICK), stage.consumer(**QUICK)
        both = [consumer, other] if reads == "nothing" else [consumer]
        for each in both:
            each.subscribe(["t"])
        for _ in range(20):
            await asyncio.gather(*(each.poll(1) for each in both))
        assert sum(len(each.assignment()) for each in both) == 1
        if reads == "paused":
            consumer.pause(*consumer.assignment())
        before = [each.group_metadata().generation_id for each in both]
        await asyncio.gather(*(each.poll(200) for each in both))
        assert [each.group_metadata().generation_id for each in both] == before

    play(scenario, BROKER)


def test_what_was_polled_is_committed_while_the_next_poll_waits() -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        await stage.create("t", 1)
        consumer = stage.consumer(auto_commit_interval_ms=2000, **QUICK)
        consumer.subscribe(["t"])
        partition = TopicPartition("t", 0)
        await stage.write(partition, b"1")
        while not await consumer.poll(1):
            pass
        other = stage.consumer(group_id="g")
        waiting = asyncio.create_task(consumer.poll(60))
        await asyncio.sleep(8)
        found = await other.committed(partition)
        assert not waiting.done()
        assert found[partition] is not None
        assert found[partition].offset == 1
        await waiting

    play(scenario, BROKER)


def test_a_waiting_poll_takes_part_in_rebalances() -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        await stage.create("t", 2)
        first = stage.consumer(**QUICK)
        first.subscribe(["t"])
        waiting = asyncio.create_task(first.poll(50))
        await asyncio.sleep(5)
        assert len(first.assignment()) == 2
        second = stage.consumer(**QUICK)
        second.subscribe(["t"])
        both = asyncio.create_task(second.poll(40))
        await asyncio.sleep(10)
        assert [len(first.assignment()), len(second.assignment())] == [1, 1]
        await asyncio.gather(waiting, both)

    play(scenario, BROKER)


@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
def test_only_eager_groups_stop_while_somebody_joins_slowly(strategy: str) -> None:
    # A member in a long piece of work holds a rebalance up.
    async def scenario(stage: ConsumerFixture) -> None:
        await stage.create("t", PARTITIONS)
        how: dict[str, Any] = {**QUICK, "partition_assignment_strategy": strategy}
        busy, reader = stage.consumer(**how), stage.consumer(**how)
        for each in (busy, reader):
            each.subscribe(["t"])
        while [len(busy.assignment()), len(reader.assignment())] != [2, 2]:
            await asyncio.gather(busy.poll(0.2), reader.poll(0.2))
        newcomer = stage.consumer(**how)
        newcomer.subscribe(["t"])
        joining = asyncio.create_task(newcomer.poll(40))
        await asyncio.sleep(3)
        for partition in sorted(reader.assignment()):
            await stage.write(partition, b"x")
        read = []
        for _ in range(20):
            read += await reader.poll(1)
        assert len(read) == (2 if strategy == "cooperative-sticky" else 0)
        while not joining.done():
            await asyncio.gather(busy.poll(1), reader.poll(1))

    play(scenario, BROKER)
