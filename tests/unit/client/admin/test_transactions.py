"""Producer and transaction methods of the admin client, with an in-memory broker."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from odradek.client.admin.offsets import OffsetSpec
from odradek.client.admin.topics import NewTopic
from odradek.model.client_errors import PartialFailure
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.records.batch import BatchBuilder
from odradek.testing.clock import WALL_START_MS
from odradek.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

RunWithAdmin = Callable[..., None]
A0 = TopicPartition("a", 0)


async def begin(fixture: Any, name: str = "clerk") -> tuple[int, int]:
    """Open a transaction with one record; return producer id and epoch."""
    with suppress(PartialFailure):  # creates the topic of the coordinator
        await fixture.admin.describe_transactions([name])
    initialized = await fixture.raw.request(22, 4, InitProducerIdRequest(name, 60_000))
    assert initialized.error_code == 0
    identity = (initialized.producer_id, initialized.producer_epoch)
    added = await fixture.raw.request(
        24,
        3,
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=identity[0],
            v3_and_below_producer_epoch=identity[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic("a", [0])],
        ),
    )
    assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
    builder = BatchBuilder(
        producer_id=identity[0], producer_epoch=identity[1], base_sequence=0, transactional=True
    )
    builder.append(WALL_START_MS, None, b"value")
    parts = [TopicProduceData("a", [PartitionProduceData(0, bytearray(builder.build()))])]
    response = await fixture.raw.request(0, 11, ProduceRequest(name, -1, 30_000, parts))
    assert response.responses[0].partition_responses[0].error_code == 0
    return identity


async def last_stable(fixture: Any) -> int:
    offsets = await fixture.admin.list_offsets({A0: OffsetSpec.LATEST}, isolation_level="read_committed")
    offset: int = offsets[A0].offset
    return offset


def test_list_and_describe_an_open_transaction(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await fixture.admin.create_topics([NewTopic("a", 1)])
        producer_id, epoch = await begin(fixture)
        listed = await fixture.admin.list_transactions()
        assert listed["clerk"].state == "Ongoing"
        assert await fixture.admin.list_transactions(states=["Empty"]) == {}
        assert set(await fixture.admin.list_transactions(producer_ids=[producer_id])) == {"clerk"}
        assert await fixture.admin.list_transactions(running_longer_than_ms=50_000) == {}
        described = (await fixture.admin.describe_transactions(["clerk"]))["clerk"]
        assert (described.state, described.producer_id, described.producer_epoch) == (
            "Ongoing",
            producer_id,
            epoch,
        )
        assert described.partitions == {A0}
        assert described.start_time_ms > 0
        (producer,) = (await fixture.admin.describe_producers([A0]))[A0]
        assert (producer.producer_id, producer.transaction_start_offset) == (producer_id, 0)
        broker = fixture.memory.broker.broker_id
        assert await fixture.admin.describe_producers([A0], broker=broker) == {A0: [producer]}

    run_with_admin(scenario)


def test_fence_producers_aborts_the_open_transaction(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await fixture.admin.create_topics([NewTopic("a", 1)])
        producer_id, epoch = await begin(fixture)
        assert await last_stable(fixture) == 0
        fenced = (await fixture.admin.fence_producers(["clerk"]))["clerk"]
        assert fenced.producer_id == producer_id
        assert fenced.producer_epoch > epoch
        assert await last_stable(fixture) == 2

    run_with_admin(scenario)


def test_abort_hanging_transaction(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await fixture.admin.create_topics([NewTopic("a", 1)])
        producer_id, epoch = await begin(fixture)
        await fixture.admin.abort_transaction(A0, producer_id, epoch)
        assert await last_stable(fixture) == 2

    run_with_admin(scenario)


def test_unknown_transactional_id_fails(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        with pytest.raises(PartialFailure, match="transactional id nobody") as raised:
            await fixture.admin.describe_transactions(["nobody"])
        assert raised.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    run_with_admin(scenario)
