"""What handlers of the group APIs answer when no group can be asked, and for offsets kept in the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker.handlers.offset_commit import TIMESTAMP_MS_MAX
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import TopicPartition
from odradek.store import znode_paths
from odradek.store.port import Unavailable
from odradek.wire.messages.delete_groups import DeleteGroupsRequest
from odradek.wire.messages.describe_groups import DescribeGroupsRequest
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.wire.messages.list_groups import ListGroupsRequest
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from odradek.wire.messages.sync_group import SyncGroupRequest

COMMIT, FETCH, FIND, JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE, LIST = range(8, 17)
DELETE_GROUPS, OFFSET_DELETE = 42, 47
NONE = ErrorCode.NONE
MISSING = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
UNASKABLE = (ErrorCode.COORDINATOR_NOT_AVAILABLE, LOADING, ErrorCode.NOT_COORDINATOR)
SETTINGS = {"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "3"}


def committing(group: str, offset: int = 5, metadata: str | None = None, **how: Any) -> OffsetCommitRequest:
    parts = [OffsetCommitRequestPartition(number, offset, committed_metadata=metadata) for number in (0, 9)]
    return OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("orders", parts)], **how)


def fetching(group: str) -> OffsetFetchRequest:
    return OffsetFetchRequest(group, [OffsetFetchRequestTopic("orders", [0, 9])])


def codes_of(answer: Any) -> list[int]:
    return [part.error_code for topic in answer.topics for part in topic.partitions]


def refuse_everything(monkeypatch: pytest.MonkeyPatch, town: Any, code: ErrorCode) -> None:
    def refuse(*_: Any) -> Any:
        raise BrokerError(code)

    for question in ("submit", "shard_of"):
        monkeypatch.setattr(town.broker._groups, question, refuse)


@pytest.mark.parametrize("code", UNASKABLE)
def test_a_group_that_cannot_be_asked(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    """Members are told to look elsewhere or to come again; only who is alive, or waits, is told more."""

    async def scenario(town: Any) -> None:
        await town.create("orders")
        refuse_everything(monkeypatch, town, code)
        joining = JoinGroupRequest("g", 10_000, 10_000, "m", None, "consumer")
        joining.protocols = [JoinGroupRequestProtocol("range", b"")]
        joined = await town.ask(JOIN, 9, joining)
        assert (joined.error_code, joined.member_id, joined.protocol_name) == (code, "m", None)
        synced = await town.ask(SYNC, 4, SyncGroupRequest("g", 1, "m"))
        assert synced.error_code == (ErrorCode.REBALANCE_IN_PROGRESS if code is LOADING else code)
        beaten = await town.ask(HEARTBEAT, 4, HeartbeatRequest("g", 1, "m"))
        assert beaten.error_code == (NONE if code is LOADING else code)
        left = await town.ask(LEAVE, 5, LeaveGroupRequest("g", members=[MemberIdentity("m")]))
        assert (left.error_code, left.members) == (code, [])
        assert (await town.ask(LEAVE, 0, LeaveGroupRequest("g", "m"))).error_code == code

    play(scenario, SETTINGS)


@pytest.mark.parametrize("code", UNASKABLE)
def test_offsets_of_a_group_that_cannot_be_asked(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    async def scenario(town: Any) -> None:
        await town.create("orders")
        refuse_everything(monkeypatch, town, code)
        assert codes_of(await town.ask(COMMIT, 9, committing("g"))) == [code, MISSING]
        # Version 1 has no place for an error of the whole, and some who speak later ones do not look there.
        for version in range(1, 8):
            answer = await town.ask(FETCH, version, fetching("g"))
            assert answer.error_code == (code if version >= 2 else NONE)
            assert codes_of(answer) == [code, code]
            offsets = [part.committed_offset for topic in answer.topics for part in topic.partitions]
            assert offsets == [-1, -1]
            everything = await town.ask(FETCH, version, OffsetFetchRequest("g", None if version >= 2 else []))
            assert everything.topics == []
        asked = [OffsetFetchRequestGroup(group, topics=None) for group in ("g", "h")]
        answer = await town.ask(FETCH, 8, OffsetFetchRequest(groups=asked))
        assert [(one.group_id, one.error_code) for one in answer.groups] == [("g", code), ("h", code)]
        gone = [OffsetDeleteRequestTopic("orders", [OffsetDeleteRequestPartition(0)])]
        answer = await town.ask(OFFSET_DELETE, 0, OffsetDeleteRequest("g", gone))
        assert (answer.error_code, answer.topics) == (code, [])

    play(scenario, SETTINGS)


@pytest.mark.parametrize("code", UNASKABLE)
def test_administration_of_a_group_that_cannot_be_asked(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    async def scenario(town: Any) -> None:
        refuse_everything(monkeypatch, town, code)
        asked = DescribeGroupsRequest(["g", "h"], include_authorized_operations=True)
        described = (await town.ask(DESCRIBE, 5, asked)).groups
        assert [(one.group_id, one.error_code, one.group_state) for one in described] == [
            ("g", code, ""),
            ("h", code, ""),
        ]
        assert {one.authorized_operations for one in described} == {-(2**31)}
        deleted = await town.ask(DELETE_GROUPS, 2, DeleteGroupsRequest(["g", "h"]))
        assert [one.error_code for one in deleted.results] == [code, code]

    play(scenario, SETTINGS)


def test_a_list_of_groups_while_some_are_loading_says_so(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(town: Any) -> None:
        monkeypatch.setattr(type(town.broker._groups), "is_loading", True)
        assert (await town.ask(LIST, 5, ListGroupsRequest())).error_code == LOADING
        only = ListGroupsRequest(types_filter=["consumer"])
        assert (await town.ask(LIST, 5, only)).error_code == LOADING

    play(scenario, SETTINGS)


def test_nothing_that_is_there_makes_a_commit_no_affair_of_the_group(play: Callable[..., None]) -> None:
    async def scenario(town: Any) -> None:
        for version in range(10):
            assert codes_of(await town.ask(COMMIT, version, committing("g"))) == [MISSING, MISSING]
        # Nobody asked for a coordinator, so nobody made it a topic.
        await town.create("orders")
        assert codes_of(await town.ask(COMMIT, 9, committing("g"))) == [
            ErrorCode.NOT_COORDINATOR,
            MISSING,
        ]

    play(scenario, SETTINGS)


def test_a_commit_to_be_kept_beyond_the_end_of_time_is_kept_until_then(play: Callable[..., None]) -> None:
    async def scenario(town: Any) -> None:
        await town.create("orders")
        while (await town.ask(FIND, 3, FindCoordinatorRequest("g"))).error_code or (
            town.broker._groups.is_loading
        ):
            await town.cluster.clock.sleep_ms(5)
        for retention_ms in (TIMESTAMP_MS_MAX, -TIMESTAMP_MS_MAX, 0):
            asked = committing("g", retention_time_ms=retention_ms)
            assert codes_of(await town.ask(COMMIT, 4, asked)) == [NONE, MISSING]
            ((_, stored),) = town.broker._groups.shard_of("g").groups["g"].offsets
            expected = min(stored.commit_ms + retention_ms, TIMESTAMP_MS_MAX)
            assert stored.expire_ms == expected

    play(scenario, SETTINGS)


# Version 0: offsets in the store.


def test_offsets_of_version_0_are_in_the_store_and_survive(outlive: Callable[..., None]) -> None:
    async def scenario(cluster: Any, begin: Any) -> None:
        town = await begin()
        await town.create("orders")
        for offset in (5, 7):
            assert codes_of(await town.ask(COMMIT, 0, committing("g", offset))) == [NONE, MISSING]
        node = znode_paths.consumer_offset("g", TopicPartition("orders", 0))
        assert (await town.broker._dispatcher._context.store.get(node))[0] == b"7"
        await town.memory.kill()
        town = await begin()
        answer = await town.ask(FETCH, 0, fetching("g"))
        (topic,) = answer.topics
        assert [(part.committed_offset, part.error_code) for part in topic.partitions] == [
            (7, NONE),
            (-1, MISSING),
        ]
        await town.memory.stop()

    outlive(scenario)


@pytest.mark.parametrize("group", ["", "a/b", "..", ".", "bell\a"])
def test_a_group_that_cannot_be_a_node_is_refused_in_version_0(play: Callable[..., None], group: str) -> None:
    async def scenario(town: Any) -> None:
        await town.create("orders")
        bad = ErrorCode.INVALID_GROUP_ID
        assert codes_of(await town.ask(COMMIT, 0, committing(group))) == [bad, bad]
        assert codes_of(await town.ask(FETCH, 0, fetching(group))) == [bad, bad]
        assert codes_of(await town.ask(COMMIT, 0, committing("good"))) == [NONE, MISSING]

    play(scenario)


def test_metadata_of_version_0_is_bounded(play: Callable[..., None]) -> None:
    async def scenario(town: Any) -> None:
        await town.create("orders")
        fits, too_long = committing("g", metadata="x" * 9), committing("g", 6, metadata="x" * 10)
        assert codes_of(await town.ask(COMMIT, 0, fits)) == [NONE, MISSING]
        assert codes_of(await town.ask(COMMIT, 0, too_long)) == [ErrorCode.OFFSET_METADATA_TOO_LARGE, MISSING]
        (topic,) = (await town.ask(FETCH, 0, fetching("g"))).topics
        assert topic.partitions[0].committed_offset == 5

    play(scenario, {"offset.metadata.max.bytes": "9"})


def test_a_store_that_cannot_be_written_refuses_a_commit_of_version_0(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(town: Any) -> None:
        await town.create("orders")

        async def fail(*_: Any) -> None:
            raise Unavailable("/data", "the disk is full")

        monkeypatch.setattr("odradek.broker.handlers.offset_commit.write_consumer_offset", fail)
        answer = await town.ask(COMMIT, 0, committing("g"))
        assert codes_of(answer) == [ErrorCode.KAFKA_STORAGE_ERROR] * 2

    play(scenario)
