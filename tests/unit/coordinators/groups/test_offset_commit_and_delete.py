"""Commits and deletions of offsets as their clients see them, and what becomes of them in the log."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.simulation.group_simulation import GroupSimulation

from odradek.coordinators.effects import ProducerIdAndEpoch
from odradek.coordinators.groups.commands import (
    CommitOffsets,
    CommitOffsetsResult,
    DeleteGroup,
    DeleteOffsets,
    DeleteOffsetsResult,
    JoinGroup,
    OffsetAndMetadata,
    PartitionsDeleted,
    SyncGroup,
)
from odradek.coordinators.groups.deletion import BATCH_KEYS_BYTES_MAX, offsets_refusal, topic_errors
from odradek.coordinators.groups.group import Group, GroupState
from odradek.coordinators.groups.group_member import GroupMember
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.wire.consumer_protocol import ConsumerProtocolSubscription
from odradek.wire.message_codecs import encoder

P, Q, R = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("letters", 0)
NONE = ErrorCode.NONE
LOG_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.INVALID_PRODUCER_EPOCH: ErrorCode.INVALID_PRODUCER_EPOCH,
}


def ask(world: GroupSimulation, command: Any, *, writes: bool = True) -> Any:
    """The answer to a command; None if it waits."""
    to = object()
    world.submit(command, to)
    if writes:
        world.commit_all()
    return next(iter(world.answers_to(to)), None)


def commit(
    *partitions: TopicPartition, offset: int = 1, metadata: str = "", producer_id: int = -1
) -> CommitOffsets:
    said = OffsetAndMetadata(offset, -1, metadata, 0)
    return CommitOffsets("g", -1, "", None, dict.fromkeys(partitions, said), producer_id, 0)


def committed(world: GroupSimulation, *, stable: bool = False) -> dict[TopicPartition, int]:
    found = world.shard.fetch_offsets("g", None, stable)[1]
    return {partition: each.offset for partition, each in found.items()}


# CommitOffsets.


def test_one_offset_with_too_much_metadata_does_not_hold_up_the_others() -> None:
    world = GroupSimulation(offset_metadata_bytes_max=4)
    offsets = {
        P: OffsetAndMetadata(1, -1, "12345", 0),
        Q: OffsetAndMetadata(2, -1, "1234", 0),
        # Counted as Java does: two for each of these.
        R: OffsetAndMetadata(3, -1, "\N{GRINNING FACE}" * 3, 0),
    }
    answer = ask(world, CommitOffsets("g", -1, "", None, offsets))
    too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert answer == CommitOffsetsResult({P: too_large, Q: NONE, R: too_large})
    assert committed(world) == {Q: 2}
    for short in ("\N{GRINNING FACE}" * 2, "\N{EURO SIGN}" * 4):
        assert ask(world, commit(R, metadata=short)) == CommitOffsetsResult({R: NONE})


def test_a_commit_of_which_nothing_is_left_leaves_no_group_and_no_record() -> None:
    world = GroupSimulation(offset_metadata_bytes_max=4)
    refused = ask(world, commit(P, metadata="12345"), writes=False)
    assert refused == CommitOffsetsResult({P: ErrorCode.OFFSET_METADATA_TOO_LARGE})
    assert ask(world, commit(), writes=False) == CommitOffsetsResult({})
    assert (world.shard.groups, world.writes) == ({}, [])


@pytest.mark.parametrize(("code", "told"), LOG_ERRORS.items(), ids=lambda code: code.name)
def test_what_the_log_refuses_is_told_as_a_coordinators_error_and_nothing_is_changed(
    code: ErrorCode, told: ErrorCode
) -> None:
    world = GroupSimulation(offset_metadata_bytes_max=4)
    ask(world, commit(P, offset=5))
    offsets = {P: OffsetAndMetadata(6, -1, "", 0), Q: OffsetAndMetadata(6, -1, "12345", 0)}
    world.submit(CommitOffsets("g", -1, "", None, offsets), "late")
    world.refuse(code)
    assert world.answers_to("late") == [
        CommitOffsetsResult({P: told, Q: ErrorCode.OFFSET_METADATA_TOO_LARGE})
    ]
    assert committed(world, stable=True) == {P: 5}


def test_of_commits_under_way_together_the_last_in_the_log_stays() -> None:
    world = GroupSimulation()
    for offset in (1, 2, 3):
        world.submit(commit(P, offset=offset), offset)
    assert committed(world) == {}
    world.commit()
    world.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    world.commit()
    assert committed(world, stable=True) == {P: 3}
    answers = [world.answers_to(offset)[0].errors[P] for offset in (1, 2, 3)]
    assert answers == [NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE, NONE]


def test_only_commits_of_transactions_are_written_in_the_name_of_a_producer() -> None:
    world = GroupSimulation()
    world.submit(commit(P), "plain")
    world.submit(commit(P, producer_id=0), "in a transaction")
    assert [write.producer for write in world.writes] == [None, ProducerIdAndEpoch(0, 0)]


def test_a_commit_of_a_generation_that_is_over_is_refused_and_changes_nothing() -> None:
    world = GroupSimulation(initial_rebalance_delay_ms=0)
    join = JoinGroup("g", "", None, "c", "/h", 10_000, 20_000, "consumer", (("range", b""),), False, False)
    world.submit(join, "first")
    world.fire_next()
    member = world.answers_to("first")[0].member
    for generation, expected in ((1, ErrorCode.REBALANCE_IN_PROGRESS), (0, ErrorCode.ILLEGAL_GENERATION)):
        said = {P: OffsetAndMetadata(1, -1, "", 0)}
        answer = ask(world, CommitOffsets("g", generation, member, None, said, -1, 0), writes=False)
        assert answer == CommitOffsetsResult({P: expected})
    assert world.writes == []
    world.submit(SyncGroup("g", 1, member, None, None, None, {member: b"all"}), "sync")
    world.commit_all()
    for generation in (0, 2):
        assert ask(world, CommitOffsets("g", generation, member, None, said, -1, 0)) == CommitOffsetsResult(
            {P: ErrorCode.ILLEGAL_GENERATION}
        )
    assert committed(world) == {}
    assert ask(world, CommitOffsets("g", 1, member, None, said, -1, 0)) == CommitOffsetsResult({P: NONE})
    assert committed(world) == {P: 1}


def test_a_commit_that_took_too_long_counts_once_it_is_in_the_log() -> None:
    world = GroupSimulation()
    world.submit(commit(P), "slow")
    world.time_out()
    assert world.answers_to("slow") == [CommitOffsetsResult({P: ErrorCode.REQUEST_TIMED_OUT})]
    assert committed(world) == {P: 1}


def test_who_waits_for_a_commit_or_a_deletion_when_the_partition_goes_is_answered() -> None:
    world = GroupSimulation()
    ask(world, commit(P))
    world.submit(commit(P), "commit")
    world.submit(DeleteOffsets("g", (Q, P)), "offsets")
    world.move()
    assert world.answers_to("commit") == [CommitOffsetsResult({P: ErrorCode.NOT_COORDINATOR})]
    told = dict.fromkeys([Q, P], ErrorCode.NOT_COORDINATOR)
    assert world.answers_to("offsets") == [DeleteOffsetsResult(NONE, told)]
    world.submit(DeleteGroup("g"), "group")
    world.move()
    assert world.answers_to("group") == [ErrorCode.NOT_COORDINATOR]
    assert committed(world) == {P: 1}


def test_offsets_of_a_transaction_are_written_in_its_name_and_wait_for_its_end() -> None:
    world = GroupSimulation()
    world.submit(commit(P, producer_id=7), "commit")
    assert world.writes[0].producer == ProducerIdAndEpoch(7, 0)
    assert world.shard.fetch_offsets("g", [P], True)[1][P].error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    world.commit()
    assert world.answers_to("commit") == [CommitOffsetsResult({P: NONE})]
    assert world.shard.fetch_offsets("g", [P], True)[1][P].error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert committed(world) == {}
    world.end_transaction(7, commits=True)
    assert committed(world, stable=True) == {P: 1}


def test_an_open_transaction_is_ended_by_whoever_leads_the_partition_then() -> None:
    world = GroupSimulation()
    ask(world, commit(P, producer_id=7))
    world.move()
    assert committed(world) == {}
    world.end_transaction(7, commits=True)
    assert committed(world) == {P: 1}


# Deletions.


def subscription(*topics: str) -> bytes:
    return b"\0\0" + encoder(ConsumerProtocolSubscription, 0)(ConsumerProtocolSubscription(list(topics)))


def group_of(state: GroupState, protocol_type: str = "consumer", metadata: bytes = b"") -> Group:
    group = Group("g", 0, state=state, generation=1, protocol_type=protocol_type, protocol="range")
    group.add(GroupMember("a", None, "c", "/h", 1, 1, (("range", metadata),)), protocol_type)
    group.note_subscriptions()
    return group


WITH_MEMBERS = [GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE, GroupState.STABLE]


@pytest.mark.parametrize("state", WITH_MEMBERS)
def test_consumers_keep_the_offsets_of_topics_they_subscribe_to(state: GroupState) -> None:
    group = group_of(state, metadata=subscription("orders"))
    assert offsets_refusal(group) is NONE
    subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert topic_errors(group, [P, R]) == {P: subscribed, R: NONE}
    unreadable = group_of(state, metadata=b"nobody can read this")
    assert topic_errors(unreadable, [P, R]) == {P: subscribed, R: subscribed}


@pytest.mark.parametrize("state", WITH_MEMBERS)
def test_members_that_are_no_consumers_keep_all_offsets(state: GroupState) -> None:
    assert offsets_refusal(group_of(state, "connect")) is ErrorCode.NON_EMPTY_GROUP


def test_offsets_are_deleted_and_those_that_never_were_are_no_error() -> None:
    world = GroupSimulation()
    ask(world, commit(P, Q))
    assert ask(world, DeleteOffsets("g", (P, R))) == DeleteOffsetsResult(NONE, {P: NONE, R: NONE})
    assert committed(world) == {Q: 1}
    assert ask(world, DeleteOffsets("g", (R,)), writes=False) == DeleteOffsetsResult(NONE, {R: NONE})
    assert ask(world, DeleteOffsets("g", ()), writes=False) == DeleteOffsetsResult(NONE, {})
    assert ask(world, DeleteOffsets("h", (P,))) == DeleteOffsetsResult(ErrorCode.GROUP_ID_NOT_FOUND, {})


def test_the_last_offset_takes_a_group_without_members_along() -> None:
    world = GroupSimulation()
    ask(world, commit(P))
    ask(world, DeleteOffsets("g", (P,)))
    assert world.shard.groups == {}


def test_a_group_that_somebody_is_about_to_join_stays() -> None:
    world = GroupSimulation()
    ask(world, commit(P))
    ask(
        world, JoinGroup("g", "", None, "c", "/h", 10_000, 60_000, "consumer", (("range", b""),), True, False)
    )
    ask(world, DeleteOffsets("g", (P,)))
    assert world.shard.groups["g"].state is GroupState.EMPTY
    assert ask(world, DeleteGroup("g")) is NONE
    assert world.shard.groups == {}
    assert not [timer for timer in world.timers if hasattr(timer, "group")]


@pytest.mark.parametrize("command", [DeleteOffsets("g", (P,)), DeleteGroup("g")], ids=["offsets", "group"])
def test_a_deletion_takes_what_is_under_way_before_it_and_open_transactions_along(command: Any) -> None:
    world = GroupSimulation()
    ask(world, commit(P, offset=1, producer_id=7))
    world.submit(commit(P, offset=2), "before")
    assert ask(world, command) is not None
    world.end_transaction(7, commits=True)
    assert world.answers_to("before") == [CommitOffsetsResult({P: NONE})]
    assert committed(world) == {}
    assert world.shard.groups == {}
    assert world.reloaded().groups.get("g") is None or world.reloaded().groups["g"].offsets.is_empty


def test_a_commit_behind_a_deletion_stays() -> None:
    world = GroupSimulation()
    ask(world, commit(P, Q))
    world.submit(DeleteOffsets("g", (P,)), "deletion")
    world.submit(commit(P, offset=2), "behind")
    world.commit_all()
    assert committed(world) == {P: 2, Q: 1}


@pytest.mark.parametrize("code", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE])
def test_what_the_log_does_not_let_go_is_still_there(code: ErrorCode) -> None:
    world = GroupSimulation()
    ask(world, commit(P))
    told = ErrorCode.UNKNOWN_SERVER_ERROR
    told = ErrorCode.COORDINATOR_NOT_AVAILABLE if code is ErrorCode.NOT_ENOUGH_REPLICAS else told
    world.submit(DeleteOffsets("g", (P, Q)), "offsets")
    world.refuse(code)
    assert world.answers_to("offsets") == [DeleteOffsetsResult(NONE, {P: told, Q: told})]
    world.submit(DeleteGroup("g"), "group")
    assert ask(world, DeleteGroup("g"), writes=False) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    again = DeleteOffsetsResult(ErrorCode.COORDINATOR_NOT_AVAILABLE, {})
    assert ask(world, DeleteOffsets("g", (P,)), writes=False) == again
    world.refuse(code)
    assert world.answers_to("group") == [told]
    assert committed(world) == {P: 1}
    assert ask(world, commit(P, offset=2)) == CommitOffsetsResult({P: NONE})


def world_with_very_many_offsets() -> GroupSimulation:
    world = GroupSimulation()
    name = "t" * 200
    ask(world, commit(*(TopicPartition(name, number) for number in range(BATCH_KEYS_BYTES_MAX // 200 + 1))))
    return world


def test_very_many_offsets_go_in_several_batches_and_one_answer_comes_of_it() -> None:
    world = world_with_very_many_offsets()
    count = len(committed(world))
    world.submit(DeleteGroup("g"), "group")
    assert len(world.writes) == 2
    assert sum(len(write.entries) for write in world.writes) == count
    for write in world.writes:
        assert sum(len(entry.key) for entry in write.entries) <= BATCH_KEYS_BYTES_MAX
    world.commit()
    assert world.answers_to("group") == []
    world.commit()
    assert world.answers_to("group") == [NONE]
    assert world.shard.groups == {}


@pytest.mark.parametrize("refused", [0, 1])
def test_of_very_many_offsets_those_that_could_not_go_are_still_there(refused: int) -> None:
    world = world_with_very_many_offsets()
    world.submit(DeleteGroup("g"), "group")
    left = len(world.writes[refused].entries)
    for number in range(2):
        if number == refused:
            world.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
        else:
            world.commit()
    assert world.answers_to("group") == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert len(committed(world)) == left
    assert world.shard.groups["g"].state is GroupState.EMPTY


def test_offsets_go_with_their_topics_whoever_committed_them() -> None:
    world = GroupSimulation()
    ask(world, commit(P, R))
    ask(world, commit(P)._replace(group="h"))
    assert ask(world, PartitionsDeleted((P, Q))) == 2
    assert committed(world) == {R: 1}
    assert list(world.shard.groups) == ["g"]
    assert ask(world, PartitionsDeleted((P, Q)), writes=False) == 0
