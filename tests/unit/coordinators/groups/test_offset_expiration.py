"""When offsets are old, by the state of their group; and how they go."""

from __future__ import annotations

import pytest
from tests.support.simulation.group_simulation import T0, GroupSimulation

from odradek.coordinators.groups.commands import CommitOffsets, OffsetAndMetadata
from odradek.coordinators.groups.group import Group, GroupState
from odradek.coordinators.groups.group_member import GroupMember
from odradek.coordinators.groups.offset_expiration import Rule, expired, rule_of
from odradek.coordinators.groups.records import GroupKey, read_key
from odradek.coordinators.groups.shard import EXPIRY_OFFSETS_MAX
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.wire.consumer_protocol import ConsumerProtocolSubscription
from odradek.wire.message_codecs import encoder

P, Q = TopicPartition("orders", 0), TopicPartition("letters", 0)
RETENTION_MS = 100_000
CHECK_MS = 10_000


def subscription(*topics: str) -> bytes:
    return b"\0\0" + encoder(ConsumerProtocolSubscription, 0)(ConsumerProtocolSubscription(list(topics)))


def group_of(state: GroupState, protocol_type: str = "consumer", metadata: bytes = b"") -> Group:
    group = Group("g", 500, state=state, generation=1, protocol_type=protocol_type, protocol="range")
    if state not in (GroupState.EMPTY, GroupState.DEAD):
        group.add(GroupMember("a", None, "c", "/h", 1, 1, (("range", metadata),)), protocol_type)
    group.note_subscriptions()
    return group


# The rules.


@pytest.mark.parametrize("protocol_type", ["consumer", "connect"])
def test_without_members_all_may_go_some_time_after_the_last_member_left(protocol_type: str) -> None:
    group = group_of(GroupState.EMPTY, protocol_type)
    assert rule_of(group) == Rule(frozenset(), 500)
    group.state_since_ms = None
    assert rule_of(group) == Rule(frozenset(), None)


def test_a_group_that_never_had_members_loses_offsets_some_time_after_their_commit() -> None:
    assert rule_of(Group("g", 500)) == Rule(frozenset(), None)


def test_a_stable_group_of_consumers_keeps_offsets_in_topics_it_subscribes_to() -> None:
    group = group_of(GroupState.STABLE, metadata=subscription("orders", "payments"))
    rule = rule_of(group)
    assert rule == Rule(frozenset({"orders", "payments"}), None)
    offsets = [(TopicPartition(topic, 0), OffsetAndMetadata(1, -1, "", 0)) for topic in ("orders", "letters")]
    assert expired(offsets, rule, 2 * RETENTION_MS, RETENTION_MS) == [TopicPartition("letters", 0)]


@pytest.mark.parametrize(
    "group",
    [
        group_of(GroupState.PREPARING_REBALANCE, metadata=subscription("orders")),
        group_of(GroupState.COMPLETING_REBALANCE, metadata=subscription("orders")),
        group_of(GroupState.STABLE, metadata=b"nobody can read this"),
        group_of(GroupState.STABLE, "connect", subscription("orders")),
    ],
    ids=["preparing", "completing", "unreadable", "others"],
)
def test_any_other_group_keeps_all(group: Group) -> None:
    assert rule_of(group) is None


@pytest.mark.parametrize(
    ("offset", "from_ms", "goes_ms"),
    [
        (OffsetAndMetadata(1, -1, "", 1_000), None, 101_000),
        (OffsetAndMetadata(1, -1, "", 1_000), 500, 100_500),
        (OffsetAndMetadata(1, -1, "", 1_000), 3_000, 103_000),
        (OffsetAndMetadata(1, -1, "", 1_000, 7_000), None, 7_000),
        (OffsetAndMetadata(1, -1, "", 1_000, 700_000), 500, 700_000),
    ],
    ids=["since its commit", "since before", "since after", "soon", "late"],
)
def test_an_offset_goes_when_its_time_is_up_and_not_before(
    offset: OffsetAndMetadata, from_ms: int | None, goes_ms: int
) -> None:
    rule = Rule(frozenset(), from_ms)
    assert expired([(P, offset)], rule, goes_ms - 1, RETENTION_MS) == []
    assert expired([(P, offset)], rule, goes_ms, RETENTION_MS) == [P]
    assert expired(
        [(P, offset), (Q, offset)], Rule(frozenset({"orders"}), from_ms), goes_ms, RETENTION_MS
    ) == [Q]


# In the shard.


def world() -> GroupSimulation:
    made = GroupSimulation(offsets_retention_ms=RETENTION_MS, offsets_check_interval_ms=CHECK_MS)
    made.move()  # The first check comes by the settings that hold now.
    return made


def commit(
    world: GroupSimulation,
    *partitions: TopicPartition,
    group: str = "g",
    expire_ms: int | None = None,
    **more: int,
) -> None:
    offset = OffsetAndMetadata(1, -1, "", world.now.wall_ms, expire_ms)
    world.submit(CommitOffsets(group, -1, "", None, dict.fromkeys(partitions, offset), **more), "commit")


def kept(world: GroupSimulation, group: str = "g") -> set[TopicPartition]:
    return set(world.shard.fetch_offsets(group, None, False)[1])


def test_old_offsets_go_one_by_one_and_the_group_with_the_last() -> None:
    town = world()
    commit(town, P)
    town.commit_all()
    town.wait(50_000)
    commit(town, Q)
    town.commit_all()
    town.wait(60_000)
    assert kept(town) == {P, Q}, "nothing is gone before the log says so"
    town.commit_all()
    assert kept(town) == {Q}
    town.wait(50_000)
    town.commit_all()
    assert town.shard.groups == {}
    assert town.reloaded().fetch_offsets("g", None, False)[1] == {}


def test_a_group_without_generation_leaves_no_record_of_its_end() -> None:
    town = world()
    commit(town, P)
    town.commit_all()
    town.wait(RETENTION_MS + CHECK_MS)
    assert [len(write.entries) for write in town.writes] == [1]
    assert not isinstance(read_key(town.writes[0].entries[0].key), GroupKey)


def test_a_client_may_say_when_its_offset_goes() -> None:
    town = world()
    commit(town, P, expire_ms=T0 + 15_000)
    commit(town, Q)
    town.commit_all()
    town.wait(CHECK_MS)
    town.commit_all()
    assert kept(town) == {P, Q}
    town.wait(CHECK_MS)
    town.commit_all()
    assert kept(town) == {Q}


def test_what_is_being_committed_anew_does_not_expire() -> None:
    for more in ({}, {"producer_id": 7, "producer_epoch": 0}):
        town = world()
        commit(town, P)
        town.commit_all()
        town.wait(RETENTION_MS - 1)
        commit(town, P, **more)
        if more:
            town.commit_all()
        town.wait(CHECK_MS)
        assert len(town.writes) == (0 if more else 1), "no tombstone"
        town.commit_all()
        town.shard.replay_end_transaction_marker(7, commits=True)
        assert kept(town) == {P}


def test_what_the_log_refused_to_forget_is_tried_again() -> None:
    town = world()
    commit(town, P)
    town.commit_all()
    town.wait(RETENTION_MS)
    town.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert town.shard.describe("g").state == "Empty"
    assert kept(town) == {P}
    town.wait(CHECK_MS)
    town.commit_all()
    assert town.shard.groups == {}


def test_many_offsets_are_looked_at_in_several_turns() -> None:
    town = world()
    count = 4
    for number in range(count):
        many = [TopicPartition("orders", each) for each in range(EXPIRY_OFFSETS_MAX)]
        commit(town, *many, group=f"g{number}")
    town.commit_all()
    town.wait(RETENTION_MS - 1)
    assert town.writes == []
    per_turn = []
    while len(town.writes) < count:
        before = len(town.writes)
        town.fire_next()
        per_turn.append(len(town.writes) - before)
    assert per_turn == [1] * count
    assert town.elapsed_ms < RETENTION_MS + CHECK_MS, "one turn soon after the other"
    town.commit_all()
    assert town.shard.groups == {}
