"""Every API of groups in every version served: what a client of that version asks, and what it is told."""

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
    """A client in a group, which speaks one version of each API."""

    def __init__(self, town, group="g", **versions):
        self.town, self.group, self.versions = town, group, versions
        self.member = ""
        self.generation = -1

    def join_request(self, **how) -> JoinGroupRequest:
        how.setdefault("member_id", self.member)
        if self.versions.get("join", 9) >= 1:
            how.setdefault("rebalance_timeout_ms", 60_000)
        return JoinGroupRequest(
            self.group,
            how.pop("session_timeout_ms", 10_000),
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", how.pop("metadata", b"mine"))],
            **how,
        )

    async def ask_to_join(self, **how) -> Any:
        return await self.town.ask(JOIN, self.versions.get("join", 9), self.join_request(**how))

    async def join(self, **how) -> Any:
        answer = await self.ask_to_join(**how)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            how["member_id"] = answer.member_id
            answer = await self.ask_to_join(**how)
        assert answer.error_code == 0
        self.member, self.generation = answer.member_id, answer.generation_id
        return answer

    async def sync(self, assignments=None, **how) -> Any:
        version = self.versions.get("sync", 5)
        if version >= 5:
            how = {"protocol_type": "consumer", "protocol_name": "range", **how}
        given = [SyncGroupRequestAssignment(*one) for one in (assignments or {}).items()]
        request = SyncGroupRequest(self.group, self.generation, self.member, assignments=given, **how)
        return await self.town.ask(SYNC, version, request)

    async def settle(self, **how) -> None:
        """Be the one member of a stable group."""
        await self.join(**how)
        assert (await self.sync({self.member: b"all"})).error_code == 0


async def find(town, group="g", version=3) -> Any:
    """The answer of a coordinator, once there is one and it has loaded."""
    while True:
        answer = await town.ask(FIND, version, FindCoordinatorRequest(group))
        if answer.error_code == 0 and not town.broker._groups.is_loading:
            return answer
        await town.cluster.clock.sleep_ms(5)


@pytest.fixture
def play_groups(play):
    """Run a scenario on a broker that coordinates groups, with a topic of two partitions."""

    def run(scenario, settings=None):
        async def main(town):
            await find(town)
            await town.create("orders", 2)
            await scenario(town)

        play(main, {**SETTINGS, **(settings or {})})

    return run


@versions_of(FIND)
def test_find_coordinator(play, version):
    async def scenario(town):
        async def ask(key, key_type=0):
            if version >= 4:
                asked = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key, "another"])
                first, second = (await town.ask(FIND, version, asked)).coordinators
                assert (first.key, second.key) == (key, "another")
                assert first.error_code == second.error_code
                return first
            asked = FindCoordinatorRequest(key, key_type) if version else FindCoordinatorRequest(key)
            return await town.ask(FIND, version, asked)

        nobody = await ask("g")
        assert nobody.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (nobody.node_id, nobody.host, nobody.port) == (-1, "", -1)
        await find(town)
        found = await ask("g")
        assert found.error_code == 0
        assert (found.node_id, found.host, found.port) == (town.broker.broker_id, "broker", 9092)
        assert (await ask("")).error_code == 0
        if version >= 1:
            unknown_share = ErrorCode.COORDINATOR_NOT_AVAILABLE if version >= 6 else ErrorCode.INVALID_REQUEST
            for key_type, code in (
                (1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
                (2, unknown_share),
                (3, ErrorCode.INVALID_REQUEST),
            ):
                refused = await ask("g", key_type)
                assert (refused.error_code, refused.node_id) == (code, -1)
                assert refused.error_message

    play(scenario, SETTINGS)


@versions_of(JOIN)
def test_join_group(play_groups, version):
    async def scenario(town):
        member = Member(town, join=version)
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
        ((one,)) = first.members
        assert (one.member_id, one.group_instance_id, bytes(one.metadata)) == (first.member_id, None, b"mine")

    play_groups(scenario)


@versions_of(JOIN)
def test_the_first_version_of_a_join_has_one_timeout_for_both(play_groups, version):
    """A member that does not join again is missed after the rebalance timeout of the group."""

    async def scenario(town):
        how = {"rebalance_timeout_ms": 40_000} if version else {}
        slow = Member(town, join=version)
        await slow.settle(session_timeout_ms=10_000, **how)
        connection = await town.memory.connect()
        quick = town.__class__(town.cluster, town.memory, connection)

        async def beat():
            while True:
                await town.cluster.clock.sleep_ms(3_000)
                await town.ask(HEARTBEAT, 4, HeartbeatRequest("g", slow.generation, slow.member))

        beating = asyncio.get_running_loop().create_task(beat())
        began = town.cluster.clock.monotonic_ms()
        await Member(quick).join(rebalance_timeout_ms=1)
        took = town.cluster.clock.monotonic_ms() - began
        beating.cancel()
        assert took // 1000 == (40 if version else 10)

    play_groups(scenario)


@versions_of(JOIN)
def test_a_refused_join_tells_as_little_as_its_version_can(play_groups, version):
    async def scenario(town):
        for group, member, code in (
            ("", "", ErrorCode.INVALID_GROUP_ID),
            ("g", "stranger", ErrorCode.UNKNOWN_MEMBER_ID),
        ):
            answer = await Member(town, group, join=version).ask_to_join(member_id=member)
            assert answer.error_code == code
            assert (answer.generation_id, answer.leader, answer.member_id) == (-1, "", member)
            assert answer.protocol_name == (None if version >= 7 else "")
            assert answer.members == []

    play_groups(scenario)


@versions_of(JOIN, since=5)
def test_a_static_member_is_given_its_id_in_the_first_round(play_groups, version):
    async def scenario(town):
        member = Member(town, join=version)
        answer = await member.ask_to_join(group_instance_id="i")
        assert answer.error_code == 0
        assert answer.members[0].group_instance_id == "i"
        await member.join(group_instance_id="i")
        assert (await member.sync({member.member: b"all"}, group_instance_id="i")).error_code == 0
        back = await member.ask_to_join(group_instance_id="i", member_id="")
        assert (back.error_code, back.generation_id) == (0, member.generation)
        assert back.skip_assignment == (version >= 9)
        # A leader of old would assign anew: it is told another leader's name instead.
        assert (back.leader == back.member_id) == (version >= 9)

    play_groups(scenario)


@versions_of(SYNC)
def test_sync_group(play_groups, version):
    async def scenario(town):
        member = Member(town, sync=version)
        await member.join()
        answer = await member.sync({member.member: b"all", "nobody": b"none"})
        assert (answer.error_code, bytes(answer.assignment)) == (0, b"all")
        named = ("consumer", "range") if version >= 5 else (None, None)
        assert (answer.protocol_type, answer.protocol_name) == named
        if version >= 5:
            for missing in ({"protocol_type": None}, {"protocol_name": None}, {"protocol_name": "other"}):
                answer = await member.sync(**missing)
                assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        member.member = "stranger"
        stranger = await member.sync()
        assert (stranger.error_code, bytes(stranger.assignment)) == (ErrorCode.UNKNOWN_MEMBER_ID, b"")
        member.group = ""
        assert (await member.sync()).error_code == ErrorCode.INVALID_GROUP_ID

    play_groups(scenario)


@versions_of(HEARTBEAT)
def test_heartbeat(play_groups, version):
    async def scenario(town):
        member = Member(town)
        await member.settle()

        async def beat(group="g", generation=member.generation, name=member.member, **how):
            asked = HeartbeatRequest(group, generation, name, **how)
            return (await town.ask(HEARTBEAT, version, asked)).error_code

        assert await beat() == ErrorCode.NONE
        assert await beat(generation=7) == ErrorCode.ILLEGAL_GENERATION
        assert await beat(name="stranger") == ErrorCode.UNKNOWN_MEMBER_ID
        assert await beat(group="other") == ErrorCode.UNKNOWN_MEMBER_ID
        assert await beat(group="") == ErrorCode.INVALID_GROUP_ID
        if version >= 3:
            assert await beat(group_instance_id="i") == ErrorCode.UNKNOWN_MEMBER_ID

    play_groups(scenario)


@versions_of(LEAVE)
def test_leave_group(play_groups, version):
    async def scenario(town):
        member = Member(town)
        await member.settle()

        async def leave(*names, group="g"):
            if version < 3:
                return await town.ask(LEAVE, version, LeaveGroupRequest(group, names[0]))
            members = [
                MemberIdentity(*name) if type(name) is tuple else MemberIdentity(name) for name in names
            ]
            return await town.ask(LEAVE, version, LeaveGroupRequest(group, members=members))

        unnamed = await leave("m", group="")
        assert (unnamed.error_code, unnamed.members) == (ErrorCode.INVALID_GROUP_ID, [])
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        if version < 3:
            assert (await leave("stranger")).error_code == unknown
            assert (await leave("m", group="nowhere")).error_code == unknown
            assert (await leave(member.member)).error_code == 0
        else:
            answer = await leave("stranger", member.member, ("", "i"))
            assert answer.error_code == 0
            assert [(one.member_id, one.group_instance_id, one.error_code) for one in answer.members] == [
                ("stranger", None, unknown),
                (member.member, None, 0),
                ("", "i", unknown),
            ]
            assert (await leave()).members == []
            assert [one.error_code for one in (await leave("a", "b", group="nowhere")).members] == [
                unknown
            ] * 2
        described = await town.ask(DESCRIBE, 5, DescribeGroupsRequest(["g"]))
        assert described.groups[0].group_state == "Empty"

    play_groups(scenario)


def commit_request(offsets, **how) -> OffsetCommitRequest:
    """``offsets``: topic, partition, then fields of a commit, in order."""
    topics = [
        OffsetCommitRequestTopic(
            topic,
            [OffsetCommitRequestPartition(number, offset, committed_metadata=metadata, **more)],
        )
        for topic, number, offset, metadata, more in offsets
    ]
    return OffsetCommitRequest(how.pop("group", "g"), topics=topics, **how)


async def commit(town, version, *offsets, **how) -> list[int]:
    answer = await town.ask(COMMIT, version, commit_request(offsets, **how))
    return [part.error_code for topic in answer.topics for part in topic.partitions]


async def fetch(town, version, asked, group="g", **how) -> Any:
    """Give the group's error and, topic by topic, what it says of partitions."""
    if version >= 8:
        topics = None
        if asked is not None:
            topics = [OffsetFetchRequestTopics(*one) for one in asked]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=topics)], **how)
        (answer,) = (await town.ask(FETCH, version, request)).groups
        assert answer.group_id == group
    else:
        topics = None if asked is None else [OffsetFetchRequestTopic(*one) for one in asked]
        answer = await town.ask(FETCH, version, OffsetFetchRequest(group, topics, **how))
    return answer.error_code, [
        (
            topic.name,
            [(one.partition_index, one.committed_offset, one.metadata, one.error_code) for one in parts],
        )
        for topic in answer.topics
        for parts in [topic.partitions]
    ]


@versions_of(COMMIT)
def test_offset_commit(play_groups, version):
    async def scenario(town):
        member = Member(town)
        await member.settle()
        who = (
            {"generation_id_or_member_epoch": member.generation, "member_id": member.member}
            if version
            else {}
        )
        codes = await commit(
            town,
            version,
            ("orders", 1, 11, "here", {}),
            ("orders", 9, 1, None, {}),
            ("nowhere", 0, 1, None, {}),
            ("orders", 0, 10, None, {}),
            **who,
        )
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes == [0, missing, missing, 0]
        error, (told,) = await fetch(town, 7 if version else 0, [("orders", [0, 1])])
        assert error == 0
        assert told == ("orders", [(0, 10, "", 0), (1, 11, "here" if version else "", 0)])
        assert await commit(town, version, ("orders", 0, 12, "x" * 5000, {}), **who) == [
            ErrorCode.OFFSET_METADATA_TOO_LARGE
        ]

    play_groups(scenario)


@versions_of(COMMIT, since=1)
def test_who_may_not_commit_is_told_so_for_each_partition(play_groups, version):
    async def scenario(town):
        member = Member(town)
        await member.settle()
        offsets = [("orders", 0, 5, None, {}), ("orders", 9, 5, None, {})]
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for generation, name, group, code in (
            (7, member.member, "g", ErrorCode.ILLEGAL_GENERATION),
            (1, "stranger", "g", ErrorCode.UNKNOWN_MEMBER_ID),
            (-1, "", "g", ErrorCode.UNKNOWN_MEMBER_ID),
            (3, "m", "nobody", ErrorCode.ILLEGAL_GENERATION),
        ):
            who = {"generation_id_or_member_epoch": generation, "member_id": name, "group": group}
            assert await commit(town, version, *offsets, **who) == [code, missing]
        assert (await fetch(town, 7, [("orders", [0])]))[1] == [("orders", [(0, -1, "", 0)])]
        who = {"generation_id_or_member_epoch": -1, "member_id": "", "group": "alone"}
        assert await commit(town, version, *offsets, **who) == [0, missing]
        who["group"] = ""
        assert await commit(town, version, *offsets, **who) == [0, missing]
        assert (await fetch(town, 7, None, ""))[1] == [("orders", [(0, 5, "", 0)])]

    play_groups(scenario)


@versions_of(COMMIT, since=1)
def test_leader_epochs_and_times_of_commits(play_groups, version):
    async def scenario(town):
        more = {1: {"commit_timestamp": 1234}}.get(version, {})
        if version >= 6:
            more = {"committed_leader_epoch": 3}
        how = {"retention_time_ms": 5_000} if 2 <= version <= 4 else {}
        began_ms = town.cluster.clock.wall_ms()
        assert await commit(town, version, ("orders", 0, 5, None, more), **how) == [0]
        machine = town.broker._groups.shard_of("g")
        ((_, stored),) = machine.groups["g"].offsets
        assert stored.leader_epoch == (3 if version >= 6 else -1)
        assert stored.commit_ms >= began_ms if version != 1 else stored.commit_ms == 1234
        assert stored.expire_ms == (stored.commit_ms + 5_000 if 2 <= version <= 4 else None)

    play_groups(scenario)


@versions_of(FETCH)
def test_offset_fetch(play_groups, version):
    async def scenario(town):
        for number, offset in ((0, 10), (1, 11)):
            more = {"committed_leader_epoch": 2}
            old = await commit(town, 0, ("orders", number, offset, None, {}))
            new = await commit(town, 9, ("orders", number, offset, "here", more))
            assert (old, new) == ([0], [0])
        metadata = "here" if version else ""
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version == 0 else 0
        asked = [("orders", [1, 7, 0]), ("nowhere", [3])]
        assert await fetch(town, version, asked) == (
            0,
            [
                ("orders", [(1, 11, metadata, 0), (7, -1, "", unknown), (0, 10, metadata, 0)]),
                ("nowhere", [(3, -1, "", unknown)]),
            ],
        )
        assert await fetch(town, version, [("orders", [0])], "nobody") == (
            0,
            [("orders", [(0, -1, "", unknown)])],
        )
        assert await fetch(town, version, []) == (0, [])
        if version >= 2:
            everything = [("orders", [(0, 10, "here", 0), (1, 11, "here", 0)])]
            assert await fetch(town, version, None) == (0, everything)
            assert await fetch(town, version, None, "nobody") == (0, [])
        if version >= 7:
            stable = await fetch(town, version, None, require_stable=True)
            assert stable == (0, everything)

    play_groups(scenario)


@versions_of(FETCH)
def test_fetched_leader_epochs(play_groups, version):
    async def scenario(town):
        await commit(town, 9, ("orders", 0, 5, None, {"committed_leader_epoch": 2}))
        if version >= 8:
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)])
            topics = (await town.ask(FETCH, version, request)).groups[0].topics
        else:
            request = OffsetFetchRequest("g", [OffsetFetchRequestTopic("orders", [0])])
            topics = (await town.ask(FETCH, version, request)).topics
        assert topics[0].partitions[0].committed_leader_epoch == (2 if version >= 5 else -1)

    play_groups(scenario)


def test_several_groups_are_answered_each_for_itself(play_groups):
    async def scenario(town):
        await commit(town, 9, ("orders", 0, 5, None, {}), group="a")
        await commit(town, 9, ("orders", 1, 6, None, {}), group="b")
        groups = [
            OffsetFetchRequestGroup("b", topics=[OffsetFetchRequestTopics("orders", [0, 1])]),
            OffsetFetchRequestGroup("a", topics=None),
            OffsetFetchRequestGroup("b", topics=[]),
        ]
        answer = await town.ask(FETCH, 9, OffsetFetchRequest(groups=groups))
        assert [
            (
                group.group_id,
                [
                    (one.partition_index, one.committed_offset)
                    for topic in group.topics
                    for one in topic.partitions
                ],
            )
            for group in answer.groups
        ] == [("b", [(0, -1), (1, 6)]), ("a", [(0, 5)]), ("b", [])]

    play_groups(scenario)


@versions_of(OFFSET_DELETE)
def test_offset_delete(play_groups, version):
    async def scenario(town):
        await commit(town, 9, ("orders", 0, 5, None, {}), ("orders", 1, 6, None, {}))

        async def delete(*topics, group="g"):
            asked = [
                OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(number) for number in numbers])
                for topic, numbers in topics
            ]
            answer = await town.ask(OFFSET_DELETE, version, OffsetDeleteRequest(group, asked))
            return answer.error_code, [
                (topic.name, [(one.partition_index, one.error_code) for one in topic.partitions])
                for topic in answer.topics
            ]

        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await delete(("nowhere", [0]), ("orders", [9, 0])) == (
            0,
            [("nowhere", [(0, missing)]), ("orders", [(9, missing), (0, 0)])],
        )
        assert await fetch(town, 9, None) == (0, [("orders", [(1, 6, "", 0)])])
        assert await delete(("orders", [0]), group="nobody") == (ErrorCode.GROUP_ID_NOT_FOUND, [])
        assert await delete(("orders", [0]), group="") == (ErrorCode.INVALID_GROUP_ID, [])

    play_groups(scenario)


@versions_of(DELETE_GROUPS)
def test_delete_groups(play_groups, version):
    async def scenario(town):
        await Member(town, "busy").settle()
        for group in ("a", ""):
            await commit(town, 9, ("orders", 0, 5, None, {}), group=group)

        async def delete(*groups):
            answer = await town.ask(DELETE_GROUPS, version, DeleteGroupsRequest(list(groups)))
            return [(one.group_id, one.error_code) for one in answer.results]

        assert await delete("nobody", "a", "busy", "a", "") == [
            ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
            ("a", 0),
            ("busy", ErrorCode.NON_EMPTY_GROUP),
            ("", 0),
        ]
        assert await delete("a") == [("a", ErrorCode.GROUP_ID_NOT_FOUND)]
        assert await delete() == []
        assert await fetch(town, 9, None, "a") == (0, [])

    play_groups(scenario)


@versions_of(DESCRIBE)
def test_describe_groups(play_groups, version):
    async def scenario(town):
        member = Member(town)
        await member.join(group_instance_id="i")
        assert (await member.sync({member.member: b"all"}, group_instance_id="i")).error_code == 0
        await commit(town, 9, ("orders", 0, 5, None, {}), group="")

        async def describe(*groups, **how):
            answer = await town.ask(DESCRIBE, version, DescribeGroupsRequest(list(groups), **how))
            assert [one.group_id for one in answer.groups] == list(groups)
            return answer.groups

        known, unknown, unnamed = await describe("g", "nobody", "")
        assert (known.error_code, known.group_state) == (0, "Stable")
        assert (known.protocol_type, known.protocol_data) == ("consumer", "range")
        assert known.authorized_operations == -(2**31)
        (one,) = known.members
        assert (one.member_id, one.client_id, one.client_host) == (member.member, "client", "/client")
        assert one.group_instance_id == ("i" if version >= 4 else None)
        assert (bytes(one.member_metadata), bytes(one.member_assignment)) == (b"mine", b"all")
        assert (unknown.error_code, unknown.group_state, unknown.members) == (0, "Dead", [])
        assert (unnamed.error_code, unnamed.group_state) == (0, "Empty")
        if version >= 3:
            (known,) = await describe("g", include_authorized_operations=True)
            assert known.authorized_operations == GROUP_OPERATIONS

    play_groups(scenario)


@versions_of(LIST)
def test_list_groups(play_groups, version):
    async def scenario(town):
        await Member(town, "busy").settle()
        await commit(town, 9, ("orders", 0, 5, None, {}), group="alone")

        async def names(**filters):
            answer = await town.ask(LIST, version, ListGroupsRequest(**filters))
            assert answer.error_code == 0
            return {one.group_id: one for one in answer.groups}

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

    play_groups(scenario)
