"""Expiration of offsets by state of their group, and their deletion."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.simulation.group_simulation import T0, GroupSimulation

from odradek.coordinators.groups.commands import CommitOffsets, OffsetAndMetadata
from odradek.coordinators.groups.deletion import (
    EXPIRATION_OFFSETS_MAX,
    ExpirationCondition,
    expiration_condition,
    expired_partitions,
)
from odradek.coordinators.groups.group import Group, GroupState
from odradek.coordinators.groups.group_member import GroupMember
from odradek.coordinators.groups.records import GroupKey, read_key
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
    group.update_subscriptions()
    return group


# Conditions.


@pytest.mark.parametrize("protocol_type", ["consumer", "connect"])
def test_offsets_of_an_empty_group_expire_after_the_last_member_left(protocol_type: str) -> None:
    group = group_of(GroupState.EMPTY, protocol_type)
    assert expiration_condition(group) == ExpirationCondition(frozenset(), 500)
    group.state_since_ms = None
    assert expiration_condition(group) == ExpirationCondition(frozenset(), None)


def test_offsets_of_a_group_without_members_expire_after_their_commit() -> None:
    assert expiration_condition(Group("g", 500)) == ExpirationCondition(frozenset(), None)


def test_offsets_of_subscribed_topics_do_not_expire() -> None:
    group = group_of(GroupState.STABLE, metadata=subscription("orders", "payments"))
    condition = expiration_condition(group)
    assert condition == ExpirationCondition(frozenset({"orders", "payments"}), None)
    offsets = [(TopicPartition(topic, 0), OffsetAndMetadata(1, -1, "", 0)) for topic in ("orders", "letters")]
    assert expired_partitions(offsets, condition, 2 * RETENTION_MS, RETENTION_MS) == [
        TopicPartition("letters", 0)
    ]


@pytest.mark.parametrize(
    "group",
    [
        group_of(GroupState.PREPARING_REBALANCE, metadata=subscription("orders")),
        group_of(GroupState.COMPLETING_REBALANCE, metadata=subscription("orders")),
        group_of(GroupState.STABLE, metadata=b"malformed"),
        group_of(GroupState.STABLE, "connect", subscription("orders")),
    ],
    ids=["preparing", "completing", "malformed", "other protocol type"],
)
def test_offsets_of_other_groups_do_not_expire(group: Group) -> None:
    assert expiration_condition(group) is None


@pytest.mark.parametrize(
    ("offset", "since_ms", "expiration_ms"),
    [
        (OffsetAndMetadata(1, -1, "", 1_000), None, 101_000),
        (OffsetAndMetadata(1, -1, "", 1_000), 500, 100_500),
        (OffsetAndMetadata(1, -1, "", 1_000), 3_000, 103_000),
        (OffsetAndMetadata(1, -1, "", 1_000, 7_000), None, 7_000),
        (OffsetAndMetadata(1, -1, "", 1_000, 700_000), 500, 700_000),
    ],
    ids=["since its commit", "since before", "since after", "soon", "late"],
)
def test_offset_expires_at_its_expiration_time_and_not_before(
    offset: OffsetAndMetadata, since_ms: int | None, expiration_ms: int
) -> None:
    condition = ExpirationCondition(frozenset(), since_ms)
    assert expired_partitions([(P, offset)], condition, expiration_ms - 1, RETENTION_MS) == []
    assert expired_partitions([(P, offset)], condition, expiration_ms, RETENTION_MS) == [P]
    assert expired_partitions(
        [(P, offset), (Q, offset)],
        ExpirationCondition(frozenset({"orders"}), since_ms),
        expiration_ms,
        RETENTION_MS,
    ) == [Q]


# In the shard.


def new_simulation() -> GroupSimulation:
    simulation = GroupSimulation(offsets_retention_ms=RETENTION_MS, offsets_check_interval_ms=CHECK_MS)
    simulation.move()  # schedules the first check with these settings
    return simulation


def commit(
    simulation: GroupSimulation,
    *partitions: TopicPartition,
    group_id: str = "g",
    expire_ms: int | None = None,
    **producer: int,
) -> None:
    offset = OffsetAndMetadata(1, -1, "", simulation.now.wall_ms, expire_ms)
    simulation.submit(
        CommitOffsets(group_id, -1, "", None, dict.fromkeys(partitions, offset), **producer), "commit"
    )


def kept(simulation: GroupSimulation, group_id: str = "g") -> set[TopicPartition]:
    return set(simulation.shard.fetch_offsets(group_id, None, False)[1])


def test_expired_offsets_are_deleted_and_the_group_with_the_last() -> None:
    simulation = new_simulation()
    commit(simulation, P)
    simulation.commit_all()
    simulation.wait(50_000)
    commit(simulation, Q)
    simulation.commit_all()
    simulation.wait(60_000)
    assert kept(simulation) == {P, Q}, "deleted before the tombstone is committed"
    simulation.commit_all()
    assert kept(simulation) == {Q}
    simulation.wait(50_000)
    simulation.commit_all()
    assert simulation.shard.groups == {}
    assert simulation.reloaded().fetch_offsets("g", None, False)[1] == {}


def test_group_without_generation_gets_no_tombstone() -> None:
    simulation = new_simulation()
    commit(simulation, P)
    simulation.commit_all()
    simulation.wait(RETENTION_MS + CHECK_MS)
    assert [len(write.records) for write in simulation.writes] == [1]
    assert not isinstance(read_key(simulation.writes[0].records[0].key), GroupKey)


def test_client_can_set_the_expiration_time() -> None:
    simulation = new_simulation()
    commit(simulation, P, expire_ms=T0 + 15_000)
    commit(simulation, Q)
    simulation.commit_all()
    simulation.wait(CHECK_MS)
    simulation.commit_all()
    assert kept(simulation) == {P, Q}
    simulation.wait(CHECK_MS)
    simulation.commit_all()
    assert kept(simulation) == {Q}


def test_offset_with_pending_commit_does_not_expire() -> None:
    producers: tuple[dict[str, Any], ...] = ({}, {"producer_id": 7, "producer_epoch": 0})
    for producer in producers:
        simulation = new_simulation()
        commit(simulation, P)
        simulation.commit_all()
        simulation.wait(RETENTION_MS - 1)
        commit(simulation, P, **producer)
        if producer:
            simulation.commit_all()
        simulation.wait(CHECK_MS)
        assert len(simulation.writes) == (0 if producer else 1), "tombstone appended"
        simulation.commit_all()
        simulation.shard.replay_end_transaction_marker(7, commits=True)
        assert kept(simulation) == {P}


def test_failed_expiration_is_retried() -> None:
    simulation = new_simulation()
    commit(simulation, P)
    simulation.commit_all()
    simulation.wait(RETENTION_MS)
    simulation.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert simulation.shard.describe("g").state == "Empty"
    assert kept(simulation) == {P}
    simulation.wait(CHECK_MS)
    simulation.commit_all()
    assert simulation.shard.groups == {}


def test_expiration_of_many_offsets_runs_in_several_steps() -> None:
    simulation = new_simulation()
    count = 4
    for number in range(count):
        many = [TopicPartition("orders", each) for each in range(EXPIRATION_OFFSETS_MAX)]
        commit(simulation, *many, group_id=f"g{number}")
    simulation.commit_all()
    simulation.wait(RETENTION_MS - 1)
    assert simulation.writes == []
    per_run = []
    while len(simulation.writes) < count:
        before = len(simulation.writes)
        simulation.fire_next()
        per_run.append(len(simulation.writes) - before)
    assert per_run == [1] * count
    assert simulation.elapsed_ms < RETENTION_MS + CHECK_MS, "runs must follow each other closely"
    simulation.commit_all()
    assert simulation.shard.groups == {}
