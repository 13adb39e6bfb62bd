"""Offset, record, log directory and cluster methods of the admin client, with an in-memory broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.client.admin.log_dirs import Replica
from odradek.client.admin.offsets import OffsetSpec
from odradek.client.admin.records import ALL_RECORDS
from odradek.client.admin.topics import NewTopic
from odradek.model.acl_operations import AclOperation
from odradek.model.client_errors import ClientError, PartialFailure, UnknownTopic
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.records.batch import BatchBuilder
from odradek.testing.clock import WALL_START_MS
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

RunWithAdmin = Callable[..., None]
A0 = TopicPartition("a", 0)


async def fill(fixture: Any, *timestamps: int, topic: str = "a") -> None:
    builder = BatchBuilder()
    for timestamp in timestamps:
        builder.append(timestamp, None, b"value")
    parts = [TopicProduceData(topic, [PartitionProduceData(0, bytearray(builder.build()))])]
    response = await fixture.raw.request(0, 11, ProduceRequest(None, -1, 30_000, parts))
    assert response.responses[0].partition_responses[0].error_code == 0


def test_list_offsets_by_spec_and_by_timestamp(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await fixture.admin.create_topics([NewTopic("a", 1)])
        now = WALL_START_MS
        await fill(fixture, now + 10, now + 30, now + 20)

        async def offset(spec: int) -> int:
            result: int = (await fixture.admin.list_offsets({A0: spec}))[A0].offset
            return result

        assert await offset(OffsetSpec.EARLIEST) == 0
        assert await offset(OffsetSpec.LATEST) == 3
        assert await offset(OffsetSpec.MAX_TIMESTAMP) == 1
        assert await offset(now + 20) == 1
        assert await offset(now + 31) == -1
        offsets = await fixture.admin.list_offsets({A0: OffsetSpec.LATEST}, isolation_level="read_committed")
        assert offsets[A0].offset == 3

    run_with_admin(scenario)


def test_list_log_end_offsets_of_replicas(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await fixture.admin.create_topics([NewTopic("a", 2)])
        await fill(fixture, WALL_START_MS, WALL_START_MS)
        broker = fixture.memory.broker.broker_id
        first, second = Replica("a", 0, broker), Replica("a", 1, broker)
        assert await fixture.admin.list_log_end_offsets([first, second]) == {first: 2, second: 0}
        missing = Replica("a", 7, broker)
        with pytest.raises(PartialFailure) as raised:
            await fixture.admin.list_log_end_offsets([first, missing, Replica("a", 0, 77)])
        assert set(raised.value.errors) == {missing, Replica("a", 0, 77)}
        assert raised.value.results == {first: 2}

    run_with_admin(scenario)


def test_delete_records_before_an_offset_or_all(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await fixture.admin.create_topics([NewTopic("a", 1)])
        await fill(fixture, *range(WALL_START_MS, WALL_START_MS + 5))
        assert await fixture.admin.delete_records({A0: 2}) == {A0: 2}
        assert (await fixture.admin.list_offsets({A0: OffsetSpec.EARLIEST}))[A0].offset == 2
        assert await fixture.admin.delete_records({A0: ALL_RECORDS}) == {A0: 5}
        with pytest.raises(PartialFailure, match="OFFSET_OUT_OF_RANGE"):
            await fixture.admin.delete_records({A0: 9})

    run_with_admin(scenario)


def test_unknown_partition_fails_quickly_next_to_others(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await fixture.admin.create_topics([NewTopic("a", 1)])
        missing, beyond = TopicPartition("nothing", 0), TopicPartition("a", 7)
        started = fixture.cluster.clock.monotonic_ms()
        with pytest.raises(PartialFailure) as raised:
            await fixture.admin.list_offsets(dict.fromkeys([A0, missing, beyond], OffsetSpec.LATEST))
        assert fixture.cluster.clock.monotonic_ms() - started < 3000
        assert all(isinstance(error, UnknownTopic) for error in raised.value.errors.values())
        assert set(raised.value.errors) == {missing, beyond}
        assert set(raised.value.results) == {A0}
        assert "nothing" not in await fixture.admin.list_topics()

    run_with_admin(scenario)


def test_describe_log_dirs_and_alter_replica_log_dirs(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await fixture.admin.create_topics([NewTopic("a", 1)])
        await fill(fixture, WALL_START_MS)
        broker = fixture.memory.broker.broker_id
        log_dirs = await fixture.admin.describe_log_dirs()
        (path,) = log_dirs[broker]
        directory = log_dirs[broker][path]
        assert directory.error is None
        assert directory.replicas[A0].size_bytes > 0
        assert directory.total_bytes > directory.usable_bytes > 0
        some = await fixture.admin.describe_log_dirs([broker], partitions=[A0])
        assert set(some[broker][path].replicas) == {A0}
        await fixture.admin.alter_replica_log_dirs({Replica("a", 0, broker): path})
        with pytest.raises(PartialFailure, match=f"a-0 of broker {broker}: LOG_DIR_NOT_FOUND"):
            await fixture.admin.alter_replica_log_dirs({Replica("a", 0, broker): "/elsewhere"})
        with pytest.raises(PartialFailure, match="no broker 77"):
            await fixture.admin.describe_log_dirs([77])

    run_with_admin(scenario)


def test_describe_cluster_features_and_api_versions(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        broker = fixture.memory.broker.broker_id
        description = await fixture.admin.describe_cluster(include_authorized_operations=True)
        assert [node.id for node in description.nodes] == [broker]
        assert description.controller == description.nodes[0]
        assert description.cluster_id
        assert AclOperation.ALTER in (description.authorized_operations or ())
        versions = await fixture.admin.api_versions(broker=broker)
        assert versions["CreateTopics"].highest == 7
        assert (await fixture.admin.describe_features()).supported == {}
        assert fixture.admin.metrics()

    run_with_admin(scenario)


def test_unknown_broker_fails_immediately(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        with pytest.raises(ClientError, match="no broker 77") as raised:
            await fixture.admin.api_versions(broker=77)
        assert raised.value.code is ErrorCode.BROKER_NOT_AVAILABLE

    run_with_admin(scenario)
