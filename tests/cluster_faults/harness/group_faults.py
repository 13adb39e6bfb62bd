"""A large group on a cluster: half of it crashes, zombies commit, its coordinator is killed.

Members are asyncio consumers, many in a process. Their journals are checked by ``tests/faults/groups``.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.cluster_faults.harness.scene import OFFSETS_TOPIC, SPREAD, Scene
from tests.cluster_faults.harness.senders import send_all
from tests.faults.groups import journal
from tests.faults.groups.checker import Observed, check_history
from tests.mixed.harness.coordinators import partition_of
from tests.support.kio_requests import kio_requests
from tests.support.raw_connection import RawConnection

PROCESSES = 4
MEMBERS_SHORT, PARTITIONS_SHORT = 32, 48
MEMBERS_LONG, PARTITIONS_LONG = 500, 500
RECORDS_PER_PARTITION = 4
JOIN_SECONDS_MAX = 240.0
END_SECONDS_MAX = 60.0
ZOMBIES_MAX = 40
ZOMBIE_OFFSET = 0
"""An accepted commit of a zombie would move a partition back."""
REFUSALS = frozenset({22, 25, 27})
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS."""
NOT_READY = frozenset({14, 15, 16})

offset_commit = kio_requests("offset_commit", 7)
offset_fetch = kio_requests("offset_fetch", 5)


class Membership(NamedTuple):
    """Under this a member may commit, until the next generation."""

    member_id: str
    generation: int
    partitions: Sequence[int]


class LargeGroup:
    """Processes of members, by the number of their first member."""

    def __init__(self, scene: Scene, members: int, partitions: int) -> None:
        self.scene = scene
        self.name = f"{scene.topic}-large-{scene.report.faults}"
        self.partitions = partitions
        self.directory = scene.cluster.home / self.name
        self.directory.mkdir()
        self._share = members // PROCESSES
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._records = 0
        self.observed: list[Observed] = []

    def start(self, *firsts: int) -> None:
        script = Path(__file__).with_name("group_members.py")
        for first in firsts:
            command = [sys.executable, str(script), self.scene.cluster.bootstrap, self.name, self.name]
            command += [str(self.directory), str(first), str(self._share)]
            with (self.directory / f"{first}.txt").open("wb") as output:
                self._processes[first] = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
                )

    def firsts(self, processes: Iterable[int]) -> list[int]:
        return [number * self._share for number in processes]

    def crash(self, *firsts: int) -> None:
        for first in firsts:
            self._processes[first].kill()
        for first in firsts:
            self._processes.pop(first).wait()

    def stop(self) -> None:
        """Let all members leave."""
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        for first, process in self._processes.items():
            try:
                status: int | None = process.wait(END_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                status = None
            output = (self.directory / f"{first}.txt").read_text(errors="replace")[-600:]
            self.scene.report.check(status == 0, f"wrong-exit: {status} of members {first}: {output}")

    def clear(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()

    # Records and offsets.

    def write(self) -> None:
        """Write some records to each partition."""
        values = [str(number) for number in range(RECORDS_PER_PARTITION * self.partitions)]
        send_all(self.scene.cluster.bootstrap, self.name, range(self.partitions), values)
        self._records += RECORDS_PER_PARTITION

    @property
    def stored(self) -> dict[int, int]:
        return dict.fromkeys(range(self.partitions), self._records)

    def wait_until_owned(self) -> None:
        """Wait until the members that live own all partitions, each some, and nobody else any."""

        def is_owned() -> bool:
            owned = [
                journal.owned_last(journal.read(self.directory / f"{number}.jsonl"))
                for first in self._processes
                for number in range(first, first + self._share)
            ]
            partitions = sorted(partition for each in owned for partition in each)
            return all(owned) and partitions == list(range(self.partitions))

        self._wait(is_owned, "the partitions must be owned")

    def wait_until_committed(self) -> None:
        """Wait until all records are committed."""

        def is_committed() -> bool:
            self.observe()
            return bool(self.observed) and dict(self.observed[-1].offsets) == self.stored

        self._wait(is_committed, "all records must be committed")

    def _wait(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + JOIN_SECONDS_MAX
        while not holds():
            for first, process in self._processes.items():
                output = self.directory / f"{first}.txt"
                assert process.poll() is None, f"members must live: {output.read_text()[-2000:]}"
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} within {JOIN_SECONDS_MAX} s")
            time.sleep(0.5)

    def observe(self) -> None:
        """Note the committed offsets, if the coordinator tells them."""
        asked_ns = time.monotonic_ns()
        with RawConnection(self.scene.cluster.address(self.coordinator())) as connection:
            response = connection.exchange(offset_fetch.OffsetFetchRequest(group_id=self.name, topics=None))
        if response.error_code == 0:
            offsets = {
                partition.partition_index: partition.committed_offset
                for topic in response.topics
                for partition in topic.partitions
                if partition.error_code == 0 and partition.committed_offset >= 0
            }
            self.observed.append(Observed(asked_ns, offsets))

    def coordinator(self) -> int:
        return self.scene.cluster.leader(OFFSETS_TOPIC, partition_of(self.name))

    # Zombies.

    def memberships(self, firsts: Iterable[int]) -> list[Membership]:
        """Return the last memberships of members that own partitions."""
        notes = [self.directory / f"{first + n}.membership" for first in firsts for n in range(self._share)]
        texts = [path.read_text() for path in notes if path.exists()]
        noted = [Membership(*json.loads(text)) for text in texts if text]
        return [membership for membership in noted if membership.partitions]

    def commit_as_zombies(self, zombies: Sequence[Membership]) -> None:
        """Commit under memberships of former generations: each must be refused."""
        with RawConnection(self.scene.cluster.address(self.coordinator())) as connection:
            for zombie in zombies[:ZOMBIES_MAX]:
                code = self._commit(connection, zombie)
                for violation in accepted_zombies(zombie, code):
                    self.scene.report.violate(violation)
                self.scene.report.outcomes["commits of zombies refused"] += code in REFUSALS

    def _commit(self, connection: RawConnection, zombie: Membership) -> int:
        partitions = tuple(
            offset_commit.OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=ZOMBIE_OFFSET, committed_metadata="zombie"
            )
            for partition in zombie.partitions
        )
        request = offset_commit.OffsetCommitRequest(
            group_id=self.name,
            generation_id_or_member_epoch=zombie.generation,
            member_id=zombie.member_id,
            topics=(offset_commit.OffsetCommitRequestTopic(name=self.name, partitions=partitions),),
        )
        deadline = time.monotonic() + END_SECONDS_MAX
        while True:
            response = connection.exchange(request)
            codes = {int(entry.error_code) for topic in response.topics for entry in topic.partitions}
            if not codes & NOT_READY or time.monotonic() > deadline:
                return min(codes)
            time.sleep(0.05)


def accepted_zombies(zombie: Membership, code: int) -> Iterator[str]:
    if code not in REFUSALS:
        yield f"zombie-commit: {zombie.member_id} of generation {zombie.generation} got {code}"


def crash_half(scene: Scene, members: int = MEMBERS_SHORT, partitions: int = PARTITIONS_SHORT) -> None:
    """Crash half of a group, commit as those members, then kill the coordinator."""
    group = LargeGroup(scene, members, partitions)
    assignment = [SPREAD[number % len(SPREAD)] for number in range(partitions)]
    scene.clients.create_topic(group.name, assignment)
    scene.cluster.wait_until_in_sync([group.name])
    crashed, others = group.firsts(range(PROCESSES // 2)), group.firsts(range(PROCESSES // 2, PROCESSES))
    try:
        group.write()
        began = time.monotonic()
        group.start(*crashed, *others)
        group.wait_until_owned()
        scene.report.outcomes[f"ms until {members} members owned all"] += _ms_since(began)
        _lose_half(group, crashed)
        _lose_coordinator(group, others)
        group.start(*crashed)
        group.write()
        group.wait_until_owned()
        group.wait_until_committed()
        group.stop()
    finally:
        group.clear()
    _conclude(group)
    scene.clients.delete_topic(group.name)


def _lose_half(group: LargeGroup, crashed: Sequence[int]) -> None:
    group.write()
    zombies = group.memberships(crashed)
    group.crash(*crashed)
    group.scene.note("times half of a group crashed")
    began = time.monotonic()
    group.wait_until_owned()
    group.scene.report.outcomes["ms until the others owned all"] += _ms_since(began)
    group.commit_as_zombies(zombies)


def _lose_coordinator(group: LargeGroup, others: Sequence[int]) -> None:
    cluster, coordinator = group.scene.cluster, group.coordinator()
    former = [
        membership._replace(generation=membership.generation - 1) for membership in group.memberships(others)
    ]
    group.scene.note("kills of the coordinator")
    cluster.kill(coordinator)
    cluster.wait_for_leader_other_than(coordinator, OFFSETS_TOPIC, partition_of(group.name))
    group.commit_as_zombies(former)
    group.write()
    group.wait_until_committed()
    cluster.start(coordinator)


def _ms_since(began: float) -> int:
    return round(1000 * (time.monotonic() - began))


def _conclude(group: LargeGroup) -> None:
    report = group.scene.report
    journals = {path.stem: journal.read(path) for path in group.directory.glob("*.jsonl")}
    report.violations += check_history(journals, group.observed, group.stored)
    events = [event for events in journals.values() for event in events]
    generations = {event.generation for event in events if isinstance(event, journal.Owned)}
    report.outcomes["generations"] += len(generations)
    report.outcomes["commits of members"] += sum(isinstance(event, journal.Committed) for event in events)
    report.outcomes["members"] += len(journals)
    report.acknowledged += sum(group.stored.values())
    report.check(len(generations) > 1, "no-fault: there was no rebalance")


def crash_half_of_many(scene: Scene) -> None:
    crash_half(scene, MEMBERS_LONG, PARTITIONS_LONG)


GROUPS = (crash_half,)
