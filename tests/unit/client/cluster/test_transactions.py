"""Transactions through changes of coordinators and leaders: committed once, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from odradek.client.values import OffsetAndMetadata
from odradek.model.client_errors import ProducerFenced
from odradek.model.ids import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition

from .client_cluster import REQUEST_TIMEOUT_MS, ClientCluster, numbers_of, play, read_until, record_for

TOPIC, GROUP = "ledger", "bookkeepers"
TRANSACTIONS = 12
TRANSACTION_LOG, OFFSETS_LOG = TopicPartition(TRANSACTIONS_TOPIC, 0), TopicPartition(OFFSETS_TOPIC, 0)
DATA = (TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1))

Change = Callable[[ClientCluster, int], Coroutine[Any, Any, None]]
"""A change of the cluster in the middle of a transaction, by its number."""


async def move_coordinator(fixture: ClientCluster, number: int) -> None:
    await fixture.move(TRANSACTION_LOG, number % 3)


async def move_data(fixture: ClientCluster, number: int) -> None:
    await fixture.move(DATA[number % 2], number % 3)


async def move_group(fixture: ClientCluster, number: int) -> None:
    await fixture.move(OFFSETS_LOG, number % 3)


async def bounce(fixture: ClientCluster, number: int) -> None:
    """Kill a broker in every other transaction, and start it in the next."""
    broker_id = number // 2 % 3
    if number % 2 == 0:
        await fixture.kill(broker_id)
    else:
        await fixture.start(broker_id)
        await fixture.until_in_sync(TRANSACTION_LOG, OFFSETS_LOG, *DATA)


async def run_transactions(fixture: ClientCluster, change: Change) -> list[int]:
    """Run transactions over both partitions and the group, every third aborted; return the committed."""
    committed: list[int] = []
    producer = fixture.producer(transactional_id="ledger-1", transaction_timeout_ms=60_000)
    await producer.init_transactions()
    for number in range(TRANSACTIONS):
        await producer.begin_transaction()
        await producer.send(*record_for(DATA[0], number))
        changing = asyncio.create_task(change(fixture, number))
        await asyncio.sleep(0.01 * (number % 4))
        await producer.send(*record_for(DATA[1], number))
        await producer.send_offsets_to_transaction({DATA[0]: OffsetAndMetadata(number)}, GROUP)
        if number % 3 == 2:
            await producer.abort_transaction()
        else:
            await producer.commit_transaction()
            committed.append(number)
        await changing
    await producer.close()
    return committed


@pytest.mark.parametrize("change", [move_coordinator, move_data, move_group, bounce])
@pytest.mark.parametrize("seed", range(2))
def test_transactions_are_committed_once_through_changes_of_leaders(change: Change, seed: int) -> None:
    async def scenario(fixture: ClientCluster) -> None:
        await fixture.create_internal_topics()
        await fixture.create(TOPIC, [(0, 1, 2), (1, 2, 0)])
        committed = await run_transactions(fixture, change)
        for partition in DATA:
            consumer = fixture.consumer(partition, isolation_level="read_committed")
            records = await read_until(consumer, len(committed))
            assert numbers_of(records) == committed
        ends = await fixture.consumer(isolation_level="read_committed").end_offsets(DATA)
        for partition in DATA:
            assert ends[partition] == fixture.partition(fixture.leader(partition), partition).log_end_offset
        group = fixture.consumer(group_id=GROUP)
        offsets = await group.committed(DATA[0])
        assert offsets[DATA[0]] == OffsetAndMetadata(committed[-1])

    play(scenario, seed=seed)


def test_producer_that_takes_over_after_a_kill_fences_the_old_one_at_the_new_coordinator() -> None:
    async def scenario(fixture: ClientCluster) -> None:
        await fixture.create_internal_topics()
        await fixture.create(TOPIC, [(0, 1, 2)])
        old = fixture.producer(transactional_id="t")
        await old.init_transactions()
        await old.begin_transaction()
        await (await old.send(*record_for(DATA[0], 1)))
        await fixture.kill(fixture.leader(TRANSACTION_LOG))
        new = fixture.producer(transactional_id="t")
        await new.init_transactions()
        await new.begin_transaction()
        await (await new.send(*record_for(DATA[0], 2)))
        await new.commit_transaction()
        with pytest.raises(ProducerFenced):
            await old.commit_transaction()
        consumer = fixture.consumer(DATA[0], isolation_level="read_committed")
        assert numbers_of(await read_until(consumer, 1)) == [2]

    play(scenario)


@pytest.mark.parametrize("seed", range(3))
def test_transactions_go_on_while_a_replaced_coordinator_still_answers(seed: int) -> None:
    """It does not hear of its successor: it names itself, and waits for followers that have left it."""
    former, limit_s = 0, 2 * REQUEST_TIMEOUT_MS / 1000

    async def run(fixture: ClientCluster, count: int) -> None:
        producer = fixture.producer(transactional_id="ledger-1", bootstrap_servers="broker0:9093")
        await producer.init_transactions()
        for number in range(count):
            await producer.begin_transaction()
            await producer.send(*record_for(DATA[0], number))
            await producer.commit_transaction()
        await producer.close()

    async def scenario(fixture: ClientCluster) -> None:
        await fixture.create_internal_topics((former, 1, 2))
        await fixture.create(TOPIC, [(1, 2, former)])
        running = asyncio.create_task(run(fixture, 40))
        await asyncio.sleep(0.5)
        for host in ("broker1", "broker2", "controller"):
            fixture.cluster.network.partition("broker0", host)
        await fixture.broker(former).expire_session()
        await fixture.until(lambda: fixture.leader(TRANSACTION_LOG) != former)
        assert not running.done()
        async with asyncio.timeout(limit_s):
            await running
        # It still has the transaction that is pending there, so another producer must wait for its end.
        async with asyncio.timeout(limit_s):
            await run(fixture, 5)
        fixture.cluster.network.heal()

    play(scenario, seed=seed)
