"""Validation of large batches on threads, in order per partition, without delaying others."""

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

from .transactional_client import COMMITTED, SETTINGS, TransactionalProducer, committed, create_coordinators

PRODUCE, DELETE_TOPICS = 0, 20
LARGE = bytes(2 * EVENT_LOOP_LIMITS.decompressed_bytes_max)
HUGE = bytes(WORKER_LIMITS.decompressed_bytes_max + 1)
ZSTD = {"compression": Compression.ZSTD}


class PausedSession:
    """Workers that start nothing until released."""

    def __init__(self) -> None:
        self.requested = 0
        self.asked_alone = 0
        self._released = asyncio.Event()

    def release(self) -> None:
        self._released.set()

    async def run(self, work: Callable[[], Any]) -> Any:
        self.requested += 1
        await self._released.wait()
        return work()

    async def run_alone(self, work: Callable[[], Any]) -> Any:
        self.asked_alone += 1
        return await self.run(work)


def hold(harness: Any) -> PausedSession:
    held = PausedSession()
    harness.cluster.workers.run = held.run
    harness.cluster.workers.run_alone = held.run_alone
    return held


async def start_task(coroutine: Any) -> asyncio.Task[Any]:
    task = asyncio.ensure_future(coroutine)
    await asyncio.sleep(0.01)
    return task


def test_large_batch_does_not_delay_other_requests(run_scenario):
    async def scenario(harness):
        await harness.create("orders", 2)
        held = hold(harness)
        other = await harness.memory_broker.connect()
        large = await start_task(harness.produce("orders", LARGE, **ZSTD))
        harness.client, first = other, harness.client
        assert (await harness.produce("orders", b"small", partition=1)).error_code == 0
        assert await harness.values("orders", partition=1) == [b"small"]
        assert not large.done()
        harness.client = first
        held.release()
        assert (await large).base_offset == 0
        assert await harness.values("orders", partition_max_bytes=1 << 22) == [LARGE]

    run_scenario(scenario)


@pytest.mark.parametrize("acks", [-1, 1])
def test_appends_of_one_connection_to_one_partition_keep_their_order(run_scenario, acks):
    async def scenario(harness):
        await harness.create("orders")
        held = hold(harness)
        values = [LARGE, b"plain", LARGE + b"2", b"last"]
        tasks = [
            await start_task(harness.produce("orders", value, acks=acks, **(ZSTD if len(value) > 10 else {})))
            for value in values
        ]
        assert harness.broker._replica_manager.get_partition("orders", 0).log.log_end_offset == 0, (
            "the plain ones wait behind the large ones"
        )
        held.release()
        assert [(await task).base_offset for task in tasks] == [0, 1, 2, 3]
        assert await harness.values("orders") == values
        assert (await harness.produce("orders", b"after")).base_offset == 4
        assert harness.broker._replica_manager.get_partition("orders", 0).queued_appends == 0, (
            "later appends are not queued"
        )

    run_scenario(scenario)


def test_other_connections_append_to_the_partition_during_validation(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        held = hold(harness)
        large = await start_task(harness.produce("orders", LARGE, **ZSTD))
        harness.client, first = await harness.memory_broker.connect(), harness.client
        assert (await harness.produce("orders", b"mine")).base_offset == 0
        held.release()
        assert (await large).base_offset == 1
        harness.client = first
        assert await harness.values("orders") == [b"mine", LARGE]

    run_scenario(scenario)


def test_retry_on_another_connection_is_deduplicated(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        held = hold(harness)
        author = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, **ZSTD}
        first = await start_task(harness.produce("orders", LARGE, **author))
        harness.client = await harness.memory_broker.connect()
        retry = await start_task(harness.produce("orders", LARGE, **author))
        held.release()
        assert ((await first).base_offset, (await retry).base_offset) == (0, 0)
        assert await harness.values("orders") == [LARGE]

    run_scenario(scenario)


def test_responses_are_in_order_when_validation_is_not(run_scenario):
    async def scenario(harness):
        await harness.create("orders", 2)
        held = hold(harness)
        large = await start_task(harness.produce("orders", LARGE, partition=0, **ZSTD))
        small = await start_task(harness.produce("orders", b"small", partition=1))
        assert not small.done(), "appended, and answered in request order"
        held.release()
        assert ((await large).base_offset, (await small).base_offset) == (0, 0)

    run_scenario(scenario)


def test_rejected_batch_does_not_block_later_appends(run_scenario):
    async def scenario(harness):
        await harness.create("orders", settings={"cleanup.policy": "compact"})
        held = hold(harness)
        keyless = await start_task(harness.produce("orders", LARGE, **ZSTD))
        plain = await start_task(harness.produce("orders", b"no key either"))
        assert (keyless.done(), plain.done()) == (False, False)
        held.release()
        rejected = await keyless
        assert rejected.error_code == ErrorCode.INVALID_RECORD
        assert [error.batch_index for error in rejected.record_errors] == [0]
        assert (await plain).error_code == ErrorCode.INVALID_RECORD
        assert await harness.values("orders") == []

    run_scenario(scenario)


def test_batch_above_the_decompressed_limit_is_rejected(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        assert (await harness.produce("orders", LARGE, **ZSTD)).error_code == ErrorCode.MESSAGE_TOO_LARGE

    run_scenario(scenario, {"odradek.decompressed.bytes.max": str(len(LARGE) - 1)})


def test_huge_batches_are_validated_one_at_a_time(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        held = hold(harness)
        held.release()
        assert (await harness.produce("orders", LARGE, **ZSTD)).base_offset == 0
        assert (held.requested, held.asked_alone) == (1, 0)
        assert (await harness.produce("orders", HUGE, **ZSTD)).base_offset == 1
        assert held.asked_alone == 1

    run_scenario(scenario)


@pytest.mark.parametrize("kind", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_small_compressed_batches_are_validated_on_the_loop(run_scenario, kind):
    async def scenario(harness):
        await harness.create("orders")
        held = hold(harness)
        assert (await harness.produce("orders", b"small" * 100, compression=kind)).base_offset == 0
        assert held.requested == 0

    run_scenario(scenario)


def test_acks_0_batch_rejected_after_validation_closes_the_connection(run_scenario, make_batch):
    async def scenario(harness):
        await harness.create("orders", settings={"cleanup.policy": "compact"})
        held = hold(harness)
        data = [TopicProduceData("orders", [PartitionProduceData(0, make_batch(LARGE, **ZSTD))])]
        sent = await start_task(harness.request(PRODUCE, 11, ProduceRequest(None, 0, 30_000, data)))
        assert harness.client.is_open
        held.release()
        with pytest.raises(ConnectionEnded):
            await sent

    run_scenario(scenario)


def test_append_to_a_topic_deleted_during_validation_fails(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        held = hold(harness)
        late = await start_task(harness.produce("orders", LARGE, **ZSTD))
        harness.client = await harness.memory_broker.connect()
        await harness.request(DELETE_TOPICS, 6, DeleteTopicsRequest(topics=[DeleteTopicState("orders")]))
        await asyncio.sleep(1)
        assert await harness.create("orders") == ErrorCode.NONE
        held.release()
        assert (await late).error_code in (
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
        await asyncio.sleep(1)
        assert await harness.values("orders") == []

    run_scenario(scenario)


def test_stop_waits_for_validation(run_with_restarts):
    async def scenario(cluster, start):
        harness = await start()
        await harness.create("orders")
        held = hold(harness)
        late = await start_task(harness.produce("orders", LARGE, **ZSTD))
        stopping = await start_task(harness.memory_broker.stop())
        assert not late.done()
        held.release()
        assert (await late).base_offset == 0
        await stopping
        harness = await start()
        assert await harness.values("orders", partition_max_bytes=1 << 22) == [LARGE]

    run_with_restarts(scenario)


def test_exception_in_validation_closes_only_its_own_connection(run_scenario):
    async def scenario(harness):
        await harness.create("orders")

        async def broken(work):
            raise RuntimeError("planted")

        harness.cluster.workers.run = broken
        with pytest.raises(ConnectionEnded):
            await harness.produce("orders", LARGE, **ZSTD)
        harness.client = await harness.memory_broker.connect()
        assert (await harness.produce("orders", b"next")).base_offset == 0

    run_scenario(scenario)


def test_append_whose_transaction_ended_during_validation_is_rejected(run_scenario):
    async def scenario(harness):
        await create_coordinators(harness)
        await harness.create("orders")
        held = hold(harness)
        writer = TransactionalProducer(harness)
        await writer.init()
        await writer.add("orders", 0)
        late = await start_task(writer.write(LARGE * 3))
        first, harness.client = harness.client, await harness.memory_broker.connect()
        await writer.end(commits=False)
        await writer.wait_until_complete()
        held.release()
        assert (await late) == ErrorCode.INVALID_TXN_STATE
        assert await committed(harness) == []
        entry = await harness.fetch("orders", isolation_level=COMMITTED)
        assert entry.last_stable_offset == entry.high_watermark, "no transaction is open"
        harness.client = first

    run_scenario(scenario, {**SETTINGS, "message.max.bytes": "10000000"})


def test_large_transactional_batch_is_appended(run_scenario):
    async def scenario(harness):
        await create_coordinators(harness)
        await harness.create("orders")
        writer = TransactionalProducer(harness)
        await writer.init()
        await writer.add("orders", 0)
        assert await writer.write(LARGE * 3) == 0
        assert await writer.write(LARGE * 3) == 0
        assert harness.cluster.workers.ran == 2
        await writer.end()
        await writer.wait_until_complete()
        assert (await harness.values("orders", isolation_level=COMMITTED))[:2] == [LARGE * 3] * 2

    run_scenario(scenario, {**SETTINGS, "message.max.bytes": "10000000"})
