"""Every group API in every supported version."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from odradek.broker.handlers import HANDLERS
from odradek.model.acl_operations import GROUP_OPERATIONS
from odradek.model.errors import ErrorCode
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
    OffsetFetchRequestTopics,
)
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

COMMIT, FETCH, FIND, JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE, LIST = range(8, 17)
DELETE_GROUPS, OFFSET_DELETE = 42, 47
VERSIONS = {handler.api_key: handler.versions for handler in HANDLERS}
SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}


def versions_of(api_key, since=0):
    versions = [version for version in VERSIONS[api_key] if version >= since]
    return pytest.mark.parametrize("version", versions)


class Member:
    """Group member that uses one version of each API."""

    def __init__(self, harness, group="g", **versions):
        self.harness, self.group, self.versions = harness, group, versions
        self.member = ""
        self.generation = -1

    def join_request(self, **options) -> JoinGroupRequest:
        options.setdefault("member_id", self.member)
        if self.versions.get("join", 9) >= 1:
            options.setdefault("rebalance_timeout_ms", 60_000)
        return JoinGroupRequest(
            self.group,
            options.pop("session_timeout_ms", 10_000),
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", options.pop("metadata", b"mine"))],
            **options,
        )

    async def ask_to_join(self, **options) -> Any:
        return await self.harness.request(JOIN, self.versions.get("join", 9), self.join_request(**options))

    async def join(self, **options) -> Any:
        response = await self.ask_to_join(**options)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            options["member_id"] = response.member_id
            response = await self.ask_to_join(**options)
        assert response.error_code == 0
        self.member, self.generation = response.member_id, response.generation_id
        return response

    async def sync(self, assignments=None, **options) -> Any:
        version = self.versions.get("sync", 5)
        if version >= 5:
            options = {"protocol_type": "consumer", "protocol_name": "range", **options}
        specified = [SyncGroupRequestAssignment(*assignment) for assignment in (assignments or {}).items()]
        request = SyncGroupRequest(self.group, self.generation, self.member, assignments=specified, **options)
        return await self.harness.request(SYNC, version, request)

    async def become_stable(self, **options) -> None:
        """Become the only member of a stable group."""
        await self.join(**options)
        assert (await self.sync({self.member: b"all"})).error_code == 0


async def find(harness, group="g", version=3) -> Any:
    """Return the FindCoordinator response once the coordinator is loaded."""
    while True:
        response = await harness.request(FIND, version, FindCoordinatorRequest(group))
        if response.error_code == 0 and not harness.broker._group_coordinator.is_loading:
            return response
        await harness.cluster.clock.sleep_ms(5)


@pytest.fixture
def run_groups(run_scenario):
    """Run a scenario on a broker with group coordinators and a topic of two partitions."""

    def run(scenario, settings=None):
        async def main(harness):
            await find(harness)
            await harness.create("orders", 2)
            await scenario(harness)

        run_scenario(main, {**SETTINGS, **(settings or {})})

    return run


@versions_of(FIND)
def test_find_coordinator(run_scenario, version):
    async def scenario(harness):
        async def request(key, key_type=0):
            if version >= 4:
                requested = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key, "another"])
                first, second = (await harness.request(FIND, version, requested)).coordinators
                assert (first.key, second.key) == (key, "another")
                assert first.error_code == second.error_code
                return first
            requested = FindCoordinatorRequest(key, key_type) if version else FindCoordinatorRequest(key)
            return await harness.request(FIND, version, requested)

        nobody = await request("g")
        assert nobody.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (nobody.node_id, nobody.host, nobody.port) == (-1, "", -1)
        await find(harness)
        result = await request("g")
        assert result.error_code == 0
        assert (result.node_id, result.host, result.port) == (harness.broker.broker_id, "broker", 9092)
        assert (await request("")).error_code == 0
        if version >= 1:
            unknown_share = ErrorCode.COORDINATOR_NOT_AVAILABLE if version >= 6 else ErrorCode.INVALID_REQUEST
            for key_type, code in (
                (1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
                (2, unknown_share),
                (3, ErrorCode.INVALID_REQUEST),
            ):
                rejected = await request("g", key_type)
                assert (rejected.error_code, rejected.node_id) == (code, -1)
                assert rejected.error_message

    run_scenario(scenario, SETTINGS)


@versions_of(JOIN)
def test_join_group(run_groups, version):
    async def scenario(harness):
        member = Member(harness, join=version)
        first = await member.ask_to_join()
        if version >= 4:
            assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
            assert first.member_id.startswith("client-")
            assert (first.generation_id, first.leader, first.members) == (-1, "", [])
            assert first.protocol_name == (None if version >= 7 else "")
            first = await member.ask_to_join(member_id=first.member_id)
        assert (first.error_code, first.generation_id) == (0, 1)
        assert first.leader == first.member_id
        assert first.protocol_name == "range"
        assert first.protocol_type == ("consumer" if version >= 7 else None)
        assert not first.skip_assignment
        (described,) = first.members
        assert (described.member_id, described.group_instance_id, bytes(described.metadata)) == (
            first.member_id,
            None,
            b"mine",
        )

    run_groups(scenario)


@versions_of(JOIN)
def test_join_version_0_uses_the_session_timeout_for_rebalances(run_groups, version):
    """A member that does not rejoin is removed after the group's rebalance timeout."""

    async def scenario(harness):
        options = {"rebalance_timeout_ms": 40_000} if version else {}
        slow = Member(harness, join=version)
        await slow.become_stable(session_timeout_ms=10_000, **options)
        connection = await harness.memory_broker.connect()
        quick = harness.__class__(harness.cluster, harness.memory_broker, connection)

        async def beat():
            while True:
                await harness.cluster.clock.sleep_ms(3_000)
                await harness.request(HEARTBEAT, 4, HeartbeatRequest("g", slow.generation, slow.member))

        beating = asyncio.get_running_loop().create_task(beat())
        began = harness.cluster.clock.monotonic_ms()
        await Member(quick).join(rebalance_timeout_ms=1)
        took = harness.cluster.clock.monotonic_ms() - began
        beating.cancel()
        assert took // 1000 == (40 if version else 10)

    run_groups(scenario)


@versions_of(JOIN)
def test_join_error_response_fields_by_version(run_groups, version):
    async def scenario(harness):
        for group, member, code in (
            ("", "", ErrorCode.INVALID_GROUP_ID),
            ("g", "stranger", ErrorCode.UNKNOWN_MEMBER_ID),
        ):
            response = await Member(harness, group, join=version).ask_to_join(member_id=member)
            assert response.error_code == code
            assert (response.generation_id, response.leader, response.member_id) == (-1, "", member)
            assert response.protocol_name == (None if version >= 7 else "")
            assert response.members == []

    run_groups(scenario)


@versions_of(JOIN, since=5)
def test_static_member_gets_its_id_without_a_second_join(run_groups, version):
    async def scenario(harness):
        member = Member(harness, join=version)
        response = await member.ask_to_join(group_instance_id="i")
        assert response.error_code == 0
        assert response.members[0].group_instance_id == "i"
        await member.join(group_instance_id="i")
        assert (await member.sync({member.member: b"all"}, group_instance_id="i")).error_code == 0
        back = await member.ask_to_join(group_instance_id="i", member_id="")
        assert (back.error_code, back.generation_id) == (0, member.generation)
        assert back.skip_assignment == (version >= 9)
        # An old leader would assign again: it gets another leader's id instead.
        assert (back.leader == back.member_id) == (version >= 9)

    run_groups(scenario)


@versions_of(SYNC)
def test_sync_group(run_groups, version):
    async def scenario(harness):
        member = Member(harness, sync=version)
        await member.join()
        response = await member.sync({member.member: b"all", "nobody": b"none"})
        assert (response.error_code, bytes(response.assignment)) == (0, b"all")
        named = ("consumer", "range") if version >= 5 else (None, None)
        assert (response.protocol_type, response.protocol_name) == named
        if version >= 5:
            for missing in ({"protocol_type": None}, {"protocol_name": None}, {"protocol_name": "other"}):
                response = await member.sync(**missing)
                assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        member.member = "stranger"
        stranger = await member.sync()
        assert (stranger.error_code, bytes(stranger.assignment)) == (ErrorCode.UNKNOWN_MEMBER_ID, b"")
        member.group = ""
        assert (await member.sync()).error_code == ErrorCode.INVALID_GROUP_ID

    run_groups(scenario)


@versions_of(HEARTBEAT)
def test_heartbeat(run_groups, version):
    async def scenario(harness):
        member = Member(harness)
        await member.become_stable()

        async def beat(group="g", generation=member.generation, name=member.member, **options):
            requested = HeartbeatRequest(group, generation, name, **options)
            return (await harness.request(HEARTBEAT, version, requested)).error_code

        assert await beat() == ErrorCode.NONE
        assert await beat(generation=7) == ErrorCode.ILLEGAL_GENERATION
        assert await beat(name="stranger") == ErrorCode.UNKNOWN_MEMBER_ID
        assert await beat(group="other") == ErrorCode.UNKNOWN_MEMBER_ID
        assert await beat(group="") == ErrorCode.INVALID_GROUP_ID
        if version >= 3:
            assert await beat(group_instance_id="i") == ErrorCode.UNKNOWN_MEMBER_ID

    run_groups(scenario)


@versions_of(LEAVE)
def test_leave_group(run_groups, version):
    async def scenario(harness):
        member = Member(harness)
        await member.become_stable()

        async def leave(*names, group="g"):
            if version < 3:
                return await harness.request(LEAVE, version, LeaveGroupRequest(group, names[0]))
            members = [
                MemberIdentity(*name) if type(name) is tuple else MemberIdentity(name) for name in names
            ]
            return await harness.request(LEAVE, version, LeaveGroupRequest(group, members=members))

        unnamed = await leave("m", group="")
        assert (unnamed.error_code, unnamed.members) == (ErrorCode.INVALID_GROUP_ID, [])
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        if version < 3:
            assert (await leave("stranger")).error_code == unknown
            assert (await leave("m", group="nowhere")).error_code == unknown
            assert (await leave(member.member)).error_code == 0
        else:
            response = await leave("stranger", member.member, ("", "i"))
            assert response.error_code == 0
            assert [
                (member.member_id, member.group_instance_id, member.error_code) for member in response.members
            ] == [
                ("stranger", None, unknown),
                (member.member, None, 0),
                ("", "i", unknown),
            ]
            assert (await leave()).members == []
            assert [member.error_code for member in (await leave("a", "b", group="nowhere")).members] == [
                unknown
            ] * 2
        described = await harness.request(DESCRIBE, 5, DescribeGroupsRequest(["g"]))
        assert described.groups[0].group_state == "Empty"

    run_groups(scenario)


def commit_request(offsets, **options) -> OffsetCommitRequest:
    """``offsets``: topic, partition, then the fields of a commit."""
    topics = [
        OffsetCommitRequestTopic(
            topic,
            [OffsetCommitRequestPartition(number, offset, committed_metadata=metadata, **more)],
        )
        for topic, number, offset, metadata, more in offsets
    ]
    return OffsetCommitRequest(options.pop("group", "g"), topics=topics, **options)


async def commit(harness, version, *offsets, **options) -> list[int]:
    response = await harness.request(COMMIT, version, commit_request(offsets, **options))
    return [part.error_code for topic in response.topics for part in topic.partitions]


async def fetch(harness, version, requested, group="g", **options) -> Any:
    """Return the group's error and its partitions by topic."""
    topics: Any = None
    if version >= 8:
        if requested is not None:
            topics = [OffsetFetchRequestTopics(*topic_partitions) for topic_partitions in requested]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=topics)], **options)
        (response,) = (await harness.request(FETCH, version, request)).groups
        assert response.group_id == group
    else:
        topics = (
            None
            if requested is None
            else [OffsetFetchRequestTopic(*topic_partitions) for topic_partitions in requested]
        )
        response = await harness.request(FETCH, version, OffsetFetchRequest(group, topics, **options))
    return response.error_code, [
        (
            topic.name,
            [(part.partition_index, part.committed_offset, part.metadata, part.error_code) for part in parts],
        )
        for topic in response.topics
        for parts in [topic.partitions]
    ]


@versions_of(COMMIT)
def test_offset_commit(run_groups, version):
    async def scenario(harness):
        member = Member(harness)
        await member.become_stable()
        identity = (
            {"generation_id_or_member_epoch": member.generation, "member_id": member.member}
            if version
            else {}
        )
        codes = await commit(
            harness,
            version,
            ("orders", 1, 11, "here", {}),
            ("orders", 9, 1, None, {}),
            ("nowhere", 0, 1, None, {}),
            ("orders", 0, 10, None, {}),
            **identity,
        )
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes == [0, missing, missing, 0]
        error, (reported,) = await fetch(harness, 7 if version else 0, [("orders", [0, 1])])
        assert error == 0
        assert reported == ("orders", [(0, 10, "", 0), (1, 11, "here" if version else "", 0)])
        assert await commit(harness, version, ("orders", 0, 12, "x" * 5000, {}), **identity) == [
            ErrorCode.OFFSET_METADATA_TOO_LARGE
        ]

    run_groups(scenario)


@versions_of(COMMIT, since=1)
def test_rejected_commit_has_an_error_per_partition(run_groups, version):
    async def scenario(harness):
        member = Member(harness)
        await member.become_stable()
        offsets: list[Any] = [("orders", 0, 5, None, {}), ("orders", 9, 5, None, {})]
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for generation, name, group, code in (
            (7, member.member, "g", ErrorCode.ILLEGAL_GENERATION),
            (1, "stranger", "g", ErrorCode.UNKNOWN_MEMBER_ID),
            (-1, "", "g", ErrorCode.UNKNOWN_MEMBER_ID),
            (3, "m", "nobody", ErrorCode.ILLEGAL_GENERATION),
        ):
            identity = {"generation_id_or_member_epoch": generation, "member_id": name, "group": group}
            assert await commit(harness, version, *offsets, **identity) == [code, missing]
        assert (await fetch(harness, 7, [("orders", [0])]))[1] == [("orders", [(0, -1, "", 0)])]
        identity = {"generation_id_or_member_epoch": -1, "member_id": "", "group": "alone"}
        assert await commit(harness, version, *offsets, **identity) == [0, missing]
        identity["group"] = ""
        assert await commit(harness, version, *offsets, **identity) == [0, missing]
        assert (await fetch(harness, 7, None, ""))[1] == [("orders", [(0, 5, "", 0)])]

    run_groups(scenario)


@versions_of(COMMIT, since=1)
def test_leader_epochs_and_commit_timestamps(run_groups, version):
    async def scenario(harness):
        more = {1: {"commit_timestamp": 1234}}.get(version, {})
        if version >= 6:
            more = {"committed_leader_epoch": 3}
        options = {"retention_time_ms": 5_000} if 2 <= version <= 4 else {}
        began_ms = harness.cluster.clock.wall_ms()
        assert await commit(harness, version, ("orders", 0, 5, None, more), **options) == [0]
        machine = harness.broker._group_coordinator.shard_of("g")
        ((_, stored),) = machine.groups["g"].offsets
        assert stored.leader_epoch == (3 if version >= 6 else -1)
        assert stored.commit_ms >= began_ms if version != 1 else stored.commit_ms == 1234
        assert stored.expire_ms == (stored.commit_ms + 5_000 if 2 <= version <= 4 else None)

    run_groups(scenario)


@versions_of(FETCH)
def test_offset_fetch(run_groups, version):
    async def scenario(harness):
        for number, offset in ((0, 10), (1, 11)):
            more = {"committed_leader_epoch": 2}
            old = await commit(harness, 0, ("orders", number, offset, None, {}))
            new = await commit(harness, 9, ("orders", number, offset, "here", more))
            assert (old, new) == ([0], [0])
        metadata = "here" if version else ""
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version == 0 else 0
        requested = [("orders", [1, 7, 0]), ("nowhere", [3])]
        assert await fetch(harness, version, requested) == (
            0,
            [
                ("orders", [(1, 11, metadata, 0), (7, -1, "", unknown), (0, 10, metadata, 0)]),
                ("nowhere", [(3, -1, "", unknown)]),
            ],
        )
        assert await fetch(harness, version, [("orders", [0])], "nobody") == (
            0,
            [("orders", [(0, -1, "", unknown)])],
        )
        assert await fetch(harness, version, []) == (0, [])
        if version >= 2:
            everything = [("orders", [(0, 10, "here", 0), (1, 11, "here", 0)])]
            assert await fetch(harness, version, None) == (0, everything)
            assert await fetch(harness, version, None, "nobody") == (0, [])
        if version >= 7:
            stable = await fetch(harness, version, None, require_stable=True)
            assert stable == (0, everything)

    run_groups(scenario)


@versions_of(FETCH)
def test_fetched_leader_epochs(run_groups, version):
    async def scenario(harness):
        await commit(harness, 9, ("orders", 0, 5, None, {"committed_leader_epoch": 2}))
        if version >= 8:
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)])
            topics = (await harness.request(FETCH, version, request)).groups[0].topics
        else:
            request = OffsetFetchRequest("g", [OffsetFetchRequestTopic("orders", [0])])
            topics = (await harness.request(FETCH, version, request)).topics
        assert topics[0].partitions[0].committed_leader_epoch == (2 if version >= 5 else -1)

    run_groups(scenario)


def test_each_group_of_an_offset_fetch_has_its_own_error(run_groups):
    async def scenario(harness):
        await commit(harness, 9, ("orders", 0, 5, None, {}), group="a")
        await commit(harness, 9, ("orders", 1, 6, None, {}), group="b")
        groups = [
            OffsetFetchRequestGroup("b", topics=[OffsetFetchRequestTopics("orders", [0, 1])]),
            OffsetFetchRequestGroup("a", topics=None),
            OffsetFetchRequestGroup("b", topics=[]),
        ]
        response = await harness.request(FETCH, 9, OffsetFetchRequest(groups=groups))
        assert [
            (
                group.group_id,
                [
                    (partition.partition_index, partition.committed_offset)
                    for topic in group.topics
                    for partition in topic.partitions
                ],
            )
            for group in response.groups
        ] == [("b", [(0, -1), (1, 6)]), ("a", [(0, 5)]), ("b", [])]

    run_groups(scenario)


@versions_of(OFFSET_DELETE)
def test_offset_delete(run_groups, version):
    async def scenario(harness):
        await commit(harness, 9, ("orders", 0, 5, None, {}), ("orders", 1, 6, None, {}))

        async def delete(*topics, group="g"):
            requested = [
                OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(number) for number in numbers])
                for topic, numbers in topics
            ]
            response = await harness.request(OFFSET_DELETE, version, OffsetDeleteRequest(group, requested))
            return response.error_code, [
                (
                    topic.name,
                    [(partition.partition_index, partition.error_code) for partition in topic.partitions],
                )
                for topic in response.topics
            ]

        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await delete(("nowhere", [0]), ("orders", [9, 0])) == (
            0,
            [("nowhere", [(0, missing)]), ("orders", [(9, missing), (0, 0)])],
        )
        assert await fetch(harness, 9, None) == (0, [("orders", [(1, 6, "", 0)])])
        assert await delete(("orders", [0]), group="nobody") == (ErrorCode.GROUP_ID_NOT_FOUND, [])
        assert await delete(("orders", [0]), group="") == (ErrorCode.INVALID_GROUP_ID, [])

    run_groups(scenario)


@versions_of(DELETE_GROUPS)
def test_delete_groups(run_groups, version):
    async def scenario(harness):
        await Member(harness, "busy").become_stable()
        for group in ("a", ""):
            await commit(harness, 9, ("orders", 0, 5, None, {}), group=group)

        async def delete(*groups):
            response = await harness.request(DELETE_GROUPS, version, DeleteGroupsRequest(list(groups)))
            return [(result.group_id, result.error_code) for result in response.results]

        assert await delete("nobody", "a", "busy", "a", "") == [
            ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
            ("a", 0),
            ("busy", ErrorCode.NON_EMPTY_GROUP),
            ("", 0),
        ]
        assert await delete("a") == [("a", ErrorCode.GROUP_ID_NOT_FOUND)]
        assert await delete() == []
        assert await fetch(harness, 9, None, "a") == (0, [])

    run_groups(scenario)


@versions_of(DESCRIBE)
def test_describe_groups(run_groups, version):
    async def scenario(harness):
        member = Member(harness)
        await member.join(group_instance_id="i")
        assert (await member.sync({member.member: b"all"}, group_instance_id="i")).error_code == 0
        await commit(harness, 9, ("orders", 0, 5, None, {}), group="")

        async def describe(*groups, **options):
            response = await harness.request(
                DESCRIBE, version, DescribeGroupsRequest(list(groups), **options)
            )
            assert [group.group_id for group in response.groups] == list(groups)
            return response.groups

        known, unknown, unnamed = await describe("g", "nobody", "")
        assert (known.error_code, known.group_state) == (0, "Stable")
        assert (known.protocol_type, known.protocol_data) == ("consumer", "range")
        assert known.authorized_operations == -(2**31)
        (described,) = known.members
        assert (described.member_id, described.client_id, described.client_host) == (
            member.member,
            "client",
            "/client",
        )
        assert described.group_instance_id == ("i" if version >= 4 else None)
        assert (bytes(described.member_metadata), bytes(described.member_assignment)) == (b"mine", b"all")
        assert (unknown.error_code, unknown.group_state, unknown.members) == (0, "Dead", [])
        assert (unnamed.error_code, unnamed.group_state) == (0, "Empty")
        if version >= 3:
            (known,) = await describe("g", include_authorized_operations=True)
            assert known.authorized_operations == GROUP_OPERATIONS

    run_groups(scenario)


@versions_of(LIST)
def test_list_groups(run_groups, version):
    async def scenario(harness):
        await Member(harness, "busy").become_stable()
        await commit(harness, 9, ("orders", 0, 5, None, {}), group="alone")

        async def names(**filters):
            response = await harness.request(LIST, version, ListGroupsRequest(**filters))
            assert response.error_code == 0
            return {group.group_id: group for group in response.groups}

        everyone = await names()
        assert set(everyone) == {"busy", "alone"}
        assert (everyone["busy"].protocol_type, everyone["alone"].protocol_type) == ("consumer", "")
        states = (everyone["busy"].group_state, everyone["alone"].group_state)
        assert states == (("Stable", "Empty") if version >= 4 else ("", ""))
        assert everyone["busy"].group_type == ("classic" if version >= 5 else "")
        if version >= 4:
            assert set(await names(states_filter=["stABLE", "Unheard"])) == {"busy"}
            assert await names(states_filter=["Dead"]) == {}
        if version >= 5:
            assert set(await names(types_filter=["Classic", "consumer"])) == {"busy", "alone"}
            assert await names(types_filter=["consumer"]) == {}

    run_groups(scenario)
