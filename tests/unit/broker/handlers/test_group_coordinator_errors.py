"""Group APIs without a coordinator, and version 0 offsets in the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker.handlers.offset_commit import TIMESTAMP_MS_MAX
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import TopicPartition
from odradek.store.layout import znode_paths
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


def committing(
    group: str, offset: int = 5, metadata: str | None = None, **options: Any
) -> OffsetCommitRequest:
    parts = [OffsetCommitRequestPartition(number, offset, committed_metadata=metadata) for number in (0, 9)]
    return OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("orders", parts)], **options)


def fetching(group: str) -> OffsetFetchRequest:
    return OffsetFetchRequest(group, [OffsetFetchRequestTopic("orders", [0, 9])])


def codes_of(response: Any) -> list[int]:
    return [part.error_code for topic in response.topics for part in topic.partitions]


def fail_coordinator(monkeypatch: pytest.MonkeyPatch, harness: Any, code: ErrorCode) -> None:
    def raise_error(*_: Any) -> Any:
        raise BrokerError(code)

    for method in ("submit", "shard_of"):
        monkeypatch.setattr(harness.broker._group_coordinator, method, raise_error)


@pytest.mark.sources
@pytest.mark.parametrize("code", UNASKABLE)
def test_group_apis_return_the_coordinator_error(
    run_scenario: Callable[..., None], monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    """Members get the coordinator error; Heartbeat and SyncGroup map a loading coordinator."""

    async def scenario(harness: Any) -> None:
        await harness.create("orders")
        fail_coordinator(monkeypatch, harness, code)
        joining = JoinGroupRequest("g", 10_000, 10_000, "m", None, "consumer")
        joining.protocols = [JoinGroupRequestProtocol("range", b"")]
        joined = await harness.request(JOIN, 9, joining)
        assert (joined.error_code, joined.member_id, joined.protocol_name) == (code, "m", None)
        synced = await harness.request(SYNC, 4, SyncGroupRequest("g", 1, "m"))
        assert synced.error_code == (ErrorCode.REBALANCE_IN_PROGRESS if code is LOADING else code)
        beaten = await harness.request(HEARTBEAT, 4, HeartbeatRequest("g", 1, "m"))
        assert beaten.error_code == (NONE if code is LOADING else code)
        left = await harness.request(LEAVE, 5, LeaveGroupRequest("g", members=[MemberIdentity("m")]))
        assert (left.error_code, left.members) == (code, [])
        assert (await harness.request(LEAVE, 0, LeaveGroupRequest("g", "m"))).error_code == code

    run_scenario(scenario, SETTINGS)


@pytest.mark.sources
@pytest.mark.parametrize("code", UNASKABLE)
def test_offset_apis_return_the_coordinator_error(
    run_scenario: Callable[..., None], monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    async def scenario(harness: Any) -> None:
        await harness.create("orders")
        fail_coordinator(monkeypatch, harness, code)
        assert codes_of(await harness.request(COMMIT, 9, committing("g"))) == [code, MISSING]
        # Version 1 has no top-level error, and some clients of later versions ignore it.
        for version in range(1, 8):
            response = await harness.request(FETCH, version, fetching("g"))
            assert response.error_code == (code if version >= 2 else NONE)
            assert codes_of(response) == [code, code]
            offsets = [part.committed_offset for topic in response.topics for part in topic.partitions]
            assert offsets == [-1, -1]
            everything = await harness.request(
                FETCH, version, OffsetFetchRequest("g", None if version >= 2 else [])
            )
            assert everything.topics == []
        requested = [OffsetFetchRequestGroup(group, topics=None) for group in ("g", "h")]
        response = await harness.request(FETCH, 8, OffsetFetchRequest(groups=requested))
        assert [(group.group_id, group.error_code) for group in response.groups] == [("g", code), ("h", code)]
        topics = [OffsetDeleteRequestTopic("orders", [OffsetDeleteRequestPartition(0)])]
        response = await harness.request(OFFSET_DELETE, 0, OffsetDeleteRequest("g", topics))
        assert (response.error_code, response.topics) == (code, [])

    run_scenario(scenario, SETTINGS)


@pytest.mark.sources
@pytest.mark.parametrize("code", UNASKABLE)
def test_group_admin_apis_return_the_coordinator_error(
    run_scenario: Callable[..., None], monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    async def scenario(harness: Any) -> None:
        fail_coordinator(monkeypatch, harness, code)
        requested = DescribeGroupsRequest(["g", "h"], include_authorized_operations=True)
        described = (await harness.request(DESCRIBE, 5, requested)).groups
        assert [(group.group_id, group.error_code, group.group_state) for group in described] == [
            ("g", code, ""),
            ("h", code, ""),
        ]
        assert {group.authorized_operations for group in described} == {-(2**31)}
        deleted = await harness.request(DELETE_GROUPS, 2, DeleteGroupsRequest(["g", "h"]))
        assert [result.error_code for result in deleted.results] == [code, code]

    run_scenario(scenario, SETTINGS)


@pytest.mark.sources
def test_list_groups_reports_loading(
    run_scenario: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(harness: Any) -> None:
        monkeypatch.setattr(type(harness.broker._group_coordinator), "is_loading", True)
        assert (await harness.request(LIST, 5, ListGroupsRequest())).error_code == LOADING
        only = ListGroupsRequest(types_filter=["consumer"])
        assert (await harness.request(LIST, 5, only)).error_code == LOADING

    run_scenario(scenario, SETTINGS)


def test_commit_of_unknown_partitions_does_not_reach_the_group(run_scenario: Callable[..., None]) -> None:
    async def scenario(harness: Any) -> None:
        for version in range(10):
            assert codes_of(await harness.request(COMMIT, version, committing("g"))) == [MISSING, MISSING]
        # Without FindCoordinator the topic is not created.
        await harness.create("orders")
        assert codes_of(await harness.request(COMMIT, 9, committing("g"))) == [
            ErrorCode.NOT_COORDINATOR,
            MISSING,
        ]

    run_scenario(scenario, SETTINGS)


def test_commit_expiry_is_capped_at_the_largest_timestamp(run_scenario: Callable[..., None]) -> None:
    async def scenario(harness: Any) -> None:
        await harness.create("orders")
        while (await harness.request(FIND, 3, FindCoordinatorRequest("g"))).error_code or (
            harness.broker._group_coordinator.is_loading
        ):
            await harness.cluster.clock.sleep_ms(5)
        for retention_ms in (TIMESTAMP_MS_MAX, -TIMESTAMP_MS_MAX, 0):
            requested = committing("g", retention_time_ms=retention_ms)
            assert codes_of(await harness.request(COMMIT, 4, requested)) == [NONE, MISSING]
            ((_, stored),) = harness.broker._group_coordinator.shard_of("g").groups["g"].offsets
            expected = min(stored.commit_ms + retention_ms, TIMESTAMP_MS_MAX)
            assert stored.expire_ms == expected

    run_scenario(scenario, SETTINGS)


# Version 0: offsets in the store.


def test_version_0_offsets_are_kept_in_the_store(run_with_restarts: Callable[..., None]) -> None:
    async def scenario(cluster: Any, start_broker: Any) -> None:
        harness = await start_broker()
        await harness.create("orders")
        for offset in (5, 7):
            assert codes_of(await harness.request(COMMIT, 0, committing("g", offset))) == [NONE, MISSING]
        node = znode_paths.consumer_offset("g", TopicPartition("orders", 0))
        assert (await harness.broker._dispatcher._context.membership.store.get(node))[0] == b"7"
        await harness.memory_broker.kill()
        harness = await start_broker()
        response = await harness.request(FETCH, 0, fetching("g"))
        (topic,) = response.topics
        assert [(part.committed_offset, part.error_code) for part in topic.partitions] == [
            (7, NONE),
            (-1, MISSING),
        ]
        await harness.memory_broker.stop()

    run_with_restarts(scenario)


@pytest.mark.parametrize("group", ["", "a/b", "..", ".", "bell\a"])
def test_version_0_rejects_a_group_id_that_is_no_znode_name(
    run_scenario: Callable[..., None], group: str
) -> None:
    async def scenario(harness: Any) -> None:
        await harness.create("orders")
        bad = ErrorCode.INVALID_GROUP_ID
        assert codes_of(await harness.request(COMMIT, 0, committing(group))) == [bad, bad]
        assert codes_of(await harness.request(FETCH, 0, fetching(group))) == [bad, bad]
        assert codes_of(await harness.request(COMMIT, 0, committing("good"))) == [NONE, MISSING]

    run_scenario(scenario)


def test_version_0_offset_metadata_is_limited(run_scenario: Callable[..., None]) -> None:
    async def scenario(harness: Any) -> None:
        await harness.create("orders")
        fits, too_long = committing("g", metadata="x" * 9), committing("g", 6, metadata="x" * 10)
        assert codes_of(await harness.request(COMMIT, 0, fits)) == [NONE, MISSING]
        assert codes_of(await harness.request(COMMIT, 0, too_long)) == [
            ErrorCode.OFFSET_METADATA_TOO_LARGE,
            MISSING,
        ]
        (topic,) = (await harness.request(FETCH, 0, fetching("g"))).topics
        assert topic.partitions[0].committed_offset == 5

    run_scenario(scenario, {"offset.metadata.max.bytes": "9"})


@pytest.mark.sources
def test_version_0_commit_fails_with_an_unavailable_store(
    run_scenario: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(harness: Any) -> None:
        await harness.create("orders")

        async def fail(*_: Any) -> None:
            raise Unavailable("/data", "the disk is full")

        monkeypatch.setattr("odradek.broker.handlers.offset_commit.write_consumer_offset", fail)
        response = await harness.request(COMMIT, 0, committing("g"))
        assert codes_of(response) == [ErrorCode.KAFKA_STORAGE_ERROR] * 2

    run_scenario(scenario)
