"""Transactions and group offsets while coordinators and leaders move between three brokers that also restart.

Every committed transaction is read once and in order, no aborted one is, and its offset is the committed one.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.unit.broker.handlers.transactional_client import TransactionalProducer

from odradek.model.errors import ErrorCode
from odradek.model.ids import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from odradek.records.codec import decode_batch, read_headers
from odradek.records.control_records import ControlRecordType, read_control_type
from odradek.testing.broker import ConnectionEnded

from .coordinator_cluster import PRODUCE, TXN_OFFSET_COMMIT, CoordinatorCluster, run_scenario

BROKERS = (1, 2, 3)
TOPICS = ("orders", OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
ORDERS = TopicPartition("orders", 0)
SINGLE_PARTITIONS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
RETRIED = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


class LeaderRouter:
    """Sends each request to the current leader of the partition it is about."""

    def __init__(self, fixture: CoordinatorCluster) -> None:
        self.fixture = fixture
        self.cluster = fixture.cluster

    async def request(self, api_key: int, version: int, message: Any) -> Any:
        topic = {PRODUCE: "orders", TXN_OFFSET_COMMIT: OFFSETS_TOPIC}.get(api_key, TRANSACTIONS_TOPIC)
        leader = self.fixture.leaders[TopicPartition(topic, 0)][0]
        return await self.fixture[leader].request(api_key, version, message)


async def move_leaders(
    fixture: CoordinatorCluster, chance: random.Random, application_done: asyncio.Event
) -> None:
    """Move a leadership every now and then, or restart a broker. Brokers are told in any order, some late."""
    while not application_done.is_set():
        await fixture.clock.sleep_ms(chance.randrange(5, 150))
        if chance.random() < 0.05:
            await restart(fixture, chance.choice(BROKERS), chance)
            continue
        topic, leader = chance.choice(TOPICS), chance.choice(BROKERS)
        order = chance.sample(BROKERS, 3)
        await fixture.place(leader, topic, to=order[:1])
        for broker_id in order[1:]:
            if chance.random() < 0.5:
                await fixture.clock.sleep_ms(chance.randrange(100))
            await fixture.tell(broker_id, topic)


async def restart(fixture: CoordinatorCluster, broker_id: int, chance: random.Random) -> None:
    """Stop a broker after its leaderships have moved, and start it again."""
    others = [each for each in BROKERS if each != broker_id]
    for topic in TOPICS:
        if fixture.leaders[TopicPartition(topic, 0)][0] == broker_id:
            await fixture.place(chance.choice(others), topic, to=others)
    await fixture.nodes.pop(broker_id).stop()
    await fixture.announce()
    await fixture.clock.sleep_ms(chance.randrange(500))
    await fixture.start(broker_id, SINGLE_PARTITIONS)
    await fixture.announce()
    await fixture.announce(fixture.leaders, to=[broker_id])
    for topic in TOPICS:
        await fixture.tell_again(broker_id, topic)


class Application:
    """Runs transactions with retries, and remembers their outcome."""

    def __init__(self, fixture: CoordinatorCluster, chance: random.Random) -> None:
        self.fixture, self.chance = fixture, chance
        self.producer = TransactionalProducer(LeaderRouter(fixture))
        self.committed: list[bytes] = []
        self.offset = -1

    async def retry(self, call: Callable[[], Awaitable[int]]) -> None:
        for _ in range(1_000):
            try:
                code = ErrorCode(await call())
            except ConnectionEnded:
                code = ErrorCode.NETWORK_EXCEPTION
            if not code:
                return
            assert code in RETRIED, code.name
            await self.fixture.clock.sleep_ms(20)
        raise AssertionError(f"still {code.name} after 1000 retries")

    async def run(self, count: int) -> None:
        await self.retry(self.producer.init)
        for number in range(count):
            await self._transact(number, commits=self.chance.random() < 0.7)
        await self.retry(self._end_state)

    async def _transact(self, number: int, *, commits: bool) -> None:
        producer, values = self.producer, [b"%d-%d" % (number, part) for part in range(3)]

        async def add() -> int:
            return next(iter((await producer.add()).values()))

        await self.retry(add)
        for value in values:
            await self.retry(lambda value=value: producer.write(value))  # type: ignore[misc]
        await self.retry(producer.add_offsets)
        await self.retry(lambda: producer.commit_offset(number))
        await self.retry(lambda: producer.end(commits=commits))
        if commits:
            self.committed += values
            self.offset = number

    async def _end_state(self) -> int:
        """Return NONE once the last transaction is complete."""
        state = await self.producer.state()
        return ErrorCode.NONE if state.startswith("Complete") else ErrorCode.CONCURRENT_TRANSACTIONS


def read_committed_values(data: bytes) -> list[bytes | None]:
    """Return the values of committed transactions of a single producer, in order."""
    kept: list[bytes | None] = []
    pending: list[bytes | None] = []
    for header in read_headers(data):
        records = decode_batch(data, header)
        if not header.is_control:
            pending += [record.value for record in records]
            continue
        if read_control_type(records[0].key) is ControlRecordType.COMMIT:
            kept += pending
        pending = []
    assert pending == [], "a transaction is open"
    return kept


def log_bytes(fixture: CoordinatorCluster, broker_id: int, topic: str) -> bytes:
    log = fixture[broker_id].partition(topic).log
    data = bytearray()
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        records = log.read(offset, 1 << 20, log.log_end_offset).data
        chunk = records if isinstance(records, bytes) else records.read()
        data += chunk
        offset = list(read_headers(chunk))[-1].last_offset + 1
    return bytes(data)


@pytest.mark.parametrize("seed", range(8))
def test_transactions_are_exactly_once_while_coordinators_and_leaders_move(seed: int) -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        for topic in TOPICS:
            await fixture.create(topic, 1, BROKERS)
            await fixture.place(1, topic)
        chance = random.Random(seed)
        application = Application(fixture, chance)
        application_done = asyncio.Event()
        moving = asyncio.get_running_loop().create_task(move_leaders(fixture, chance, application_done))
        try:
            await application.run(15)
        finally:
            application_done.set()
            await moving
        for topic in TOPICS:
            for broker_id in BROKERS:
                await fixture.tell_again(broker_id, topic)
        await fixture.until_loaded()
        for topic in TOPICS:
            await fixture.until_replicated(topic)
            logs = {log_bytes(fixture, broker_id, topic) for broker_id in BROKERS}
            assert len(logs) == 1, f"the replicas of {topic} differ"
        assert read_committed_values(log_bytes(fixture, 1, "orders")) == application.committed
        groups = fixture[fixture.leaders[TopicPartition(OFFSETS_TOPIC, 0)][0]].groups
        _, offsets = groups.shard_of("g").fetch_offsets("g", None, False)
        assert (offsets[ORDERS].offset if ORDERS in offsets else -1) == application.offset

    run_scenario(scenario, size=3, settings=SINGLE_PARTITIONS)
