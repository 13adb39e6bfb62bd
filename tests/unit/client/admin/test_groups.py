"""Group and offset methods of the admin client, with an in-memory broker."""

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

RunWithAdmin = Callable[..., None]
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ASSIGNMENT = b"\0\0" + encoder(ConsumerProtocolAssignment, 0)(
    ConsumerProtocolAssignment([ConsumerProtocolPartitions("a", [1, 0])])
)


async def join(fixture: Any, group: str, instance: str | None = None) -> str:
    """Join a group as its only member, with both partitions of a; return the member id."""
    request = JoinGroupRequest(
        group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", b"")],
    )
    await fixture.admin.describe_groups([group])  # creates the topic of the coordinator
    joined = await fixture.raw.request(11, 9, request)
    if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        request.member_id = joined.member_id
        joined = await fixture.raw.request(11, 9, request)
    assert joined.error_code == 0
    assignments = [SyncGroupRequestAssignment(joined.member_id, ASSIGNMENT)]
    synced = await fixture.raw.request(
        14,
        5,
        SyncGroupRequest(
            group,
            joined.generation_id,
            joined.member_id,
            group_instance_id=instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        ),
    )
    assert synced.error_code == 0
    member: str = joined.member_id
    return member


async def with_topics(fixture: Any) -> None:
    await fixture.admin.create_topics(["a", "b"])
    await fixture.admin.create_partitions({"a": 2})


def test_list_and_describe_groups(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await with_topics(fixture)
        member = await join(fixture, "g")
        assert {name: group.state for name, group in (await fixture.admin.list_groups()).items()} == {
            "g": "Stable"
        }
        described = (await fixture.admin.describe_groups(["g"]))["g"]
        assert (described.state, described.assignor, described.protocol_type) == (
            "Stable",
            "range",
            "consumer",
        )
        assert described.coordinator == fixture.memory.broker.broker_id
        (only,) = described.members
        assert (only.member_id, only.client_id, only.partitions) == (member, "client", (A0, A1))

    run_with_admin(scenario)


def test_list_groups_by_state_and_type(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await with_topics(fixture)
        await join(fixture, "g")
        await fixture.admin.alter_group_offsets("simple", {A0: 1})
        assert set(await fixture.admin.list_groups(states=["Empty"])) == {"simple"}
        assert set(await fixture.admin.list_groups(types=["classic"])) == {"g", "simple"}
        listed = await fixture.admin.list_groups()
        assert {name: group.protocol_type for name, group in listed.items()} == {
            "g": "consumer",
            "simple": "",
        }

    run_with_admin(scenario)


def test_unknown_group_is_described_as_dead(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        assert (await fixture.admin.describe_groups(["nobody"]))["nobody"].state == "Dead"

    run_with_admin(scenario)


def test_alter_list_and_delete_group_offsets(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await with_topics(fixture)
        await fixture.admin.alter_group_offsets("g", {A0: 5, A1: OffsetAndMetadata(6, "note"), B0: 7})
        offsets = await fixture.admin.list_group_offsets("g")
        assert {partition: committed.offset for partition, committed in offsets.items()} == {
            A0: 5,
            A1: 6,
            B0: 7,
        }
        assert offsets[A1].metadata == "note"
        some = await fixture.admin.list_group_offsets("g", [A0, TopicPartition("a", 9)])
        assert (some[A0].offset, some[TopicPartition("a", 9)]) == (5, None)
        await fixture.admin.delete_group_offsets("g", [A0, B0])
        assert set(await fixture.admin.list_group_offsets("g")) == {A1}

    run_with_admin(scenario)


def test_list_offsets_of_many_groups(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await with_topics(fixture)
        await fixture.admin.alter_group_offsets("g", {A0: 5})
        await fixture.admin.alter_group_offsets("h", {B0: 6})
        offsets = await fixture.admin.list_offsets_of_groups({"g": None, "h": [A0], "nobody": None})
        assert offsets == {"g": {A0: OffsetAndMetadata(5)}, "h": {A0: None}, "nobody": {}}

    run_with_admin(scenario)


def test_altering_offsets_requires_an_empty_group(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await with_topics(fixture)
        await join(fixture, "g")
        with pytest.raises(PartialFailure) as raised:
            await fixture.admin.alter_group_offsets("g", {A0: 5})
        assert raised.value.code is ErrorCode.UNKNOWN_MEMBER_ID
        with pytest.raises(PartialFailure, match="NON_EMPTY_GROUP"):
            await fixture.admin.delete_groups(["g"])

    run_with_admin(scenario)


def test_offset_of_an_unknown_topic_fails_for_its_partition(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await with_topics(fixture)
        missing = TopicPartition("nothing", 0)
        with pytest.raises(PartialFailure) as raised:
            await fixture.admin.alter_group_offsets("g", {A0: 1, missing: 2})
        assert isinstance(raised.value.errors[missing], UnknownTopic)
        assert set(raised.value.results) == {A0}

    run_with_admin(scenario)


def test_delete_groups_reports_unknown_groups(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await with_topics(fixture)
        await fixture.admin.alter_group_offsets("g", {A0: 1})
        with pytest.raises(PartialFailure, match="group nobody: GROUP_ID_NOT_FOUND") as raised:
            await fixture.admin.delete_groups(["g", "nobody"])
        assert list(raised.value.results) == ["g"]
        assert await fixture.admin.list_groups() == {}

    run_with_admin(scenario)


@pytest.mark.parametrize("instance", [None, "desk-1"])
def test_remove_one_or_all_group_members(run_with_admin: RunWithAdmin, instance: str | None) -> None:
    async def scenario(fixture: Any) -> None:
        await with_topics(fixture)
        member = await join(fixture, "g", instance)
        removed = MemberToRemove(member) if instance is None else MemberToRemove(group_instance_id=instance)
        await fixture.admin.remove_group_members("g", [removed])
        assert (await fixture.admin.describe_groups(["g"]))["g"].state == "Empty"
        await join(fixture, "g", instance)
        await fixture.admin.remove_group_members("g")
        assert (await fixture.admin.describe_groups(["g"]))["g"].members == ()
        with pytest.raises(PartialFailure, match="member nobody: UNKNOWN_MEMBER_ID"):
            await fixture.admin.remove_group_members("g", [MemberToRemove("nobody")])

    run_with_admin(scenario)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0", b"\0\0\0\0\0\5", b"\xff" * 20])
def test_unparsable_assignment_has_no_partitions(data: bytes) -> None:
    assert assigned_partitions(data) == ()
