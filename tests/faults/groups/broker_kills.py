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
COMING = (14, 15, 16)
"""Error codes of a coordinator that is loading or not available."""
ANEW = (22, 25)
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
class Place:
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
    asked: int = 0
    commits: int = 0
    generations: int = 0
    refusals: int = 0
    problem: str | None = None

    def forget(self) -> None:
        """Forget the membership."""
        self.member, self.generation = "", NO_GENERATION


@dataclass
class Life(threading.Thread):
    """A member that runs until the broker is gone."""

    address: str
    place: Place
    rng: random.Random = field(repr=False)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    __hash__ = threading.Thread.__hash__

    def run(self) -> None:
        try:
            with RawConnection(self.address) as connection:
                while self.place.problem is None:
                    self._live(connection)
        except (ConnectionEnded, OSError):
            return

    def _live(self, connection: RawConnection) -> None:
        place = self.place
        if place.has_members and not self._join(connection):
            return
        for _ in range(self.rng.randint(1, 30)):
            if not self._commit(connection):
                return
        if place.has_members and self.rng.random() < 0.3:
            self._fail_as_zombie(connection)
        if place.has_members and self.rng.random() < 0.2:
            request = leave_group.LeaveGroupRequest(group_id=place.group, member_id=place.member)
            place.forget()
            self._expect(connection.exchange(request).error_code, (0, *ANEW), "leave")

    def _join(self, connection: RawConnection) -> bool:
        """Join and sync; return False if that must be retried."""
        place = self.place
        answer = connection.exchange(_join_request(place))
        if answer.error_code == MEMBER_ID_REQUIRED:
            place.member = answer.member_id
            answer = connection.exchange(_join_request(place))
        if not self._is_fine(answer.error_code, "join"):
            return False
        place.member = answer.member_id
        assignments = tuple(
            sync_group.SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"one")
            for member in answer.members
        )
        request = sync_group.SyncGroupRequest(
            group_id=place.group,
            generation_id=answer.generation_id,
            member_id=place.member,
            assignments=assignments,
        )
        place.is_syncing = True
        synced = connection.exchange(request)
        place.is_syncing = False
        if not self._is_fine(synced.error_code, "sync"):
            return False
        place.generation = answer.generation_id
        place.generations += 1
        return True

    def _commit(self, connection: RawConnection) -> bool:
        """Commit the next offset; return False if the member must rejoin."""
        place = self.place
        place.asked = place.acknowledged + 1
        code = _committed(connection, place, place.generation, place.asked)
        if not self._is_fine(code, "commit"):
            place.asked = place.acknowledged
            return False
        place.acknowledged = place.asked
        place.commits += 1
        return True

    def _fail_as_zombie(self, connection: RawConnection) -> None:
        code = _committed(connection, self.place, self.place.generation - 1, 0)
        if code not in COMING:
            self._expect(code, ANEW, "commit of an old generation")
        self.place.refusals += 1

    def _is_fine(self, code: int, what: str) -> bool:
        """Return whether the code is NONE; else handle the error."""
        if code in ANEW:
            self.place.forget()
        elif code in COMING:
            time.sleep(0.05)
        else:
            self._expect(code, (0, REBALANCING), what)
        return code == 0

    def _expect(self, code: int, codes: tuple[int, ...], what: str) -> None:
        if code not in codes:
            self.place.problem = f"{what} was answered with {code}"


def _join_request(place: Place) -> object:
    return join_group.JoinGroupRequest(
        group_id=place.group,
        session_timeout=timedelta(seconds=30),
        rebalance_timeout=timedelta(seconds=1),
        member_id=place.member,
        group_instance_id=None,
        protocol_type="by hand",
        protocols=(join_group.JoinGroupRequestProtocol(name="one", metadata=b""),),
    )


def _committed(connection: RawConnection, place: Place, generation: int, offset: int) -> int:
    """Commit; return the error code."""
    one = offset_commit.OffsetCommitRequestPartition(
        partition_index=place.partition, committed_offset=offset, committed_metadata=f"at {offset}"
    )
    request = offset_commit.OffsetCommitRequest(
        group_id=place.group,
        generation_id_or_member_epoch=generation,
        member_id=place.member,
        topics=(offset_commit.OffsetCommitRequestTopic(name=TOPIC, partitions=(one,)),),
    )
    return int(connection.exchange(request).topics[0].partitions[0].error_code)


def play(directory: Path, kills: int, seed: int) -> FaultReport:
    """Kill a broker with busy groups ``kills`` times."""
    report = FaultReport("kill -9 during commits and rebalances", seed)
    rng = random.Random(seed)
    places = [
        Place(f"group {group}", member, has_members=group > 0)
        for group in range(GROUPS)
        for member in range(MEMBERS)
    ]
    broker = Broker(directory, SETTINGS).start()
    try:
        with RawConnection(broker.bootstrap) as connection:
            report.check(create(connection, TOPIC, MEMBERS) == 0, "the topic was not created")
            _find_coordinators(connection, places)
        for number in range(kills):
            is_last = number == kills - 1
            _live(broker, places, rng, report, f"kill {number}", until_all_committed=is_last)
            broker.start()
            _check(broker, places, f"kill {number}", report)
        broker.stop()
        broker.start()
        _check(broker, places, "after a stop in order", report)
        broker.stop()
    finally:
        if broker.is_running:
            broker.kill_if_running()
    report.acknowledged = sum(place.commits for place in places)
    report.outcomes["commits acknowledged"] = report.acknowledged
    report.outcomes["generations synced"] = sum(place.generations for place in places)
    report.outcomes["commits of old generations refused"] = sum(place.refusals for place in places)
    report.check(all(place.commits for place in places), "somebody never committed")
    return report


def _find_coordinators(connection: RawConnection, places: list[Place]) -> None:
    """Wait for the coordinators: the first request creates the offsets topic."""
    deadline = time.monotonic() + ANSWER_SECONDS_MAX
    for place in places:
        request = find_coordinator.FindCoordinatorRequest(key=place.group, key_type=0)
        while connection.exchange(request).error_code in COMING and time.monotonic() < deadline:
            time.sleep(0.05)


def _live(
    broker: Broker,
    places: list[Place],
    rng: random.Random,
    report: FaultReport,
    when: str,
    *,
    until_all_committed: bool,
) -> None:
    """Run until a kill; the last time at least until every member has committed."""
    lives = [Life(broker.bootstrap, place, random.Random(rng.random())) for place in places]
    for life in lives:
        life.start()
    time.sleep(0.3 + rng.random() * LOAD_SECONDS_MAX)
    deadline = time.monotonic() + (ANSWER_SECONDS_MAX if until_all_committed else 0.0)
    while time.monotonic() < deadline and not all(place.commits for place in places):
        time.sleep(0.05)
    broker.kill()
    report.faults += 1
    for life in lives:
        life.join(ANSWER_SECONDS_MAX)
        report.check(life.place.problem is None, f"{when}: {life.place.group}: {life.place.problem}")


def _check(broker: Broker, places: list[Place], when: str, report: FaultReport) -> None:
    with RawConnection(broker.bootstrap) as connection:
        for place in places:
            found = _fetched(connection, place)
            report.check(
                found in (place.acknowledged, place.asked),
                f"{when}: {place.group}, partition {place.partition}: {found} is committed, "
                f"{place.acknowledged} was acknowledged, {place.asked} asked for",
            )
            place.acknowledged = place.asked = found
        for place in _surely_stored(places):
            request = heartbeat.HeartbeatRequest(
                group_id=place.group, generation_id=place.generation, member_id=place.member
            )
            code = connection.exchange(request).error_code
            report.check(code == 0, f"{when}: {place.group} does not know its member: {code}")
            report.outcomes["members known after a start"] += 1
    for place in places:
        place.is_syncing = False


def _fetched(connection: RawConnection, place: Place) -> int:
    """Return the committed offset; zero if there is none."""
    wanted = offset_fetch.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=(place.partition,))
    request = offset_fetch.OffsetFetchRequest(group_id=place.group, topics=(wanted,))
    deadline = time.monotonic() + ANSWER_SECONDS_MAX
    while (answer := connection.exchange(request)).error_code in COMING and time.monotonic() < deadline:
        time.sleep(0.05)
    if answer.error_code:
        raise AssertionError(f"{place.group}: offsets were answered with {answer.error_code}")
    return max(int(answer.topics[0].partitions[0].committed_offset), 0)


def _surely_stored(places: list[Place]) -> Iterator[Place]:
    """Yield members of the newest generation, where no newer one can be stored."""
    for place in places:
        others = [one for one in places if one.group == place.group]
        is_newest = place.generation == max(other.generation for other in others)
        if place.generation != NO_GENERATION and is_newest and not any(other.is_syncing for other in others):
            yield place
