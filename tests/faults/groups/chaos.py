"""A group of three kinds of clients on fifty partitions, while members join, leave, hang and are killed.

Members are processes (``member.py``). A producer writes and an observer fetches committed offsets all the
time. At the end the remaining members read everything, and ``checker.py`` checks their journals.
"""

from __future__ import annotations

import itertools
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from confluent_kafka import KafkaError, Producer
from tests.faults.broker_partitions import create
from tests.faults.fault_report import FaultReport
from tests.faults.groups import journal
from tests.faults.groups.checker import Observed, check_history
from tests.faults.groups.member import COOPERATIVE, SESSION_MS
from tests.support.broker import Broker
from tests.support.kio_requests import kio_requests
from tests.support.raw_connection import ConnectionEnded, RawConnection

TOPIC, GROUP = "chaos", "chaos"
PARTITIONS = 50
CAST = (*("confluent",) * 3, *("kafka_python",) * 2, *("aiokafka",) * 2)
COOPERATING = (*("confluent",) * 4, *("kafka_python",) * 3)
"""Clients that support cooperative rebalancing."""
MEMBERS_MIN, MEMBERS_MAX = 4, 9
RECORDS_PER_SECOND = 400
JOIN_SECONDS_MAX = 150.0
DRAIN_SECONDS_MAX = 150.0
LEAVE_SECONDS_MAX = 60.0
OBSERVED_EVERY_SECONDS = 0.2
HANG_SECONDS = SESSION_MS / 1000 * 1.6
SETTINGS = {"group.min.session.timeout.ms": "1000", "group.initial.rebalance.delay.ms": "300"}

offset_fetch = kio_requests("offset_fetch", 5)


class Member:
    """One member process, and its journal."""

    def __init__(self, client: str, number: int, directory: Path, bootstrap: str, assignor: str) -> None:
        self.client = client
        self.name = f"{number}-{client}"
        self.journal = directory / f"{self.name}.jsonl"
        self.output = directory / f"{self.name}.txt"
        script = Path(__file__).with_name("member.py")
        command = [sys.executable, str(script), client, bootstrap, GROUP, TOPIC, assignor, str(self.journal)]
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=directory
            )
        self.wakes_at: float | None = None
        self._is_leaving = False

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def hang(self) -> None:
        """Stop the process for longer than the session timeout."""
        self.send(signal.SIGSTOP)
        self.wakes_at = time.monotonic() + HANG_SECONDS

    def wake(self) -> None:
        self.send(signal.SIGCONT)
        self.wakes_at = None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def ask_to_leave(self) -> None:
        """Send SIGTERM once: a second signal would interrupt the shutdown."""
        if not self._is_leaving:
            self._is_leaving = True
            self.send(signal.SIGTERM)

    def leave(self) -> int | None:
        """Leave the group; return the exit status, or None after a timeout."""
        self.ask_to_leave()
        try:
            return self._process.wait(LEAVE_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            return None


class Writing(threading.Thread):
    """Writes continuously; counts acknowledged records."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                "log_level": 2,
                "message.timeout.ms": 0,
            }
        )
        self._ending = threading.Event()
        self.stored: Counter[int] = Counter()
        self.error: list[str] = []

    def run(self) -> None:
        number = 0
        while not self._ending.wait(0.02):
            for _ in range(RECORDS_PER_SECOND // 50):
                self._producer.produce(
                    TOPIC, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._delivered
                )
                number += 1
            self._producer.poll(0)

    def finish(self) -> None:
        """Stop writing, and wait until everything is acknowledged."""
        self._ending.set()
        self.join()
        remaining = self._producer.flush(30)
        if remaining:
            self.error.append(f"{remaining} records were not acknowledged in 30 s")

    def _delivered(self, error: KafkaError | None, message: object) -> None:
        if error is not None:
            self.error.append(str(error))
        else:
            self.stored[message.partition()] += 1  # type: ignore[attr-defined]


class Observing(threading.Thread):
    """Fetches the group's committed offsets continuously, retrying while the broker is down."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self._address = bootstrap
        self._ending = threading.Event()
        self.observed: list[Observed] = []

    def run(self) -> None:
        while not self._ending.wait(OBSERVED_EVERY_SECONDS):
            with suppress(ConnectionEnded, OSError), RawConnection(self._address) as connection:
                while not self._ending.wait(OBSERVED_EVERY_SECONDS):
                    self._fetch_offsets(connection)

    def _fetch_offsets(self, connection: RawConnection) -> None:
        asked_ns = time.monotonic_ns()
        response = connection.exchange(offset_fetch.OffsetFetchRequest(group_id=GROUP, topics=None))
        if response.error_code == 0:
            offsets = {
                partition.partition_index: partition.committed_offset
                for topic in response.topics
                for partition in topic.partitions
                if partition.error_code == 0 and partition.committed_offset >= 0
            }
            self.observed.append(Observed(asked_ns, offsets))

    def finish(self) -> None:
        self._ending.set()
        self.join()


class Chaos:
    """One run: current and former members."""

    def __init__(
        self, directory: Path, broker: Broker, report: FaultReport, assignor: str, kills_broker: bool
    ) -> None:
        self._directory = directory
        self._broker = broker
        self._report = report
        self._assignor = assignor
        self.cast = COOPERATING if assignor == COOPERATIVE else CAST
        self._rng = random.Random(report.seed)
        self._actions = [self._add, self._kill, self._hang, self._leave]
        if kills_broker:
            self._actions.append(self._kill_broker)
        self._turns: list[int] = []
        self.all: list[Member] = []
        self.members: list[Member] = []

    def start(self, client: str) -> None:
        member = Member(client, len(self.all), self._directory, self._broker.bootstrap, self._assignor)
        self.all.append(member)
        self.members.append(member)

    def act(self) -> None:
        """Inject a fault: each kind once, in random order, before any is repeated."""
        for member in self.members:
            if member.wakes_at is not None and member.wakes_at <= time.monotonic():
                member.wake()
        if not self._turns:
            self._turns = self._rng.sample(range(len(self._actions)), len(self._actions))
        self._actions[self._turns.pop()]()
        self._report.faults += 1

    def _awake(self) -> list[Member]:
        return [member for member in self.members if member.wakes_at is None]

    def _pick(self) -> Member | None:
        awake = self._awake()
        return self._rng.choice(awake) if len(awake) > MEMBERS_MIN else None

    def _add(self) -> None:
        if len(self.members) < MEMBERS_MAX:
            self.start(self._rng.choice(self.cast))
            self._report.outcomes["added"] += 1

    def _kill(self) -> None:
        """Kill a member and start another of its kind."""
        if (member := self._pick()) is not None:
            member.kill()
            self.members.remove(member)
            self.start(member.client)
            self._report.outcomes["killed and restarted"] += 1

    def _hang(self) -> None:
        if (member := self._pick()) is not None:
            member.hang()
            self._report.outcomes["stopped for longer than its session"] += 1

    def _leave(self) -> None:
        if (member := self._pick()) is not None:
            self.members.remove(member)
            self._part(member)
            self._report.outcomes["left in order"] += 1

    def _kill_broker(self) -> None:
        self._broker.kill()
        self._broker.start()
        self._report.outcomes["killed the broker"] += 1

    def _part(self, member: Member) -> None:
        status = member.leave()
        if status != 0:
            self._report.outcomes[f"{member.client} ended with {status} when asked to leave"] += 1

    def wake_all(self) -> None:
        for member in self.members:
            if member.wakes_at is not None:
                member.wake()

    def check_lives(self) -> None:
        for member in self.members:
            output_tail = member.output.read_text(errors="replace")[-600:]
            self._report.check(member.is_alive, f"{member.name} ended by itself: {output_tail}")

    def end(self) -> None:
        """Let all members leave together."""
        for member in self.members:
            member.ask_to_leave()
        for member in self.members:
            self._part(member)

    def clear(self) -> None:
        """Kill all remaining processes."""
        for member in self.all:
            if member.is_alive:
                member.kill()


def play(
    directory: Path, seconds: float, seed: int, assignor: str = "range", *, kills_broker: bool = False
) -> FaultReport:
    """Inject faults into a group for ``seconds``."""
    report = FaultReport(f"members of a group come and go, {assignor}", seed)
    broker = Broker(directory / "broker", SETTINGS).start()
    with RawConnection(broker.bootstrap) as connection:
        report.check(create(connection, TOPIC, PARTITIONS) == 0, "the topic was not created")
    chaos = Chaos(directory, broker, report, assignor, kills_broker)
    writing, observing = Writing(broker.bootstrap), Observing(broker.bootstrap)
    try:
        writing.start()
        observing.start()
        for client in chaos.cast:
            chaos.start(client)
        _wait_until_all_own(chaos, report)
        _happen(chaos, seconds)
        writing.finish()
        _drain(observing, writing, report)
        chaos.check_lives()
        chaos.end()
        observing.finish()
        broker.stop()
    finally:
        chaos.clear()
        if broker.is_running:
            broker.kill_if_running()
    _conclude(chaos, writing, observing, report)
    return report


def _journals(chaos: Chaos) -> dict[str, list[journal.Event]]:
    return {member.name: journal.read(member.journal) for member in chaos.all}


def _wait_until_all_own(chaos: Chaos, report: FaultReport) -> None:
    """Wait until each member owns partitions, and together they own all."""
    deadline = time.monotonic() + JOIN_SECONDS_MAX
    while time.monotonic() < deadline:
        shares = [journal.owned_last(events) for events in _journals(chaos).values()]
        if all(shares) and sorted(itertools.chain(*shares)) == list(range(PARTITIONS)):
            return
        time.sleep(0.2)
    report.violate(f"the cast had not come together after {JOIN_SECONDS_MAX:.0f} s")


def _happen(chaos: Chaos, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    rng = random.Random(seconds)
    while time.monotonic() < deadline:
        chaos.act()
        time.sleep(0.5 + 1.5 * rng.random())
    chaos.wake_all()


def _drain(observing: Observing, writing: Writing, report: FaultReport) -> None:
    """Wait until all stored records are committed."""
    deadline = time.monotonic() + DRAIN_SECONDS_MAX
    while time.monotonic() < deadline:
        if observing.observed and not any(_behind(observing.observed[-1], writing)):
            return
        time.sleep(0.2)
    behind = list(_behind(observing.observed[-1], writing)) if observing.observed else ["nothing observed"]
    report.violate(f"not all committed after {DRAIN_SECONDS_MAX:.0f} s: {behind[:5]}")


def _behind(observed: Observed, writing: Writing) -> Iterator[tuple[int, int, int]]:
    """Yield partition, stored records, committed offset."""
    for partition, count in writing.stored.items():
        if (committed := observed.offsets.get(partition, 0)) < count:
            yield partition, count, committed


def _conclude(chaos: Chaos, writing: Writing, observing: Observing, report: FaultReport) -> None:
    journals = _journals(chaos)
    for output_tail in [*writing.error, *check_history(journals, observing.observed, writing.stored)]:
        report.violate(output_tail)
    kinds = Counter(type(event).__name__.lower() for events in journals.values() for event in events)
    generations = {
        event.generation
        for events in journals.values()
        for event in events
        if isinstance(event, journal.Owned)
    }
    report.acknowledged = writing.stored.total()
    report.outcomes["generations"] = len(generations)
    report.outcomes["commits acknowledged"] = kinds["committed"]
    report.outcomes["commits refused"] = kinds["refused"]
    report.outcomes["observations of the committed offsets"] = len(observing.observed)
    report.check(len(generations) > 1, "there was no rebalance")
    report.check(kinds["committed"] > 0, "nothing was committed")
