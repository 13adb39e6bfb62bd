"""TopicsApi through the admin client, against a whole broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.client.admin.configs import ConfigResource
from odradek.client.admin.topics import NewPartitions, NewTopic
from odradek.model.acl_operations import Operation
from odradek.model.client_errors import ConnectionFailed, PartialFailure, TimedOut, UnknownTopic
from odradek.model.errors import ErrorCode

Play = Callable[..., None]


def test_a_topic_is_made_with_its_settings_and_described(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        made = await scene.admin.create_topics(
            [
                NewTopic(
                    "a", partitions=3, replication_factor=1, configs={"retention.ms": 5, "preallocate": True}
                )
            ]
        )
        assert (made["a"].partitions, made["a"].replication_factor) == (3, 1)
        assert made["a"].configs["retention.ms"].value == "5"
        assert made["a"].configs["preallocate"].value == "true"
        described = (await scene.admin.describe_topics(["a"]))["a"]
        assert described.topic_id == made["a"].topic_id
        assert [one.partition for one in described.partitions] == [0, 1, 2]
        assert all(one.leader == one.replicas[0] == one.in_sync[0] for one in described.partitions)
        assert described.authorized_operations is None

    play(scenario)


def test_a_name_alone_is_made_with_the_brokers_defaults(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        assert (await scene.admin.create_topics(["a"]))["a"].partitions == 4

    play(scenario, {"num.partitions": "4"})


def test_a_topic_is_made_where_its_assignment_says(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        broker = scene.memory.broker.broker_id
        await scene.admin.create_topics([NewTopic("a", assignments={0: [broker], 1: [broker]})])
        assert len((await scene.admin.describe_topics(["a"]))["a"].partitions) == 2

    play(scenario)


def test_a_dry_run_makes_nothing_and_finds_what_is_wrong(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        await scene.admin.create_topics(["a"], validate_only=True)
        assert await scene.admin.list_topics() == {}
        with pytest.raises(PartialFailure, match="INVALID_REPLICATION_FACTOR"):
            await scene.admin.create_topics([NewTopic("a", 1, 9)], validate_only=True)

    play(scenario)


def test_one_that_exists_does_not_keep_others_from_being_made(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        await scene.admin.create_topics(["a"])
        with pytest.raises(PartialFailure, match="topic a: TOPIC_ALREADY_EXISTS") as raised:
            await scene.admin.create_topics(["a", "b"])
        assert raised.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
        assert list(raised.value.errors) == ["a"]
        assert list(raised.value.results) == ["b"]
        assert set(await scene.admin.list_topics()) == {"a", "b"}

    play(scenario)


def test_internal_topics_are_listed_only_if_asked_for(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        await scene.admin.create_topics(["a"])
        await scene.admin.describe_groups(["g"])
        assert set(await scene.admin.list_topics()) == {"a"}
        everything = await scene.admin.list_topics(include_internal=True)
        assert everything["__consumer_offsets"].is_internal
        assert not everything["a"].is_internal

    play(scenario)


def test_asking_about_an_unknown_topic_tells_so_and_does_not_make_it(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        with pytest.raises(PartialFailure) as raised:
            await scene.admin.describe_topics(["nothing"])
        assert isinstance(raised.value.errors["nothing"], UnknownTopic)
        assert await scene.admin.list_topics() == {}

    play(scenario, {"auto.create.topics.enable": "true"})


def test_topics_are_described_and_deleted_by_id(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        made = await scene.admin.create_topics(["a", "b"])
        found = await scene.admin.describe_topics(topic_ids=[made["a"].topic_id])
        assert list(found) == ["a"]
        await scene.admin.delete_topics(["b"], topic_ids=[made["a"].topic_id])
        assert await scene.admin.list_topics() == {}
        with pytest.raises(PartialFailure, match="UNKNOWN_TOPIC_ID"):
            await scene.admin.delete_topics(topic_ids=[made["a"].topic_id])

    play(scenario)


def test_deleting_an_unknown_topic_is_told_at_once(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        await scene.admin.create_topics(["a"])
        with pytest.raises(PartialFailure, match="topic nothing: UNKNOWN_TOPIC_OR_PARTITION") as raised:
            await scene.admin.delete_topics(["a", "nothing"])
        assert list(raised.value.results) == ["a"]

    play(scenario)


def test_partitions_are_added_and_never_taken(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        broker = scene.memory.broker.broker_id
        await scene.admin.create_topics([NewTopic("a", 1), NewTopic("b", 1)])
        await scene.admin.create_partitions({"a": 3, "b": NewPartitions(2, [[broker]])})
        described = await scene.admin.describe_topics(["a", "b"])
        assert {name: len(one.partitions) for name, one in described.items()} == {"a": 3, "b": 2}
        with pytest.raises(PartialFailure, match="INVALID_PARTITIONS"):
            await scene.admin.create_partitions({"a": 2})
        await scene.admin.create_partitions({"a": 9}, validate_only=True)
        assert len((await scene.admin.describe_topics(["a"]))["a"].partitions) == 3

    play(scenario)


def test_operations_are_told_if_asked_for(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        await scene.admin.create_topics(["a"])
        found = await scene.admin.describe_topics(["a"], include_authorized_operations=True)
        assert Operation.ALTER_CONFIGS in (found["a"].authorized_operations or ())

    play(scenario)


def test_a_call_outlives_a_broker_that_restarts(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        await scene.admin.create_topics(["a"])
        await scene.memory.stop()
        scene.memory = await scene.cluster.start()
        try:
            assert set(await scene.admin.list_topics()) == {"a"}
            resource = ConfigResource.topic("a")
            assert (await scene.admin.describe_configs([resource]))[resource]
        finally:
            await scene.memory.stop()

    play(scenario)


def test_without_a_broker_a_call_fails_when_its_time_is_over(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        async with scene.another_admin(bootstrap_servers="broker:1") as admin:
            with pytest.raises((TimedOut, ConnectionFailed), match="broker:1"):
                await admin.list_topics(timeout_s=3)

    play(scenario)
