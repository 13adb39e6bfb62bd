"""Batches that take long to validate: on threads, in order per partition, and nobody else waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from odradek.model.errors import ErrorCode
from odradek.model.protocol_enums import Compression
from odradek.records.append_rules import EVENT_LOOP_LIMITS, WORKER_LIMITS
from odradek.testing.broker import ConnectionEnded
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

from .transactional_client import COMMITTED, SETTINGS, Transactor, committed, settle

PRODUCE, DELETE_TOPICS = 0, 20
LARGE = bytes(2 * EVENT_LOOP_LIMITS.decompressed_bytes_max)
HUGE = bytes(WORKER_LIMITS.decompressed_bytes_max + 1)
ZSTD = {"compression": Compression.ZSTD}


class Held:
    """Workers that begin nothing until they are released."""

    def __init__(self) -> None:
        self.asked = 0
        self.asked_alone = 0
        self._released = asyncio.Event()

    def release(self) -> None:
        self._released.set()

    async def run(self, work: Callable[[], Any]) -> Any:
        self.asked += 1
        await self._released.wait()
        return work()

    async def run_alone(self, work: Callable[[], Any]) -> Any:
        self.asked_alone += 1
        return await self.run(work)


def hold(town: Any) -> Held:
    held = Held()
    town.cluster.workers.run = held.run
    town.cluster.workers.run_alone = held.run_alone
    return held


async def begin(coroutine: Any) -> asyncio.Task[Any]:
    task = asyncio.ensure_future(coroutine)
    await asyncio.sleep(0.01)
    return task


def test_nobody_else_waits_for_a_large_batch(play):
    async def scenario(town):
        await town.create("orders", 2)
        held = hold(town)
        other = await town.memory.connect()
        large = await begin(town.produce("orders", LARGE, **ZSTD))
        town.client, first = other, town.client
        assert (await town.produce("orders", b"small", partition=1)).error_code == 0
        assert await town.values("orders", partition=1) == [b"small"]
        assert not large.done()
        town.client = first
        held.release()
        assert (await large).base_offset == 0
        assert await town.values("orders", partition_max_bytes=1 << 22) == [LARGE]

    play(scenario)


@pytest.mark.parametrize("acks", [-1, 1])
def test_appends_of_one_connection_to_one_partition_stay_in_the_order_they_came(play, acks):
    async def scenario(town):
        await town.create("orders")
        held = hold(town)
        values = [LARGE, b"plain", LARGE + b"2", b"last"]
        tasks = [
            await begin(town.produce("orders", value, acks=acks, **(ZSTD if len(value) > 10 else {})))
            for value in values
        ]
        assert town.broker._replicas.find("orders", 0).log.log_end_offset == 0, (
            "the plain ones wait behind the large ones"
        )
        held.release()
        assert [(await task).base_offset for task in tasks] == [0, 1, 2, 3]
        assert await town.values("orders") == values
        assert (await town.produce("orders", b"after")).base_offset == 4
        assert town.broker._replicas.find("orders", 0).queued_appends == 0, "later ones go the short way"

    play(scenario)


def test_other_connections_write_to_the_partition_meanwhile(play):
    async def scenario(town):
        await town.create("orders")
        held = hold(town)
        large = await begin(town.produce("orders", LARGE, **ZSTD))
        town.client, first = await town.memory.connect(), town.client
        assert (await town.produce("orders", b"mine")).base_offset == 0
        held.release()
        assert (await large).base_offset == 1
        town.client = first
        assert await town.values("orders") == [b"mine", LARGE]

    play(scenario)


def test_a_retry_on_another_connection_is_not_stored_twice(play):
    async def scenario(town):
        await town.create("orders")
        held = hold(town)
        author = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, **ZSTD}
        first = await begin(town.produce("orders", LARGE, **author))
        town.client = await town.memory.connect()
        retry = await begin(town.produce("orders", LARGE, **author))
        held.release()
        assert ((await first).base_offset, (await retry).base_offset) == (0, 0)
        assert await town.values("orders") == [LARGE]

    play(scenario)


def test_requests_of_one_connection_are_answered_in_order_though_validation_is_not(play):
    async def scenario(town):
        await town.create("orders", 2)
        held = hold(town)
        large = await begin(town.produce("orders", LARGE, partition=0, **ZSTD))
        small = await begin(town.produce("orders", b"small", partition=1))
        assert not small.done(), "appended, and answered in its turn"
        held.release()
        assert ((await large).base_offset, (await small).base_offset) == (0, 0)

    play(scenario)


def test_a_refused_batch_holds_up_nobody_behind_it(play):
    async def scenario(town):
        await town.create("orders", settings={"cleanup.policy": "compact"})
        held = hold(town)
        keyless = await begin(town.produce("orders", LARGE, **ZSTD))
        plain = await begin(town.produce("orders", b"no key either"))
        assert (keyless.done(), plain.done()) == (False, False)
        held.release()
        refused = await keyless
        assert refused.error_code == ErrorCode.INVALID_RECORD
        assert [error.batch_index for error in refused.record_errors] == [0]
        assert (await plain).error_code == ErrorCode.INVALID_RECORD
        assert await town.values("orders") == []

    play(scenario)


def test_what_unpacks_to_more_than_the_bound_is_refused_as_too_large(play):
    async def scenario(town):
        await town.create("orders")
        assert (await town.produce("orders", LARGE, **ZSTD)).error_code == ErrorCode.MESSAGE_TOO_LARGE

    play(scenario, {"odradek.decompressed.bytes.max": str(len(LARGE) - 1)})


def test_huge_batches_are_validated_one_at_a_time(play):
    async def scenario(town):
        await town.create("orders")
        held = hold(town)
        held.release()
        assert (await town.produce("orders", LARGE, **ZSTD)).base_offset == 0
        assert (held.asked, held.asked_alone) == (1, 0)
        assert (await town.produce("orders", HUGE, **ZSTD)).base_offset == 1
        assert held.asked_alone == 1

    play(scenario)


@pytest.mark.parametrize("kind", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_small_compressed_batches_are_validated_on_the_loop(play, kind):
    async def scenario(town):
        await town.create("orders")
        held = hold(town)
        assert (await town.produce("orders", b"small" * 100, compression=kind)).base_offset == 0
        assert held.asked == 0

    play(scenario)


def test_without_acks_a_refusal_after_validation_closes_the_connection(play, make_batch):
    async def scenario(town):
        await town.create("orders", settings={"cleanup.policy": "compact"})
        held = hold(town)
        data = [TopicProduceData("orders", [PartitionProduceData(0, make_batch(LARGE, **ZSTD))])]
        sent = await begin(town.ask(PRODUCE, 11, ProduceRequest(None, 0, 30_000, data)))
        assert town.client.is_open
        held.release()
        with pytest.raises(ConnectionEnded):
            await sent

    play(scenario)


def test_a_topic_deleted_meanwhile_is_not_written_to(play):
    async def scenario(town):
        await town.create("orders")
        held = hold(town)
        late = await begin(town.produce("orders", LARGE, **ZSTD))
        town.client = await town.memory.connect()
        await town.ask(DELETE_TOPICS, 6, DeleteTopicsRequest(topics=[DeleteTopicState("orders")]))
        await asyncio.sleep(1)
        assert await town.create("orders") == ErrorCode.NONE
        held.release()
        assert (await late).error_code in (
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
        await asyncio.sleep(1)
        assert await town.values("orders") == []

    play(scenario)


def test_a_stop_waits_for_what_is_being_validated(outlive):
    async def scenario(cluster, start):
        town = await start()
        await town.create("orders")
        held = hold(town)
        late = await begin(town.produce("orders", LARGE, **ZSTD))
        stopping = await begin(town.memory.stop())
        assert not late.done()
        held.release()
        assert (await late).base_offset == 0
        await stopping
        town = await start()
        assert await town.values("orders", partition_max_bytes=1 << 22) == [LARGE]

    outlive(scenario)


def test_a_defect_in_validation_closes_the_connection_and_holds_up_nobody(play):
    async def scenario(town):
        await town.create("orders")

        async def broken(work):
            raise RuntimeError("planted")

        town.cluster.workers.run = broken
        with pytest.raises(ConnectionEnded):
            await town.produce("orders", LARGE, **ZSTD)
        town.client = await town.memory.connect()
        assert (await town.produce("orders", b"next")).base_offset == 0

    play(scenario)


def test_a_write_whose_transaction_ended_meanwhile_is_refused(play):
    async def scenario(town):
        await settle(town)
        await town.create("orders")
        held = hold(town)
        writer = Transactor(town)
        await writer.init()
        await writer.add("orders", 0)
        late = await begin(writer.write(LARGE * 3))
        first, town.client = town.client, await town.memory.connect()
        await writer.end(commits=False)
        await writer.rest()
        held.release()
        assert (await late) == ErrorCode.INVALID_TXN_STATE
        assert await committed(town) == []
        entry = await town.fetch("orders", isolation_level=COMMITTED)
        assert entry.last_stable_offset == entry.high_watermark, "nothing was left open"
        town.client = first

    play(scenario, {**SETTINGS, "message.max.bytes": "10000000"})


def test_a_large_write_within_its_transaction_counts(play):
    async def scenario(town):
        await settle(town)
        await town.create("orders")
        writer = Transactor(town)
        await writer.init()
        await writer.add("orders", 0)
        assert await writer.write(LARGE * 3) == 0
        assert await writer.write(LARGE * 3) == 0
        assert town.cluster.workers.ran == 2
        await writer.end()
        await writer.rest()
        assert (await town.values("orders", isolation_level=COMMITTED))[:2] == [LARGE * 3] * 2

    play(scenario, {**SETTINGS, "message.max.bytes": "10000000"})
