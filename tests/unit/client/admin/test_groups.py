"""GroupsApi and their offsets through the admin client, against a whole broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.client.admin.groups import MemberToRemove, assigned_partitions
from odradek.client.values import OffsetAndMetadata
from odradek.model.client_errors import PartialFailure, UnknownTopic
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.wire.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolPartitions
from odradek.wire.message_codecs import encoder
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

Play = Callable[..., None]
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ASSIGNMENT = b"\0\0" + encoder(ConsumerProtocolAssignment, 0)(
    ConsumerProtocolAssignment([ConsumerProtocolPartitions("a", [1, 0])])
)


async def join(scene: Any, group: str, instance: str | None = None) -> str:
    """One member in a group of its own, with both partitions of a; gives its id."""
    request = JoinGroupRequest(
        group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", b"")],
    )
    await scene.admin.describe_groups([group])  # finds the coordinator, for which its topic is made
    joined = await scene.raw.request(11, 9, request)
    if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        request.member_id = joined.member_id
        joined = await scene.raw.request(11, 9, request)
    assert joined.error_code == 0
    given = [SyncGroupRequestAssignment(joined.member_id, ASSIGNMENT)]
    synced = await scene.raw.request(
        14,
        5,
        SyncGroupRequest(
            group,
            joined.generation_id,
            joined.member_id,
            group_instance_id=instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=given,
        ),
    )
    assert synced.error_code == 0
    member: str = joined.member_id
    return member


async def with_topics(scene: Any) -> None:
    await scene.admin.create_topics(["a", "b"])
    await scene.admin.create_partitions({"a": 2})


def test_a_group_is_listed_and_described_with_its_members(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        await with_topics(scene)
        member = await join(scene, "g")
        assert {name: one.state for name, one in (await scene.admin.list_groups()).items()} == {"g": "Stable"}
        described = (await scene.admin.describe_groups(["g"]))["g"]
        assert (described.state, described.assignor, described.protocol_type) == (
            "Stable",
            "range",
            "consumer",
        )
        assert described.coordinator == scene.memory.broker.broker_id
        (one,) = described.members
        assert (one.member_id, one.client_id, one.partitions) == (member, "client", (A0, A1))

    play(scenario)


def test_groups_are_listed_by_state_and_type(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        await with_topics(scene)
        await join(scene, "g")
        await scene.admin.alter_group_offsets("simple", {A0: 1})
        assert set(await scene.admin.list_groups(states=["Empty"])) == {"simple"}
        assert set(await scene.admin.list_groups(types=["classic"])) == {"g", "simple"}
        listed = await scene.admin.list_groups()
        assert listed["simple"].is_simple
        assert not listed["g"].is_simple

    play(scenario)


def test_a_group_that_does_not_exist_is_dead(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        assert (await scene.admin.describe_groups(["nobody"]))["nobody"].state == "Dead"

    play(scenario)


def test_offsets_are_altered_listed_and_deleted(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        await with_topics(scene)
        await scene.admin.alter_group_offsets("g", {A0: 5, A1: OffsetAndMetadata(6, "note"), B0: 7})
        found = await scene.admin.list_group_offsets("g")
        assert {one: kept.offset for one, kept in found.items()} == {A0: 5, A1: 6, B0: 7}
        assert found[A1].metadata == "note"
        some = await scene.admin.list_group_offsets("g", [A0, TopicPartition("a", 9)])
        assert (some[A0].offset, some[TopicPartition("a", 9)]) == (5, None)
        await scene.admin.delete_group_offsets("g", [A0, B0])
        assert set(await scene.admin.list_group_offsets("g")) == {A1}

    play(scenario)


def test_offsets_of_many_groups_come_together(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        await with_topics(scene)
        await scene.admin.alter_group_offsets("g", {A0: 5})
        await scene.admin.alter_group_offsets("h", {B0: 6})
        found = await scene.admin.list_offsets_of_groups({"g": None, "h": [A0], "nobody": None})
        assert found == {"g": {A0: OffsetAndMetadata(5)}, "h": {A0: None}, "nobody": {}}

    play(scenario)


def test_offsets_of_a_group_with_members_are_not_touched(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        await with_topics(scene)
        await join(scene, "g")
        with pytest.raises(PartialFailure) as raised:
            await scene.admin.alter_group_offsets("g", {A0: 5})
        assert raised.value.code is ErrorCode.UNKNOWN_MEMBER_ID
        with pytest.raises(PartialFailure, match="NON_EMPTY_GROUP"):
            await scene.admin.delete_groups(["g"])

    play(scenario)


def test_an_offset_of_an_unknown_topic_is_refused_by_partition(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        await with_topics(scene)
        missing = TopicPartition("nothing", 0)
        with pytest.raises(PartialFailure) as raised:
            await scene.admin.alter_group_offsets("g", {A0: 1, missing: 2})
        assert isinstance(raised.value.errors[missing], UnknownTopic)
        assert set(raised.value.results) == {A0}

    play(scenario)


def test_groups_are_deleted_and_unknown_ones_told(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        await with_topics(scene)
        await scene.admin.alter_group_offsets("g", {A0: 1})
        with pytest.raises(PartialFailure, match="group nobody: GROUP_ID_NOT_FOUND") as raised:
            await scene.admin.delete_groups(["g", "nobody"])
        assert list(raised.value.results) == ["g"]
        assert await scene.admin.list_groups() == {}

    play(scenario)


@pytest.mark.parametrize("instance", [None, "desk-1"])
def test_members_are_sent_away_one_or_all(play: Play, instance: str | None) -> None:
    async def scenario(scene: Any) -> None:
        await with_topics(scene)
        member = await join(scene, "g", instance)
        one = MemberToRemove(member) if instance is None else MemberToRemove(group_instance_id=instance)
        await scene.admin.remove_group_members("g", [one])
        assert (await scene.admin.describe_groups(["g"]))["g"].state == "Empty"
        await join(scene, "g", instance)
        await scene.admin.remove_group_members("g")
        assert (await scene.admin.describe_groups(["g"]))["g"].members == ()
        with pytest.raises(PartialFailure, match="member nobody: UNKNOWN_MEMBER_ID"):
            await scene.admin.remove_group_members("g", [MemberToRemove("nobody")])

    play(scenario)


@pytest.mark.parametrize("odd", [b"", b"\0", b"\0\0", b"\0\0\0\0\0\5", b"\xff" * 20])
def test_an_assignment_in_words_of_its_own_names_no_partitions(odd: bytes) -> None:
    assert assigned_partitions(odd) == ()
