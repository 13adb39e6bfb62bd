"""What holds whatever happens: commands in any order, timers, writes that fail or are late, moves.

The clients here are of the worst kind: they join twice, sync for others' generations, forget to answer, and
share instance ids.
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
from odradek.coordinators.groups.group import Group, GroupState
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
HARMLESS = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.INVALID_SESSION_TIMEOUT,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NON_EMPTY_GROUP,
    ErrorCode.GROUP_ID_NOT_FOUND,
}
"""Answers of requests that are refused: such a request changes nothing."""

who = st.integers(0, 7)
instances = st.sampled_from([None, None, None, "i", "j"])
joins = st.tuples(
    st.just("join"),
    who,
    instances,
    st.sampled_from(PROTOCOLS),
    st.sampled_from([5_000, 10_000, 10_000, 40_000]),
    st.booleans(),
    st.booleans(),
)
first_joins = st.tuples(
    st.just("join"),
    st.just(-1),
    instances,
    st.sampled_from(PROTOCOLS[:3]),
    st.just(10_000),
    st.booleans(),
    st.booleans(),
)
COMMITTERS = st.sampled_from([-1, -1, 5, 6])
"""Consumers, and producers in their transactions."""
BEHIND = st.sampled_from([0, 1])
"""Generations between that of a group and that of a member who was away."""
STEPS: list[tuple[int, st.SearchStrategy[tuple[Any, ...]]]] = [
    (4, first_joins),
    (3, joins),
    (4, st.tuples(st.just("rejoin"), who)),
    (4, st.tuples(st.just("sync"), who, st.sampled_from([0, 0, 0, 1]))),
    (4, st.just(("settle",))),
    (3, st.tuples(st.just("heartbeat"), who, instances)),
    (1, st.tuples(st.just("leave"), st.lists(st.tuples(who, instances), min_size=1, max_size=2))),
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
    (1, st.sampled_from([("delete",), ("forget", 0), ("forget", 1), ("delete_offsets", 0, 1)])),
    (1, st.tuples(st.just("members_max"), st.sampled_from([2, 3, 100]))),
]
steps = st.one_of([step for weight, step in STEPS for _ in range(weight)])


class Clients:
    """Carries out steps, and keeps what is needed to judge them."""

    def __init__(self) -> None:
        self.world = GroupSimulation(initial_rebalance_delay_ms=1_000, offsets_retention_ms=700_000)
        self.commands: list[Any] = []
        self.last_join: dict[str, JoinGroup] = {}
        self.ids: list[str] = []
        self.judged = 0
        self.generation = 0
        self.was_refused = False
        self.told: dict[int, set[bytes]] = defaultdict(set)
        """What leaders' assignments members were told of, by generation."""
        self.owners: dict[tuple[int, bytes], str] = {}
        self.log_size = 0
        self.zombies: set[int] = set()
        """Commits of those who are no members, or not of this generation."""

    @property
    def group(self) -> Group | None:
        return self.world.shard.groups.get(GROUP)

    def step(self, word: str, *given: Any) -> None:
        before = self.group
        getattr(self, f"_{word}")(*given)
        self._hear()
        if self.group is not before and before is not None:
            self.generation = 0
        if self.group is None:
            # Whoever comes now begins a group of its own, with the first generation.
            self.told.clear()
            self.owners.clear()
        self._check()

    # Steps.

    def _submit(self, command: Any) -> None:
        to, before, answered = len(self.commands), durable_and_volatile(self.world), len(self.world.answers)
        self.commands.append(command)
        self.world.submit(command, to)
        if any(whom == to and is_refusal(answer) for whom, answer in self.world.answers[answered:]):
            assert durable_and_volatile(self.world) == before

    def _id(self, number: int) -> str:
        """Of members mostly, but also of those who are none any more."""
        ids = [*(self.group.members if self.group else ()), *self.ids[-2:], "nobody-0"]
        return ids[number % len(ids)]

    def _join(
        self,
        number: int,
        instance: str | None,
        protocols: tuple[tuple[str, bytes], ...],
        session_ms: int,
        requires_known_member_id: bool,
        supports_skipping_assignment: bool,
    ) -> None:
        member = "" if number < 0 else self._id(number)
        if member and instance is None and "-" in member and member.split("-")[0] in ("i", "j"):
            instance = member.split("-")[0]
        self._submit(
            JoinGroup(
                GROUP,
                member,
                instance,
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
        group, member = self.group, self._id(number)
        found = group and group.members.get(member)
        protocols = found.protocols if found else PROTOCOLS[1]
        self._join(number, found.instance if found else None, protocols, 10_000, True, True)

    def _sync(self, number: int, behind: int) -> None:
        group, member = self.group, self._id(number)
        token = str(len(self.commands)).encode()
        everybody = list(group.members) if group else []
        self._submit(
            SyncGroup(
                GROUP,
                (group.generation if group else 0) - behind,
                member,
                None,
                None,
                None,
                {name: token + b":" + str(index).encode() for index, name in enumerate(everybody)},
            )
        )

    def _settle(self) -> None:
        """All do what they should, for once."""
        count = len(self.group.members) if self.group else 0
        for number in range(count):
            self._rejoin(number)
        if self.group and self.group.state is GroupState.PREPARING_REBALANCE:
            self.world.fire_next()
        for number in range(len(self.group.members) if self.group else 0):
            self._sync(number, 0)

    def _heartbeat(self, number: int, instance: str | None) -> None:
        generation = self.group.generation if self.group else 0
        self._submit(Heartbeat(GROUP, generation, self._id(number), instance))

    def _leave(self, leavers: list[tuple[int, str | None]]) -> None:
        self._submit(
            LeaveGroup(
                GROUP, tuple(LeavingMember(self._id(number), instance) for number, instance in leavers)
            )
        )

    def _offset(self, number: int, partition: int, producer_id: int, behind: int) -> None:
        group, member = self.group, "" if number < 0 else self._id(number)
        generation = group.generation - behind if group and member else -1
        members = group.members if group else {}
        is_member = member in members and group is not None and generation == group.generation
        if not is_member and (generation >= 0 or (members and producer_id < 0)):
            self.zombies.add(len(self.commands))
        offset = OffsetAndMetadata(len(self.commands), -1, "", self.world.now.wall_ms)
        offsets = {TopicPartition("orders", partition): offset}
        self._submit(CommitOffsets(GROUP, generation, member, None, offsets, producer_id, 0))

    def _end_transaction(self, producer_id: int, commits: bool) -> None:
        self.world.end_transaction(producer_id, commits=commits)

    def _delete(self) -> None:
        self._submit(DeleteGroup(GROUP))

    def _delete_offsets(self, *partitions: int) -> None:
        self._submit(DeleteOffsets(GROUP, tuple(TopicPartition("orders", one) for one in partitions)))

    def _forget(self, partition: int) -> None:
        self._submit(PartitionsDeleted((TopicPartition("orders", partition),)))

    def _fire(self) -> None:
        self.world.fire_next()

    def _wait(self, ms: int) -> None:
        self.world.wait(ms)

    def _commit(self) -> None:
        if self.world.writes:
            self.world.commit()

    def _refuse(self, code: ErrorCode) -> None:
        if self.world.writes:
            self.was_refused = True
            self.world.refuse(code)

    def _time_out(self) -> None:
        self.was_refused |= bool(self.world.writes)
        self.world.time_out()

    def _move(self) -> None:
        self.world.move()
        self.was_refused = False

    def _members_max(self, count: int) -> None:
        self.world.set(members_max=count)

    # What clients hear.

    def _hear(self) -> None:
        for to, answer in self.world.answers[self.judged :]:
            if isinstance(answer, JoinGroupResult) and answer.member and answer.member not in self.ids:
                self.ids.append(answer.member)
            if isinstance(answer, SyncGroupResult) and answer.error is ErrorCode.NONE and answer.assignment:
                self._hear_assignment(self.commands[to], answer.assignment)
            if isinstance(answer, CommitOffsetsResult):
                assert not (to in self.zombies and ErrorCode.NONE in answer.errors.values())
        self.judged = len(self.world.answers)

    def _hear_assignment(self, command: SyncGroup, assignment: bytes) -> None:
        token = assignment.partition(b":")[0]
        self.told[command.generation].add(token)
        owner = command.member.split("-")[0]
        owner = owner if owner in ("i", "j") else command.member
        assert self.owners.setdefault((command.generation, assignment), owner) == owner
        assert len(self.told[command.generation]) == 1

    # What always holds.

    def _check(self) -> None:
        assert max(Counter(to for to, _ in self.world.answers).values(), default=1) == 1
        assert durable(self.world.shard) == durable(self.world.reloaded())
        if len(self.world.committed) != self.log_size:
            self.log_size = len(self.world.committed)
            told = self.world.shard.fetch_offsets(GROUP, None, False)[1]
            assert {one: each.offset for one, each in told.items()} == counting(self.world.committed)
        if self.group is not None:
            self._check_group(self.group)
        else:
            assert not [timer for timer in self.world.timers if hasattr(timer, "group")]

    def _check_group(self, group: Group) -> None:
        assert group.generation >= self.generation
        self.generation = group.generation
        check_books(group)
        check_timers(group, self.world)
        if group.state is GroupState.STABLE and not self.world.writes and not self.was_refused:
            assert group.stored is not None
            expected = group.to_store({name: each.assignment for name, each in group.members.items()})
            assert expected._replace(state_timestamp_ms=0) == group.stored._replace(state_timestamp_ms=0)


def durable(shard: GroupCoordinatorShard) -> Any:
    """What the log knows of groups: how they were stored, and their offsets, in open transactions too."""
    known = {
        name: (group.stored, dict(group.offsets), in_transactions(group))
        for name, group in shard.groups.items()
    }
    return {name: each for name, each in known.items() if each != (None, {}, {})}


def counting(log: list[Any]) -> dict[TopicPartition, int]:
    """The last offset of each partition in the log, leaving out transactions that are open or aborted."""
    found: dict[TopicPartition, int] = {}
    for place, one in enumerate(log):
        key = read_key(one[0].key) if isinstance(one[0], CoordinatorRecord) else None
        if isinstance(key, OffsetKey):
            ends = (end[1] for end in log[place:] if end[0] == one[1])
            if one[1] < 0 or next(ends, False):
                partition = TopicPartition(key.topic, key.partition)
                if one[0].value is None:
                    found.pop(partition, None)
                else:
                    found[partition] = read_offset(one[0].value).offset
    return found


def in_transactions(group: Group) -> Any:
    return {
        producer_id: {partition: placed.offset for partition, placed in written.items()}
        for producer_id, written in group.offsets._in_transactions.items()
    }


def durable_and_volatile(world: GroupSimulation) -> Any:
    """All there is to know of the groups, and of what was asked for."""
    return repr(sorted(world.shard.groups.items())), dict(world.timers), list(world.writes)


def is_refusal(answer: Any) -> bool:
    match answer:
        case JoinGroupResult(code) | SyncGroupResult(code) | DeleteOffsetsResult(code):
            return code in HARMLESS
        case LeaveGroupResult(code, errors):
            return code in HARMLESS or set(errors) <= HARMLESS
        case CommitOffsetsResult(errors):
            return set(errors.values()) <= HARMLESS
    return answer in HARMLESS


def check_books(group: Group) -> None:
    members = group.members
    assert all(name == member.member for name, member in members.items())
    assert group.joining_count == sum(member.awaits_join for member in members.values())
    assert group.static_members == {each.instance: name for name, each in members.items() if each.instance}
    assert group.leader in members if members else group.leader is None
    assert not group.pending & set(members)
    assert group.unsynced <= set(members)
    if members:
        spoken = [{name for name, _ in member.protocols} for member in members.values()]
        assert set.intersection(*spoken)
    assert bool(members) or group.state in (GroupState.EMPTY, GroupState.PREPARING_REBALANCE, GroupState.DEAD)
    assert not members or group.state not in (GroupState.EMPTY, GroupState.DEAD)
    assert (group.storing is not None) <= (group.state is GroupState.COMPLETING_REBALANCE)


def check_timers(group: Group, world: GroupSimulation) -> None:
    expected: set[Any] = {SessionTimer(GROUP, name) for name in [*group.members, *group.pending]}
    if group.state is GroupState.PREPARING_REBALANCE:
        expected.add(JoinTimer(GROUP))
    if group.unsynced:
        expected.add(SyncTimer(GROUP))
    assert {timer for timer in world.timers if hasattr(timer, "group")} == expected


@settings(max_examples=2 * settings.default.max_examples)
@given(st.lists(steps, min_size=60, max_size=120))
def test_books_timers_answers_and_the_log_agree_whatever_happens(script: list[tuple[Any, ...]]) -> None:
    clients = Clients()
    for step in script:
        clients.step(*step)
    clients.world.move()
    counts = Counter(to for to, _ in clients.world.answers)
    assert counts == Counter(range(len(clients.commands)))
