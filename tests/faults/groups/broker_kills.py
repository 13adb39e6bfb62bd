"""kill -9 of the broker while groups rebalance and commit: no committed offset is lost.

Group members on raw connections join, sync, commit increasing offsets, and randomly leave or rejoin; one
group commits without members. Every partition is committed by one member only, so the committed offset must
be the last acknowledged one, or an unacknowledged later one. A member of the newest stored generation is
still a member after a restart. Old generations are always rejected.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from tests.faults.broker_partitions import create
from tests.faults.fault_report import FaultReport
from tests.support.broker import Broker
from tests.support.kio_requests import kio_requests
from tests.support.raw_connection import ConnectionEnded, RawConnection

TOPIC = "places"
GROUPS = 4
MEMBERS = 2
NO_GENERATION = -1
LOAD_SECONDS_MAX = 2.0
ANSWER_SECONDS_MAX = 60.0
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.segment.bytes": "16384",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.min.cleanable.ratio": "0.01",
}
COORDINATOR_NOT_READY = (14, 15, 16)
"""Error codes of a coordinator that is loading or not available."""
MEMBERSHIP_LOST = (22, 25)
"""Error codes of an old generation or an unknown member."""
REBALANCING = 27
MEMBER_ID_REQUIRED = 79

find_coordinator = kio_requests("find_coordinator", 2)
join_group = kio_requests("join_group", 5)
sync_group = kio_requests("sync_group", 3)
heartbeat = kio_requests("heartbeat", 3)
leave_group = kio_requests("leave_group", 1)
offset_commit = kio_requests("offset_commit", 7)
offset_fetch = kio_requests("offset_fetch", 5)


@dataclass
class MemberState:
    """A member's state and its one partition; it survives broker restarts."""

    group: str
    partition: int
    has_members: bool
    member: str = ""
    generation: int = NO_GENERATION
    """The last generation with a SyncGroup response."""
    is_syncing: bool = False
    """True while a SyncGroup has no response: a newer generation may be stored."""
    acknowledged: int = 0
    requested: int = 0
    commits: int = 0
    generations: int = 0
    refusals: int = 0
    problem: str | None = None

    def forget(self) -> None:
        """Forget the membership."""
        self.member, self.generation = "", NO_GENERATION


@dataclass
class MemberThread(threading.Thread):
    """A member that runs until the broker is gone."""

    address: str
    state: MemberState
    rng: random.Random = field(repr=False)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    __hash__ = threading.Thread.__hash__

    def run(self) -> None:
        try:
            with RawConnection(self.address) as connection:
                while self.state.problem is None:
                    self._live(connection)
        except (ConnectionEnded, OSError):
            return

    def _live(self, connection: RawConnection) -> None:
        state = self.state
        if state.has_members and not self._join(connection):
            return
        for _ in range(self.rng.randint(1, 30)):
            if not self._commit(connection):
                return
        if state.has_members and self.rng.random() < 0.3:
            self._fail_as_zombie(connection)
        if state.has_members and self.rng.random() < 0.2:
            request = leave_group.LeaveGroupRequest(group_id=state.group, member_id=state.member)
            state.forget()
            self._expect(connection.exchange(request).error_code, (0, *MEMBERSHIP_LOST), "leave")

    def _join(self, connection: RawConnection) -> bool:
        """Join and sync; return False if that must be retried."""
        state = self.state
        response = connection.exchange(_join_request(state))
        if response.error_code == MEMBER_ID_REQUIRED:
            state.member = response.member_id
            response = connection.exchange(_join_request(state))
        if not self._handle_error(response.error_code, "join"):
            return False
        state.member = response.member_id
        assignments = tuple(
            sync_group.SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"one")
            for member in response.members
        )
        request = sync_group.SyncGroupRequest(
            group_id=state.group,
            generation_id=response.generation_id,
            member_id=state.member,
            assignments=assignments,
        )
        state.is_syncing = True
        synced = connection.exchange(request)
        state.is_syncing = False
        if not self._handle_error(synced.error_code, "sync"):
            return False
        state.generation = response.generation_id
        state.generations += 1
        return True

    def _commit(self, connection: RawConnection) -> bool:
        """Commit the next offset; return False if the member must rejoin."""
        state = self.state
        state.requested = state.acknowledged + 1
        code = _commit_offset(connection, state, state.generation, state.requested)
        if not self._handle_error(code, "commit"):
            state.requested = state.acknowledged
            return False
        state.acknowledged = state.requested
        state.commits += 1
        return True

    def _fail_as_zombie(self, connection: RawConnection) -> None:
        code = _commit_offset(connection, self.state, self.state.generation - 1, 0)
        if code not in COORDINATOR_NOT_READY:
            self._expect(code, MEMBERSHIP_LOST, "commit of an old generation")
        self.state.refusals += 1

    def _handle_error(self, code: int, request_name: str) -> bool:
        """Return whether the code is NONE; else handle the error."""
        if code in MEMBERSHIP_LOST:
            self.state.forget()
        elif code in COORDINATOR_NOT_READY:
            time.sleep(0.05)
        else:
            self._expect(code, (0, REBALANCING), request_name)
        return code == 0

    def _expect(self, code: int, codes: tuple[int, ...], request_name: str) -> None:
        if code not in codes:
            self.state.problem = f"{request_name}: unexpected error {code}"


def _join_request(state: MemberState) -> object:
    return join_group.JoinGroupRequest(
        group_id=state.group,
        session_timeout=timedelta(seconds=30),
        rebalance_timeout=timedelta(seconds=1),
        member_id=state.member,
        group_instance_id=None,
        protocol_type="by hand",
        protocols=(join_group.JoinGroupRequestProtocol(name="one", metadata=b""),),
    )


def _commit_offset(connection: RawConnection, state: MemberState, generation: int, offset: int) -> int:
    """Commit; return the error code."""
    other_state = offset_commit.OffsetCommitRequestPartition(
        partition_index=state.partition, committed_offset=offset, committed_metadata=f"at {offset}"
    )
    request = offset_commit.OffsetCommitRequest(
        group_id=state.group,
        generation_id_or_member_epoch=generation,
        member_id=state.member,
        topics=(offset_commit.OffsetCommitRequestTopic(name=TOPIC, partitions=(other_state,)),),
    )
    return int(connection.exchange(request).topics[0].partitions[0].error_code)


def play(directory: Path, kills: int, seed: int) -> FaultReport:
    """Kill a broker with busy groups ``kills`` times."""
    report = FaultReport("kill -9 during commits and rebalances", seed)
    rng = random.Random(seed)
    states = [
        MemberState(f"group {group}", member, has_members=group > 0)
        for group in range(GROUPS)
        for member in range(MEMBERS)
    ]
    broker = Broker(directory, SETTINGS).start()
    try:
        with RawConnection(broker.bootstrap) as connection:
            report.check(create(connection, TOPIC, MEMBERS) == 0, "the topic was not created")
            _find_coordinators(connection, states)
        for number in range(kills):
            is_last = number == kills - 1
            _live(broker, states, rng, report, f"kill {number}", until_all_committed=is_last)
            broker.start()
            _check(broker, states, f"kill {number}", report)
        broker.stop()
        broker.start()
        _check(broker, states, "after a stop in order", report)
        broker.stop()
    finally:
        if broker.is_running:
            broker.kill_if_running()
    report.acknowledged = sum(state.commits for state in states)
    report.outcomes["commits acknowledged"] = report.acknowledged
    report.outcomes["generations synced"] = sum(state.generations for state in states)
    report.outcomes["commits of old generations refused"] = sum(state.refusals for state in states)
    report.check(all(state.commits for state in states), "a member never committed")
    return report


def _find_coordinators(connection: RawConnection, states: list[MemberState]) -> None:
    """Wait for the coordinators: the first request creates the offsets topic."""
    deadline = time.monotonic() + ANSWER_SECONDS_MAX
    for state in states:
        request = find_coordinator.FindCoordinatorRequest(key=state.group, key_type=0)
        while (
            connection.exchange(request).error_code in COORDINATOR_NOT_READY and time.monotonic() < deadline
        ):
            time.sleep(0.05)


def _live(
    broker: Broker,
    states: list[MemberState],
    rng: random.Random,
    report: FaultReport,
    when: str,
    *,
    until_all_committed: bool,
) -> None:
    """Run until a kill; the last time at least until every member has committed."""
    threads = [MemberThread(broker.bootstrap, state, random.Random(rng.random())) for state in states]
    for thread in threads:
        thread.start()
    time.sleep(0.3 + rng.random() * LOAD_SECONDS_MAX)
    deadline = time.monotonic() + (ANSWER_SECONDS_MAX if until_all_committed else 0.0)
    while time.monotonic() < deadline and not all(state.commits for state in states):
        time.sleep(0.05)
    broker.kill()
    report.faults += 1
    for thread in threads:
        thread.join(ANSWER_SECONDS_MAX)
        report.check(thread.state.problem is None, f"{when}: {thread.state.group}: {thread.state.problem}")


def _check(broker: Broker, states: list[MemberState], when: str, report: FaultReport) -> None:
    with RawConnection(broker.bootstrap) as connection:
        for state in states:
            committed_offset = _committed_offset(connection, state)
            report.check(
                committed_offset in (state.acknowledged, state.requested),
                f"{when}: {state.group}, partition {state.partition}: {committed_offset} is committed, "
                f"{state.acknowledged} was acknowledged, {state.requested} requested",
            )
            state.acknowledged = state.requested = committed_offset
        for state in _surely_stored(states):
            request = heartbeat.HeartbeatRequest(
                group_id=state.group, generation_id=state.generation, member_id=state.member
            )
            code = connection.exchange(request).error_code
            report.check(code == 0, f"{when}: {state.group} does not know its member: {code}")
            report.outcomes["members known after a start"] += 1
    for state in states:
        state.is_syncing = False


def _committed_offset(connection: RawConnection, state: MemberState) -> int:
    """Return the committed offset; zero if there is none."""
    topic = offset_fetch.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=(state.partition,))
    request = offset_fetch.OffsetFetchRequest(group_id=state.group, topics=(topic,))
    deadline = time.monotonic() + ANSWER_SECONDS_MAX
    while (
        response := connection.exchange(request)
    ).error_code in COORDINATOR_NOT_READY and time.monotonic() < deadline:
        time.sleep(0.05)
    if response.error_code:
        raise AssertionError(f"{state.group}: OffsetFetch failed with {response.error_code}")
    return max(int(response.topics[0].partitions[0].committed_offset), 0)


def _surely_stored(states: list[MemberState]) -> Iterator[MemberState]:
    """Yield members of the newest generation, where no newer one can be stored."""
    for state in states:
        group_states = [other_state for other_state in states if other_state.group == state.group]
        is_newest = state.generation == max(other.generation for other in group_states)
        if (
            state.generation != NO_GENERATION
            and is_newest
            and not any(other.is_syncing for other in group_states)
        ):
            yield state
