"""Topic methods of the admin client, with an in-memory broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.client.admin.configs import ConfigResource
from odradek.client.admin.topics import NewPartitions, NewTopic
from odradek.model.acl_operations import AclOperation
from odradek.model.client_errors import ConnectionFailed, PartialFailure, TimedOut, UnknownTopic
from odradek.model.errors import ErrorCode

RunWithAdmin = Callable[..., None]


def test_create_topic_with_configs_and_describe_it(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        created = await fixture.admin.create_topics(
            [
                NewTopic(
                    "a", partitions=3, replication_factor=1, configs={"retention.ms": 5, "preallocate": True}
                )
            ]
        )
        assert (created["a"].partitions, created["a"].replication_factor) == (3, 1)
        assert created["a"].configs["retention.ms"].value == "5"
        assert created["a"].configs["preallocate"].value == "true"
        described = (await fixture.admin.describe_topics(["a"]))["a"]
        assert described.topic_id == created["a"].topic_id
        assert [partition.partition for partition in described.partitions] == [0, 1, 2]
        assert all(
            partition.leader == partition.replicas[0] == partition.in_sync[0]
            for partition in described.partitions
        )
        assert described.authorized_operations is None

    run_with_admin(scenario)


def test_create_topic_by_name_uses_broker_defaults(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        assert (await fixture.admin.create_topics(["a"]))["a"].partitions == 4

    run_with_admin(scenario, {"num.partitions": "4"})


def test_create_topic_with_assignments(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        broker = fixture.memory.broker.broker_id
        await fixture.admin.create_topics([NewTopic("a", assignments={0: [broker], 1: [broker]})])
        assert len((await fixture.admin.describe_topics(["a"]))["a"].partitions) == 2

    run_with_admin(scenario)


def test_validate_only_creates_nothing_and_reports_errors(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await fixture.admin.create_topics(["a"], validate_only=True)
        assert await fixture.admin.list_topics() == {}
        with pytest.raises(PartialFailure, match="INVALID_REPLICATION_FACTOR"):
            await fixture.admin.create_topics([NewTopic("a", 1, 9)], validate_only=True)

    run_with_admin(scenario)


def test_existing_topic_does_not_prevent_others_from_being_created(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await fixture.admin.create_topics(["a"])
        with pytest.raises(PartialFailure, match="topic a: TOPIC_ALREADY_EXISTS") as raised:
            await fixture.admin.create_topics(["a", "b"])
        assert raised.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
        assert list(raised.value.errors) == ["a"]
        assert list(raised.value.results) == ["b"]
        assert set(await fixture.admin.list_topics()) == {"a", "b"}

    run_with_admin(scenario)


def test_list_topics_includes_internal_topics_on_request(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await fixture.admin.create_topics(["a"])
        await fixture.admin.describe_groups(["g"])
        assert set(await fixture.admin.list_topics()) == {"a"}
        everything = await fixture.admin.list_topics(include_internal=True)
        assert everything["__consumer_offsets"].is_internal
        assert not everything["a"].is_internal

    run_with_admin(scenario)


def test_describing_an_unknown_topic_does_not_create_it(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        with pytest.raises(PartialFailure) as raised:
            await fixture.admin.describe_topics(["nothing"])
        assert isinstance(raised.value.errors["nothing"], UnknownTopic)
        assert await fixture.admin.list_topics() == {}

    run_with_admin(scenario, {"auto.create.topics.enable": "true"})


def test_describe_and_delete_topics_by_id(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        created = await fixture.admin.create_topics(["a", "b"])
        described = await fixture.admin.describe_topics(topic_ids=[created["a"].topic_id])
        assert list(described) == ["a"]
        await fixture.admin.delete_topics(["b"], topic_ids=[created["a"].topic_id])
        assert await fixture.admin.list_topics() == {}
        with pytest.raises(PartialFailure, match="UNKNOWN_TOPIC_ID"):
            await fixture.admin.delete_topics(topic_ids=[created["a"].topic_id])

    run_with_admin(scenario)


def test_deleting_an_unknown_topic_fails(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await fixture.admin.create_topics(["a"])
        with pytest.raises(PartialFailure, match="topic nothing: UNKNOWN_TOPIC_OR_PARTITION") as raised:
            await fixture.admin.delete_topics(["a", "nothing"])
        assert list(raised.value.results) == ["a"]

    run_with_admin(scenario)


def test_create_partitions_only_adds_partitions(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        broker = fixture.memory.broker.broker_id
        await fixture.admin.create_topics([NewTopic("a", 1), NewTopic("b", 1)])
        await fixture.admin.create_partitions({"a": 3, "b": NewPartitions(2, [[broker]])})
        described = await fixture.admin.describe_topics(["a", "b"])
        assert {name: len(topic.partitions) for name, topic in described.items()} == {"a": 3, "b": 2}
        with pytest.raises(PartialFailure, match="INVALID_PARTITIONS"):
            await fixture.admin.create_partitions({"a": 2})
        await fixture.admin.create_partitions({"a": 9}, validate_only=True)
        assert len((await fixture.admin.describe_topics(["a"]))["a"].partitions) == 3

    run_with_admin(scenario)


def test_describe_topics_with_authorized_operations(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await fixture.admin.create_topics(["a"])
        described = await fixture.admin.describe_topics(["a"], include_authorized_operations=True)
        assert AclOperation.ALTER_CONFIGS in (described["a"].authorized_operations or ())

    run_with_admin(scenario)


def test_call_survives_a_broker_restart(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await fixture.admin.create_topics(["a"])
        await fixture.memory.stop()
        fixture.memory = await fixture.cluster.start()
        try:
            assert set(await fixture.admin.list_topics()) == {"a"}
            resource = ConfigResource.topic("a")
            assert (await fixture.admin.describe_configs([resource]))[resource]
        finally:
            await fixture.memory.stop()

    run_with_admin(scenario)


def test_call_without_a_broker_fails_after_its_timeout(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        async with fixture.another_admin(bootstrap_servers="broker:1") as admin:
            with pytest.raises((TimedOut, ConnectionFailed), match="broker:1"):
                await admin.list_topics(timeout_s=3)

    run_with_admin(scenario)
