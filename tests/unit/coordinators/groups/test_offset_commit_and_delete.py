"""Commits and deletions of offsets: results and records."""

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
from odradek.coordinators.groups.deletion import (
    BATCH_KEYS_BYTES_MAX,
    subscription_errors,
    validate_delete_offsets,
)
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


def submit(simulation: GroupSimulation, command: Any, *, commits: bool = True) -> Any:
    """Return the response to a command; None if it is pending."""
    to = object()
    simulation.submit(command, to)
    if commits:
        simulation.commit_all()
    return next(iter(simulation.answers_to(to)), None)


def commit(
    *partitions: TopicPartition, offset: int = 1, metadata: str = "", producer_id: int = -1
) -> CommitOffsets:
    offset_and_metadata = OffsetAndMetadata(offset, -1, metadata, 0)
    return CommitOffsets("g", -1, "", None, dict.fromkeys(partitions, offset_and_metadata), producer_id, 0)


def committed(simulation: GroupSimulation, *, stable: bool = False) -> dict[TopicPartition, int]:
    offsets = simulation.shard.fetch_offsets("g", None, stable)[1]
    return {partition: each.offset for partition, each in offsets.items()}


# Commits.


def test_offset_with_too_large_metadata_does_not_block_others() -> None:
    simulation = GroupSimulation(offset_metadata_bytes_max=4)
    offsets = {
        P: OffsetAndMetadata(1, -1, "12345", 0),
        Q: OffsetAndMetadata(2, -1, "1234", 0),
        # Counted in UTF-16 code units as in Java: two for each character.
        R: OffsetAndMetadata(3, -1, "\N{GRINNING FACE}" * 3, 0),
    }
    result = submit(simulation, CommitOffsets("g", -1, "", None, offsets))
    too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert result == CommitOffsetsResult({P: too_large, Q: NONE, R: too_large})
    assert committed(simulation) == {Q: 2}
    for short in ("\N{GRINNING FACE}" * 2, "\N{EURO SIGN}" * 4):
        assert submit(simulation, commit(R, metadata=short)) == CommitOffsetsResult({R: NONE})


def test_commit_without_valid_offsets_creates_no_group() -> None:
    simulation = GroupSimulation(offset_metadata_bytes_max=4)
    result = submit(simulation, commit(P, metadata="12345"), commits=False)
    assert result == CommitOffsetsResult({P: ErrorCode.OFFSET_METADATA_TOO_LARGE})
    assert submit(simulation, commit(), commits=False) == CommitOffsetsResult({})
    assert (simulation.shard.groups, simulation.writes) == ({}, [])


@pytest.mark.parametrize(("code", "error"), LOG_ERRORS.items(), ids=lambda code: code.name)
def test_failed_append_returns_a_coordinator_error_and_changes_nothing(
    code: ErrorCode, error: ErrorCode
) -> None:
    simulation = GroupSimulation(offset_metadata_bytes_max=4)
    submit(simulation, commit(P, offset=5))
    offsets = {P: OffsetAndMetadata(6, -1, "", 0), Q: OffsetAndMetadata(6, -1, "12345", 0)}
    simulation.submit(CommitOffsets("g", -1, "", None, offsets), "late")
    simulation.refuse(code)
    assert simulation.answers_to("late") == [
        CommitOffsetsResult({P: error, Q: ErrorCode.OFFSET_METADATA_TOO_LARGE})
    ]
    assert committed(simulation, stable=True) == {P: 5}


def test_last_of_concurrent_commits_in_the_log_wins() -> None:
    simulation = GroupSimulation()
    for offset in (1, 2, 3):
        simulation.submit(commit(P, offset=offset), offset)
    assert committed(simulation) == {}
    simulation.commit()
    simulation.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    simulation.commit()
    assert committed(simulation, stable=True) == {P: 3}
    errors = [simulation.answers_to(offset)[0].errors[P] for offset in (1, 2, 3)]
    assert errors == [NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE, NONE]


def test_only_transactional_commits_are_appended_with_a_producer() -> None:
    simulation = GroupSimulation()
    simulation.submit(commit(P), "plain")
    simulation.submit(commit(P, producer_id=0), "transactional")
    assert [write.producer for write in simulation.writes] == [None, ProducerIdAndEpoch(0, 0)]


def test_commit_of_an_old_generation_is_rejected_and_changes_nothing() -> None:
    simulation = GroupSimulation(initial_rebalance_delay_ms=0)
    join = JoinGroup("g", "", None, "c", "/h", 10_000, 20_000, "consumer", (("range", b""),), False, False)
    simulation.submit(join, "first")
    simulation.fire_next()
    member_id = simulation.answers_to("first")[0].member_id
    for generation, expected in ((1, ErrorCode.REBALANCE_IN_PROGRESS), (0, ErrorCode.ILLEGAL_GENERATION)):
        offsets = {P: OffsetAndMetadata(1, -1, "", 0)}
        result = submit(
            simulation, CommitOffsets("g", generation, member_id, None, offsets, -1, 0), commits=False
        )
        assert result == CommitOffsetsResult({P: expected})
    assert simulation.writes == []
    simulation.submit(SyncGroup("g", 1, member_id, None, None, None, {member_id: b"all"}), "sync")
    simulation.commit_all()
    for generation in (0, 2):
        assert submit(
            simulation, CommitOffsets("g", generation, member_id, None, offsets, -1, 0)
        ) == CommitOffsetsResult({P: ErrorCode.ILLEGAL_GENERATION})
    assert committed(simulation) == {}
    assert submit(simulation, CommitOffsets("g", 1, member_id, None, offsets, -1, 0)) == CommitOffsetsResult(
        {P: NONE}
    )
    assert committed(simulation) == {P: 1}


def test_timed_out_commit_takes_effect_once_it_is_committed() -> None:
    simulation = GroupSimulation()
    simulation.submit(commit(P), "slow")
    simulation.time_out()
    assert simulation.answers_to("slow") == [CommitOffsetsResult({P: ErrorCode.REQUEST_TIMED_OUT})]
    assert committed(simulation) == {P: 1}


def test_pending_commit_and_deletion_get_a_reply_on_unload() -> None:
    simulation = GroupSimulation()
    submit(simulation, commit(P))
    simulation.submit(commit(P), "commit")
    simulation.submit(DeleteOffsets("g", (Q, P)), "offsets")
    simulation.move()
    assert simulation.answers_to("commit") == [CommitOffsetsResult({P: ErrorCode.NOT_COORDINATOR})]
    errors = dict.fromkeys([Q, P], ErrorCode.NOT_COORDINATOR)
    assert simulation.answers_to("offsets") == [DeleteOffsetsResult(NONE, errors)]
    simulation.submit(DeleteGroup("g"), "group")
    simulation.move()
    assert simulation.answers_to("group") == [ErrorCode.NOT_COORDINATOR]
    assert committed(simulation) == {P: 1}


def test_transactional_offsets_are_pending_until_the_transaction_ends() -> None:
    simulation = GroupSimulation()
    simulation.submit(commit(P, producer_id=7), "commit")
    assert simulation.writes[0].producer == ProducerIdAndEpoch(7, 0)
    assert simulation.shard.fetch_offsets("g", [P], True)[1][P].error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    simulation.commit()
    assert simulation.answers_to("commit") == [CommitOffsetsResult({P: NONE})]
    assert simulation.shard.fetch_offsets("g", [P], True)[1][P].error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert committed(simulation) == {}
    simulation.end_transaction(7, commits=True)
    assert committed(simulation, stable=True) == {P: 1}


def test_open_transaction_is_ended_by_the_new_leader() -> None:
    simulation = GroupSimulation()
    submit(simulation, commit(P, producer_id=7))
    simulation.move()
    assert committed(simulation) == {}
    simulation.end_transaction(7, commits=True)
    assert committed(simulation) == {P: 1}


# Deletions.


def subscription(*topics: str) -> bytes:
    return b"\0\0" + encoder(ConsumerProtocolSubscription, 0)(ConsumerProtocolSubscription(list(topics)))


def group_of(state: GroupState, protocol_type: str = "consumer", metadata: bytes = b"") -> Group:
    group = Group("g", 0, state=state, generation=1, protocol_type=protocol_type, protocol="range")
    group.add(GroupMember("a", None, "c", "/h", 1, 1, (("range", metadata),)), protocol_type)
    group.update_subscriptions()
    return group


WITH_MEMBERS = [GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE, GroupState.STABLE]


@pytest.mark.parametrize("state", WITH_MEMBERS)
def test_offsets_of_subscribed_topics_cannot_be_deleted(state: GroupState) -> None:
    group = group_of(state, metadata=subscription("orders"))
    assert validate_delete_offsets(group) is NONE
    subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert subscription_errors(group, [P, R]) == {P: subscribed, R: NONE}
    malformed = group_of(state, metadata=b"malformed")
    assert subscription_errors(malformed, [P, R]) == {P: subscribed, R: subscribed}


@pytest.mark.parametrize("state", WITH_MEMBERS)
def test_offsets_of_non_consumer_members_cannot_be_deleted(state: GroupState) -> None:
    assert validate_delete_offsets(group_of(state, "connect")) is ErrorCode.NON_EMPTY_GROUP


def test_deleting_offsets_ignores_partitions_without_one() -> None:
    simulation = GroupSimulation()
    submit(simulation, commit(P, Q))
    assert submit(simulation, DeleteOffsets("g", (P, R))) == DeleteOffsetsResult(NONE, {P: NONE, R: NONE})
    assert committed(simulation) == {Q: 1}
    assert submit(simulation, DeleteOffsets("g", (R,)), commits=False) == DeleteOffsetsResult(NONE, {R: NONE})
    assert submit(simulation, DeleteOffsets("g", ()), commits=False) == DeleteOffsetsResult(NONE, {})
    assert submit(simulation, DeleteOffsets("h", (P,))) == DeleteOffsetsResult(
        ErrorCode.GROUP_ID_NOT_FOUND, {}
    )


def test_empty_group_is_deleted_with_its_last_offset() -> None:
    simulation = GroupSimulation()
    submit(simulation, commit(P))
    submit(simulation, DeleteOffsets("g", (P,)))
    assert simulation.shard.groups == {}


def test_group_with_pending_member_is_not_deleted_with_its_last_offset() -> None:
    simulation = GroupSimulation()
    submit(simulation, commit(P))
    submit(
        simulation,
        JoinGroup("g", "", None, "c", "/h", 10_000, 60_000, "consumer", (("range", b""),), True, False),
    )
    submit(simulation, DeleteOffsets("g", (P,)))
    assert simulation.shard.groups["g"].state is GroupState.EMPTY
    assert submit(simulation, DeleteGroup("g")) is NONE
    assert simulation.shard.groups == {}
    assert not [timer for timer in simulation.timers if hasattr(timer, "group_id")]


@pytest.mark.parametrize("command", [DeleteOffsets("g", (P,)), DeleteGroup("g")], ids=["offsets", "group"])
def test_deletion_includes_pending_commits_and_open_transactions(command: Any) -> None:
    simulation = GroupSimulation()
    submit(simulation, commit(P, offset=1, producer_id=7))
    simulation.submit(commit(P, offset=2), "before")
    assert submit(simulation, command) is not None
    simulation.end_transaction(7, commits=True)
    assert simulation.answers_to("before") == [CommitOffsetsResult({P: NONE})]
    assert committed(simulation) == {}
    assert simulation.shard.groups == {}
    assert simulation.reloaded().groups.get("g") is None or simulation.reloaded().groups["g"].offsets.is_empty


def test_commit_after_a_deletion_is_kept() -> None:
    simulation = GroupSimulation()
    submit(simulation, commit(P, Q))
    simulation.submit(DeleteOffsets("g", (P,)), "deletion")
    simulation.submit(commit(P, offset=2), "after")
    simulation.commit_all()
    assert committed(simulation) == {P: 2, Q: 1}


@pytest.mark.parametrize("code", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE])
def test_failed_deletion_keeps_group_and_offsets(code: ErrorCode) -> None:
    simulation = GroupSimulation()
    submit(simulation, commit(P))
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    if code is ErrorCode.NOT_ENOUGH_REPLICAS:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    simulation.submit(DeleteOffsets("g", (P, Q)), "offsets")
    simulation.refuse(code)
    assert simulation.answers_to("offsets") == [DeleteOffsetsResult(NONE, {P: error, Q: error})]
    simulation.submit(DeleteGroup("g"), "group")
    assert submit(simulation, DeleteGroup("g"), commits=False) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    unavailable = DeleteOffsetsResult(ErrorCode.COORDINATOR_NOT_AVAILABLE, {})
    assert submit(simulation, DeleteOffsets("g", (P,)), commits=False) == unavailable
    simulation.refuse(code)
    assert simulation.answers_to("group") == [error]
    assert committed(simulation) == {P: 1}
    assert submit(simulation, commit(P, offset=2)) == CommitOffsetsResult({P: NONE})


def simulation_with_many_offsets() -> GroupSimulation:
    simulation = GroupSimulation()
    name = "t" * 200
    submit(
        simulation,
        commit(*(TopicPartition(name, number) for number in range(BATCH_KEYS_BYTES_MAX // 200 + 1))),
    )
    return simulation


def test_deletion_of_many_offsets_uses_several_batches_and_one_reply() -> None:
    simulation = simulation_with_many_offsets()
    count = len(committed(simulation))
    simulation.submit(DeleteGroup("g"), "group")
    assert len(simulation.writes) == 2
    assert sum(len(write.records) for write in simulation.writes) == count
    for write in simulation.writes:
        assert sum(len(record.key) for record in write.records) <= BATCH_KEYS_BYTES_MAX
    simulation.commit()
    assert simulation.answers_to("group") == []
    simulation.commit()
    assert simulation.answers_to("group") == [NONE]
    assert simulation.shard.groups == {}


@pytest.mark.parametrize("failed", [0, 1])
def test_partly_failed_deletion_of_many_offsets_keeps_the_rest(failed: int) -> None:
    simulation = simulation_with_many_offsets()
    simulation.submit(DeleteGroup("g"), "group")
    remaining = len(simulation.writes[failed].records)
    for number in range(2):
        if number == failed:
            simulation.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
        else:
            simulation.commit()
    assert simulation.answers_to("group") == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert len(committed(simulation)) == remaining
    assert simulation.shard.groups["g"].state is GroupState.EMPTY


def test_offsets_of_deleted_partitions_are_removed_from_all_groups() -> None:
    simulation = GroupSimulation()
    submit(simulation, commit(P, R))
    submit(simulation, commit(P)._replace(group_id="h"))
    assert submit(simulation, PartitionsDeleted((P, Q))) == 2
    assert committed(simulation) == {R: 1}
    assert list(simulation.shard.groups) == ["g"]
    assert submit(simulation, PartitionsDeleted((P, Q)), commits=False) == 0
