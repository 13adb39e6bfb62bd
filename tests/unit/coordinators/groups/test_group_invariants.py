"""Invariants of groups under any sequence of commands, timers, failed and late appends, and moves.

The clients join twice, sync in other generations, do not respond, and share group instance ids.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.simulation.group_simulation import GroupSimulation

from odradek.coordinators.effects import CoordinatorRecord
from odradek.coordinators.groups.commands import (
    CommitOffsets,
    CommitOffsetsResult,
    DeleteGroup,
    DeleteOffsets,
    DeleteOffsetsResult,
    Heartbeat,
    JoinGroup,
    JoinGroupResult,
    LeaveGroup,
    LeaveGroupResult,
    LeavingMember,
    OffsetAndMetadata,
    PartitionsDeleted,
    SyncGroup,
    SyncGroupResult,
)
from odradek.coordinators.groups.group import Group, GroupState, stored_group
from odradek.coordinators.groups.membership.rebalance import JoinTimer, SessionTimer, SyncTimer
from odradek.coordinators.groups.records import OffsetKey, read_key, read_offset
from odradek.coordinators.groups.shard import GroupCoordinatorShard
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition

GROUP = "g"
CODES = [
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
]
PROTOCOLS = [
    (("range", b"1"),),
    (("range", b"2"), ("sticky", b"2")),
    (("sticky", b"3"), ("range", b"3")),
    (("sticky", b"4"),),
    (),
]
REJECTIONS = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.INVALID_SESSION_TIMEOUT,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NON_EMPTY_GROUP,
    ErrorCode.GROUP_ID_NOT_FOUND,
}
"""Errors of rejected requests, which change nothing."""

member_indexes = st.integers(0, 7)
instance_ids = st.sampled_from([None, None, None, "i", "j"])
joins = st.tuples(
    st.just("join"),
    member_indexes,
    instance_ids,
    st.sampled_from(PROTOCOLS),
    st.sampled_from([5_000, 10_000, 10_000, 40_000]),
    st.booleans(),
    st.booleans(),
)
first_joins = st.tuples(
    st.just("join"),
    st.just(-1),
    instance_ids,
    st.sampled_from(PROTOCOLS[:3]),
    st.just(10_000),
    st.booleans(),
    st.booleans(),
)
COMMITTERS = st.sampled_from([-1, -1, 5, 6])
"""Consumers, and transactional producers."""
BEHIND = st.sampled_from([0, 1])
"""Difference between the generations of a group and of a member that was away."""
STEPS: list[tuple[int, st.SearchStrategy[tuple[Any, ...]]]] = [
    (4, first_joins),
    (3, joins),
    (4, st.tuples(st.just("rejoin"), member_indexes)),
    (4, st.tuples(st.just("sync"), member_indexes, st.sampled_from([0, 0, 0, 1]))),
    (4, st.just(("settle",))),
    (3, st.tuples(st.just("heartbeat"), member_indexes, instance_ids)),
    (
        1,
        st.tuples(
            st.just("leave"), st.lists(st.tuples(member_indexes, instance_ids), min_size=1, max_size=2)
        ),
    ),
    (4, st.just(("fire",))),
    (2, st.tuples(st.just("wait"), st.sampled_from([0, 1_000, 6_000]))),
    (8, st.just(("commit",))),
    (1, st.tuples(st.just("refuse"), st.sampled_from(CODES))),
    (1, st.just(("time_out",))),
    (1, st.just(("move",))),
    (
        8,
        st.tuples(
            st.just("offset"), st.integers(-1, 7), st.sampled_from([0, 0, 1, 1, 2]), COMMITTERS, BEHIND
        ),
    ),
    (1, st.tuples(st.just("end_transaction"), st.sampled_from([5, 6]), st.booleans())),
    (
        1,
        st.sampled_from(
            [("delete",), ("delete_partition", 0), ("delete_partition", 1), ("delete_offsets", 0, 1)]
        ),
    ),
    (1, st.tuples(st.just("members_max"), st.sampled_from([2, 3, 100]))),
]
steps = st.one_of([step for weight, step in STEPS for _ in range(weight)])


class Clients:
    """Executes steps, and keeps what is needed to check them."""

    def __init__(self) -> None:
        self.simulation = GroupSimulation(initial_rebalance_delay_ms=1_000, offsets_retention_ms=700_000)
        self.commands: list[Any] = []
        self.ids: list[str] = []
        self.checked_responses = 0
        self.generation = 0
        self.has_failed_append = False
        self.assignments: dict[int, set[bytes]] = defaultdict(set)
        """Assignments that members received, by generation."""
        self.owners: dict[tuple[int, bytes], str] = {}
        self.log_size = 0
        self.invalid_commits: set[int] = set()
        """Commits without a member, or of another generation."""

    @property
    def group(self) -> Group | None:
        return self.simulation.shard.groups.get(GROUP)

    def step(self, name: str, *arguments: Any) -> None:
        before = self.group
        getattr(self, f"_{name}")(*arguments)
        self._check_responses()
        if self.group is not before and before is not None:
            self.generation = 0
        if self.group is None:
            # The next member starts a new group, with the first generation.
            self.assignments.clear()
            self.owners.clear()
        self._check()

    # Steps.

    def _submit(self, command: Any) -> None:
        to, before, answered = len(self.commands), snapshot(self.simulation), len(self.simulation.answers)
        self.commands.append(command)
        self.simulation.submit(command, to)
        if any(
            handle == to and is_rejection(response) for handle, response in self.simulation.answers[answered:]
        ):
            assert snapshot(self.simulation) == before

    def _id(self, number: int) -> str:
        """Return the id of a member, a former member or an unknown member."""
        ids = [*(self.group.members if self.group else ()), *self.ids[-2:], "unknown-0"]
        return ids[number % len(ids)]

    def _join(
        self,
        number: int,
        instance_id: str | None,
        protocols: tuple[tuple[str, bytes], ...],
        session_ms: int,
        requires_known_member_id: bool,
        supports_skipping_assignment: bool,
    ) -> None:
        member_id = "" if number < 0 else self._id(number)
        if member_id and instance_id is None and "-" in member_id and member_id.split("-")[0] in ("i", "j"):
            instance_id = member_id.split("-")[0]
        self._submit(
            JoinGroup(
                GROUP,
                member_id,
                instance_id,
                "c",
                "/host",
                session_ms,
                20_000,
                "consumer",
                protocols,
                requires_known_member_id,
                supports_skipping_assignment,
            )
        )

    def _rejoin(self, number: int) -> None:
        group, member_id = self.group, self._id(number)
        current = group and group.members.get(member_id)
        protocols = current.protocols if current else PROTOCOLS[1]
        self._join(number, current.instance_id if current else None, protocols, 10_000, True, True)

    def _sync(self, number: int, behind: int) -> None:
        group, member_id = self.group, self._id(number)
        token = str(len(self.commands)).encode()
        member_ids = list(group.members) if group else []
        self._submit(
            SyncGroup(
                GROUP,
                (group.generation if group else 0) - behind,
                member_id,
                None,
                None,
                None,
                {each: token + b":" + str(index).encode() for index, each in enumerate(member_ids)},
            )
        )

    def _settle(self) -> None:
        """Let all members rejoin and sync."""
        count = len(self.group.members) if self.group else 0
        for number in range(count):
            self._rejoin(number)
        if self.group and self.group.state is GroupState.PREPARING_REBALANCE:
            self.simulation.fire_next()
        for number in range(len(self.group.members) if self.group else 0):
            self._sync(number, 0)

    def _heartbeat(self, number: int, instance_id: str | None) -> None:
        generation = self.group.generation if self.group else 0
        self._submit(Heartbeat(GROUP, generation, self._id(number), instance_id))

    def _leave(self, leaving: list[tuple[int, str | None]]) -> None:
        self._submit(
            LeaveGroup(
                GROUP, tuple(LeavingMember(self._id(number), instance_id) for number, instance_id in leaving)
            )
        )

    def _offset(self, number: int, partition: int, producer_id: int, behind: int) -> None:
        group, member_id = self.group, "" if number < 0 else self._id(number)
        generation = group.generation - behind if group and member_id else -1
        members = group.members if group else {}
        is_member = member_id in members and group is not None and generation == group.generation
        if not is_member and (generation >= 0 or (members and producer_id < 0)):
            self.invalid_commits.add(len(self.commands))
        offset = OffsetAndMetadata(len(self.commands), -1, "", self.simulation.now.wall_ms)
        offsets = {TopicPartition("orders", partition): offset}
        self._submit(CommitOffsets(GROUP, generation, member_id, None, offsets, producer_id, 0))

    def _end_transaction(self, producer_id: int, commits: bool) -> None:
        self.simulation.end_transaction(producer_id, commits=commits)

    def _delete(self) -> None:
        self._submit(DeleteGroup(GROUP))

    def _delete_offsets(self, *partitions: int) -> None:
        self._submit(DeleteOffsets(GROUP, tuple(TopicPartition("orders", number) for number in partitions)))

    def _delete_partition(self, partition: int) -> None:
        self._submit(PartitionsDeleted((TopicPartition("orders", partition),)))

    def _fire(self) -> None:
        self.simulation.fire_next()

    def _wait(self, ms: int) -> None:
        self.simulation.wait(ms)

    def _commit(self) -> None:
        if self.simulation.writes:
            self.simulation.commit()

    def _refuse(self, code: ErrorCode) -> None:
        if self.simulation.writes:
            self.has_failed_append = True
            self.simulation.refuse(code)

    def _time_out(self) -> None:
        self.has_failed_append |= bool(self.simulation.writes)
        self.simulation.time_out()

    def _move(self) -> None:
        self.simulation.move()
        self.has_failed_append = False

    def _members_max(self, count: int) -> None:
        self.simulation.set(members_max=count)

    # Responses.

    def _check_responses(self) -> None:
        for to, response in self.simulation.answers[self.checked_responses :]:
            if isinstance(response, JoinGroupResult) and response.member_id not in ("", *self.ids):
                self.ids.append(response.member_id)
            is_synced = isinstance(response, SyncGroupResult) and response.error is ErrorCode.NONE
            if is_synced and response.assignment:
                self._check_assignment(self.commands[to], response.assignment)
            if isinstance(response, CommitOffsetsResult):
                assert not (to in self.invalid_commits and ErrorCode.NONE in response.errors.values())
        self.checked_responses = len(self.simulation.answers)

    def _check_assignment(self, command: SyncGroup, assignment: bytes) -> None:
        token = assignment.partition(b":")[0]
        self.assignments[command.generation].add(token)
        owner = command.member_id.split("-")[0]
        owner = owner if owner in ("i", "j") else command.member_id
        assert self.owners.setdefault((command.generation, assignment), owner) == owner
        assert len(self.assignments[command.generation]) == 1

    # Invariants.

    def _check(self) -> None:
        assert max(Counter(to for to, _ in self.simulation.answers).values(), default=1) == 1
        assert durable(self.simulation.shard) == durable(self.simulation.reloaded())
        if len(self.simulation.committed) != self.log_size:
            self.log_size = len(self.simulation.committed)
            fetched = self.simulation.shard.fetch_offsets(GROUP, None, False)[1]
            offsets = {partition: each.offset for partition, each in fetched.items()}
            assert offsets == effective_offsets(self.simulation.committed)
        if self.group is not None:
            self._check_group(self.group)
        else:
            assert not [timer for timer in self.simulation.timers if hasattr(timer, "group_id")]

    def _check_group(self, group: Group) -> None:
        assert group.generation >= self.generation
        self.generation = group.generation
        check_state(group)
        check_timers(group, self.simulation)
        if group.state is GroupState.STABLE and not self.simulation.writes and not self.has_failed_append:
            assert group.stored is not None
            expected = stored_group(group, {name: each.assignment for name, each in group.members.items()})
            assert expected._replace(state_timestamp_ms=0) == group.stored._replace(state_timestamp_ms=0)


commits = st.tuples(
    st.dictionaries(
        st.builds(TopicPartition, st.sampled_from(["orders", "paid"]), st.integers(0, 2)),
        st.builds(
            OffsetAndMetadata,
            st.integers(0, 9),
            st.integers(-1, 3),
            st.sampled_from(["", "é", "too long"]),
            st.just(1),
            st.sampled_from([None, None, -1, 5]),
        ),
    ),
    st.sampled_from([-1, -1, 7, 8]),
    st.booleans(),
)
"""Offsets, the producer of the transaction, if any, and whether it commits."""


@given(st.lists(commits, max_size=5))
def test_offsets_replayed_when_committed_equal_those_read_from_the_log(history: list[Any]) -> None:
    simulation = GroupSimulation(offset_metadata_bytes_max=4)
    for offsets, producer_id, ends in history:
        simulation.submit(CommitOffsets(GROUP, -1, "", None, offsets, producer_id, 0), None)
        simulation.commit_all()
        if ends and producer_id >= 0:
            simulation.end_transaction(producer_id, commits=True)
        loaded = simulation.reloaded()
        assert durable(simulation.shard) == durable(loaded)
        assert simulation.shard._open_transactions == loaded._open_transactions


def durable(shard: GroupCoordinatorShard) -> Any:
    """Return the stored groups and their offsets, including those of open transactions."""
    known = {
        name: (group.stored, dict(group.offsets), in_transactions(group))
        for name, group in shard.groups.items()
    }
    return {name: each for name, each in known.items() if each != (None, {}, {})}


def effective_offsets(log: list[Any]) -> dict[TopicPartition, int]:
    """Return the last offset of each partition in the log, without open and aborted transactions."""
    offsets: dict[TopicPartition, int] = {}
    for position, item in enumerate(log):
        key = read_key(item[0].key) if isinstance(item[0], CoordinatorRecord) else None
        if isinstance(key, OffsetKey):
            ends = (end[1] for end in log[position:] if end[0] == item[1])
            if item[1] < 0 or next(ends, False):
                partition = TopicPartition(key.topic, key.partition)
                if item[0].value is None:
                    offsets.pop(partition, None)
                else:
                    offsets[partition] = read_offset(item[0].value).offset
    return offsets


def in_transactions(group: Group) -> Any:
    return {
        producer_id: {partition: sequenced.offset for partition, sequenced in offsets.items()}
        for producer_id, offsets in group.offsets._in_transactions.items()
    }


def snapshot(simulation: GroupSimulation) -> Any:
    """Return the groups, timers and appends."""
    return repr(sorted(simulation.shard.groups.items())), dict(simulation.timers), list(simulation.writes)


def is_rejection(response: Any) -> bool:
    match response:
        case JoinGroupResult(code) | SyncGroupResult(code) | DeleteOffsetsResult(code):
            return code in REJECTIONS
        case LeaveGroupResult(code, errors):
            return code in REJECTIONS or set(errors) <= REJECTIONS
        case CommitOffsetsResult(errors):
            return set(errors.values()) <= REJECTIONS
    return response in REJECTIONS


def check_state(group: Group) -> None:
    members = group.members
    assert all(name == member.member_id for name, member in members.items())
    assert group.joining_count == sum(member.awaits_join for member in members.values())
    assert group.static_members == {
        each.instance_id: name for name, each in members.items() if each.instance_id
    }
    assert group.leader in members if members else group.leader is None
    assert not group.pending_members & set(members)
    assert group.pending_sync_members <= set(members)
    if members:
        supported = [{name for name, _ in member.protocols} for member in members.values()]
        assert set.intersection(*supported)
    assert bool(members) or group.state in (GroupState.EMPTY, GroupState.PREPARING_REBALANCE, GroupState.DEAD)
    assert not members or group.state not in (GroupState.EMPTY, GroupState.DEAD)
    assert (group.pending_assignment is not None) <= (group.state is GroupState.COMPLETING_REBALANCE)


def check_timers(group: Group, simulation: GroupSimulation) -> None:
    expected: set[Any] = {SessionTimer(GROUP, name) for name in [*group.members, *group.pending_members]}
    if group.state is GroupState.PREPARING_REBALANCE:
        expected.add(JoinTimer(GROUP))
    if group.pending_sync_members:
        expected.add(SyncTimer(GROUP))
    assert {timer for timer in simulation.timers if hasattr(timer, "group_id")} == expected


@settings(max_examples=2 * settings().max_examples)
@given(st.lists(steps, min_size=60, max_size=120))
def test_group_invariants_hold_for_any_sequence_of_events(script: list[tuple[Any, ...]]) -> None:
    clients = Clients()
    for step in script:
        clients.step(*step)
    clients.simulation.move()
    counts = Counter(to for to, _ in clients.simulation.answers)
    assert counts == Counter(range(len(clients.commands)))
