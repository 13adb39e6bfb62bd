"""OffsetsApi, records, directories and the cluster through the admin client, against a whole broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.client.admin.log_dirs import Replica
from odradek.client.admin.offsets import OffsetSpec
from odradek.client.admin.records import ALL_RECORDS
from odradek.client.admin.topics import NewTopic
from odradek.model.acl_operations import Operation
from odradek.model.client_errors import PartialFailure, UnknownTopic
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.records.batch import BatchBuilder
from odradek.testing.clock import WALL_START_MS
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

Play = Callable[..., None]
A0 = TopicPartition("a", 0)


async def fill(scene: Any, *timestamps: int, topic: str = "a") -> None:
    builder = BatchBuilder()
    for one in timestamps:
        builder.append(one, None, b"value")
    parts = [TopicProduceData(topic, [PartitionProduceData(0, bytearray(builder.build()))])]
    answer = await scene.raw.request(0, 11, ProduceRequest(None, -1, 30_000, parts))
    assert answer.responses[0].partition_responses[0].error_code == 0


def test_offsets_are_found_by_end_and_by_time(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        await scene.admin.create_topics([NewTopic("a", 1)])
        now = WALL_START_MS
        await fill(scene, now + 10, now + 30, now + 20)

        async def offset(wanted: int) -> int:
            found: int = (await scene.admin.list_offsets({A0: wanted}))[A0].offset
            return found

        assert await offset(OffsetSpec.EARLIEST) == 0
        assert await offset(OffsetSpec.LATEST) == 3
        assert await offset(OffsetSpec.MAX_TIMESTAMP) == 1
        assert await offset(now + 20) == 1
        assert await offset(now + 31) == -1
        found = await scene.admin.list_offsets({A0: OffsetSpec.LATEST}, isolation_level="read_committed")
        assert found[A0].offset == 3

    play(scenario)


def test_records_are_deleted_up_to_an_offset_or_all(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        await scene.admin.create_topics([NewTopic("a", 1)])
        await fill(scene, *range(WALL_START_MS, WALL_START_MS + 5))
        assert await scene.admin.delete_records({A0: 2}) == {A0: 2}
        assert (await scene.admin.list_offsets({A0: OffsetSpec.EARLIEST}))[A0].offset == 2
        assert await scene.admin.delete_records({A0: ALL_RECORDS}) == {A0: 5}
        with pytest.raises(PartialFailure, match="OFFSET_OUT_OF_RANGE"):
            await scene.admin.delete_records({A0: 9})

    play(scenario)


def test_an_unknown_partition_is_told_soon_and_beside_the_others(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        await scene.admin.create_topics([NewTopic("a", 1)])
        missing, beyond = TopicPartition("nothing", 0), TopicPartition("a", 7)
        begun = scene.cluster.clock.monotonic_ms()
        with pytest.raises(PartialFailure) as raised:
            await scene.admin.list_offsets(dict.fromkeys([A0, missing, beyond], OffsetSpec.LATEST))
        assert scene.cluster.clock.monotonic_ms() - begun < 3000
        assert all(isinstance(one, UnknownTopic) for one in raised.value.errors.values())
        assert set(raised.value.errors) == {missing, beyond}
        assert set(raised.value.results) == {A0}
        assert "nothing" not in await scene.admin.list_topics()

    play(scenario)


def test_directories_are_described_and_replicas_moved_between_them(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        await scene.admin.create_topics([NewTopic("a", 1)])
        await fill(scene, WALL_START_MS)
        broker = scene.memory.broker.broker_id
        found = await scene.admin.describe_log_dirs()
        (path,) = found[broker]
        directory = found[broker][path]
        assert directory.error is None
        assert directory.replicas[A0].size_bytes > 0
        assert directory.total_bytes > directory.usable_bytes > 0
        some = await scene.admin.describe_log_dirs([broker], partitions=[A0])
        assert set(some[broker][path].replicas) == {A0}
        await scene.admin.alter_replica_log_dirs({Replica("a", 0, broker): path})
        with pytest.raises(PartialFailure, match=f"a-0 of broker {broker}: LOG_DIR_NOT_FOUND"):
            await scene.admin.alter_replica_log_dirs({Replica("a", 0, broker): "/elsewhere"})
        with pytest.raises(PartialFailure, match="no broker 77"):
            await scene.admin.describe_log_dirs([77])

    play(scenario)


def test_the_cluster_tells_its_brokers_features_and_versions(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        broker = scene.memory.broker.broker_id
        found = await scene.admin.describe_cluster(include_authorized_operations=True)
        assert [node.id for node in found.nodes] == [broker]
        assert found.controller == found.nodes[0]
        assert found.cluster_id
        assert Operation.ALTER in (found.authorized_operations or ())
        versions = await scene.admin.api_versions(broker=broker)
        assert versions["CreateTopics"].highest == 7
        assert (await scene.admin.describe_features()).supported == {}
        assert scene.admin.metrics()

    play(scenario)


def test_an_unknown_broker_is_told_without_waiting(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        with pytest.raises(Exception, match="no broker 77") as raised:
            await scene.admin.api_versions(broker=77)
        assert raised.value.code is ErrorCode.BROKER_NOT_AVAILABLE

    play(scenario)
