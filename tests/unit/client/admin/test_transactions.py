"""Producers and transactions through the admin client, against a whole broker."""

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

Play = Callable[..., None]
A0 = TopicPartition("a", 0)


async def begin(scene: Any, name: str = "clerk") -> tuple[int, int]:
    """Open a transaction with one record in it; gives producer id and epoch."""
    with suppress(PartialFailure):  # finds the coordinator, for which its topic is made
        await scene.admin.describe_transactions([name])
    given = await scene.raw.request(22, 4, InitProducerIdRequest(name, 60_000))
    assert given.error_code == 0
    who = (given.producer_id, given.producer_epoch)
    added = await scene.raw.request(
        24,
        3,
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=who[0],
            v3_and_below_producer_epoch=who[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic("a", [0])],
        ),
    )
    assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
    builder = BatchBuilder(producer_id=who[0], producer_epoch=who[1], base_sequence=0, transactional=True)
    builder.append(WALL_START_MS, None, b"value")
    parts = [TopicProduceData("a", [PartitionProduceData(0, bytearray(builder.build()))])]
    answer = await scene.raw.request(0, 11, ProduceRequest(name, -1, 30_000, parts))
    assert answer.responses[0].partition_responses[0].error_code == 0
    return who


async def last_stable(scene: Any) -> int:
    found = await scene.admin.list_offsets({A0: OffsetSpec.LATEST}, isolation_level="read_committed")
    offset: int = found[A0].offset
    return offset


def test_an_open_transaction_is_seen_from_all_sides(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        await scene.admin.create_topics([NewTopic("a", 1)])
        producer_id, epoch = await begin(scene)
        listed = await scene.admin.list_transactions()
        assert listed["clerk"].state == "Ongoing"
        assert await scene.admin.list_transactions(states=["Empty"]) == {}
        assert set(await scene.admin.list_transactions(producer_ids=[producer_id])) == {"clerk"}
        assert await scene.admin.list_transactions(running_longer_than_ms=50_000) == {}
        described = (await scene.admin.describe_transactions(["clerk"]))["clerk"]
        assert (described.state, described.producer_id, described.producer_epoch) == (
            "Ongoing",
            producer_id,
            epoch,
        )
        assert described.partitions == {A0}
        assert described.start_time_ms > 0
        (producer,) = (await scene.admin.describe_producers([A0]))[A0]
        assert (producer.producer_id, producer.transaction_start_offset) == (producer_id, 0)
        broker = scene.memory.broker.broker_id
        assert await scene.admin.describe_producers([A0], broker=broker) == {A0: [producer]}

    play(scenario)


def test_fencing_shuts_a_producer_out_and_aborts_what_it_had_open(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        await scene.admin.create_topics([NewTopic("a", 1)])
        producer_id, epoch = await begin(scene)
        assert await last_stable(scene) == 0
        fenced = (await scene.admin.fence_producers(["clerk"]))["clerk"]
        assert fenced.producer_id == producer_id
        assert fenced.producer_epoch > epoch
        assert await last_stable(scene) == 2

    play(scenario)


def test_a_transaction_that_hangs_is_aborted_in_its_partition(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        await scene.admin.create_topics([NewTopic("a", 1)])
        producer_id, epoch = await begin(scene)
        await scene.admin.abort_transaction(A0, producer_id, epoch)
        assert await last_stable(scene) == 2

    play(scenario)


def test_an_unknown_transactional_id_is_told(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        with pytest.raises(PartialFailure, match="transactional id nobody") as raised:
            await scene.admin.describe_transactions(["nobody"])
        assert raised.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    play(scenario)
