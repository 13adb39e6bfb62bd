"""Clients under load on a topic of their own, while a fault is played, and all checks at its end.

A producer of confluent-kafka and one of ours are idempotent with acks=all and have no reason to give up a
record; one of ours is transactional; a group of ours reads committed records.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import confluent_kafka
from tests.cluster_faults.harness.checks import check_cluster, check_events
from tests.cluster_faults.harness.fault_cluster import FaultCluster
from tests.cluster_faults.harness.rewrites import rewritten_values, without_rewritten
from tests.cluster_faults.harness.senders import ConfluentSender
from tests.faults.clients.actors import Actor, Reader, Sender, Transactor
from tests.faults.clients.checker import check_history, never_polled, problems
from tests.faults.clients.history import ConsumerPart, History, Log, ProducerPart, Send
from tests.faults.fault_report import FaultReport
from tests.mixed.harness.coordinators import partition_of
from tests.mixed.harness.log_files import read_batches
from tests.support.interbroker.clients import Clients

PARTITIONS = 3
PAUSE_SECONDS_MAX = 0.2
BURST_MAX = 12
OPTIONS = {"request_timeout_ms": 3_000}
"""A paused broker accepts connections and does not respond."""
END_SECONDS_MAX = 90.0
SPREAD = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
LEVELS = ("read_uncommitted", "read_committed")
OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"


class Scene:
    """Use as a context manager: the load begins at its start, and is checked at its end."""

    def __init__(self, cluster: FaultCluster, name: str, seed: int) -> None:
        self.cluster = cluster
        self.topic = name
        self.rng = random.Random(seed)
        self.report = FaultReport(name, seed)
        self.clients = Clients(cluster.bootstrap)
        self.history = History()
        self.moments: list[float] = []
        """Beginnings of faults, in seconds of the monotonic clock."""
        self._producers: list[Actor] = []
        self._readers: list[Actor] = []

    # Load.

    def __enter__(self) -> Self:
        self.cluster.restore()
        self.clients.create_topic(self.topic, SPREAD)
        self.clients.create_topic(self.probe_topic, SPREAD[:1])
        self.cluster.wait_until_in_sync([self.topic, self.probe_topic])
        bootstrap = self.cluster.bootstrap
        theirs, ours, transactor = (ProducerPart(name) for name in ("theirs", "ours", self.transactional_id))
        readers = [ConsumerPart(f"reader{number}") for number in range(2)]
        self.history = History([theirs, ours, transactor], readers)
        self._producers = [
            ConfluentSender(bootstrap, theirs, PARTITIONS, self._own_rng()),
            Sender(bootstrap, ours, PARTITIONS, self._own_rng()),
            Transactor(bootstrap, transactor, PARTITIONS, self._own_rng()),
        ]
        self._readers = [Reader(bootstrap, part, self._own_rng()) for part in readers]
        for actor in (*self._producers, *self._readers):
            self._start(actor)
        self.wait_for_progress()
        return self

    def _start(self, actor: Actor) -> None:
        actor.topic = self.topic
        actor.pause_seconds_max = PAUSE_SECONDS_MAX
        actor.burst_max = BURST_MAX
        actor.options = OPTIONS
        if isinstance(actor, Reader):
            actor.group = self.group
        actor.start()

    @contextmanager
    def another_reader(self) -> Iterator[None]:
        """Have one more member of the group for a while: it rebalances at both ends."""
        part = ConsumerPart(f"reader{len(self.history.consumers)}")
        self.history.consumers.append(part)
        reader = Reader(self.cluster.bootstrap, part, self._own_rng())
        self._start(reader)
        try:
            yield
        finally:
            self.end([reader])

    def _own_rng(self) -> random.Random:
        return random.Random(self.rng.random())

    @property
    def probe_topic(self) -> str:
        """Topic of records that only time the cluster."""
        return f"{self.topic}-probe"

    @property
    def group(self) -> str:
        return f"{self.topic}-group"

    @property
    def transactional_id(self) -> str:
        return f"{self.topic}-transactor"

    def group_coordinator(self) -> int:
        return self.cluster.leader(OFFSETS_TOPIC, partition_of(self.group))

    def transaction_coordinator(self) -> int:
        return self.cluster.leader(TRANSACTIONS_TOPIC, partition_of(self.transactional_id))

    def elect_preferred(self, partitions: Sequence[tuple[str, int]]) -> None:
        """Elect the first replicas of partitions, until they lead.

        An election that comes just after they have entered the ISR may find that they have not.
        """

        def are_elected() -> bool:
            late = [each for each in partitions if self.cluster.leader(*each) != self._preferred(*each)]
            if late:
                self.clients.elect_preferred(late)
            return not late

        self.cluster.wait_until(are_elected, f"the first replicas of {partitions} must lead")

    def _preferred(self, topic: str, partition: int) -> int:
        return self.cluster.replicas(topic, partition)[0]

    def note(self, what: str) -> None:
        """Count a fault that begins now."""
        self.moments.append(time.monotonic())
        self.report.faults += 1
        self.report.outcomes[what] += 1

    def pause(self, seconds_max: float = 1.0) -> None:
        """Let the load go on for a random time, so that the next fault comes at a random moment."""
        time.sleep(self.rng.random() * seconds_max)

    def wait_for_progress(self, count: int = 20) -> None:
        """Wait until each producer has more acknowledged records, the transactor more transactions."""
        goals = [
            self._done(part) + (count if not part.transactions else 2) for part in self.history.producers
        ]

        def is_reached() -> bool:
            reasons = [part.problem for part in self.history.producers if part.problem]
            reasons += client_errors(self.history.producers[:2])
            assert not reasons, reasons[:3]
            return all(
                self._done(part) >= goal for part, goal in zip(self.history.producers, goals, strict=True)
            )

        wait_for(is_reached, lambda: f"producers must get on to {goals}, got {self._progress()}")

    @staticmethod
    def _done(part: ProducerPart) -> int:
        if part.transactions:
            return sum(transaction.outcome == "committed" for transaction in list(part.transactions))
        return sum(send.offset >= 0 for send in list(part.sends))

    def unavailable_seconds(self) -> list[float]:
        """Return how long each fault kept each partition from acknowledging a record sent after it began."""
        sends = [send for part in self.history.producers for send in part.sends]
        return [
            seconds
            for moment in self.moments
            for partition in range(PARTITIONS)
            if (seconds := seconds_until_acknowledged(sends, partition, moment)) is not None
        ]

    def _progress(self) -> dict[str, tuple[int, str]]:
        return {part.name: (self._done(part), part.problem) for part in self.history.producers}

    # End.

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.cluster.restore()
                self.wait_for_progress()
        finally:
            self.end(self._producers)
            if error is not None:
                self.end(self._readers)
        if error is None:
            self._check()
        else:
            self.report.violations += self._certain_violations()

    def _certain_violations(self) -> list[str]:
        """Return what is wrong whatever state an error has left the cluster in."""
        return [
            *problems(self.history),
            *client_errors(self.history.producers[:2]),
            *check_events(self.cluster),
        ]

    def _check(self) -> None:
        written, committed = (read_log(self.cluster.bootstrap, self.topic, level) for level in LEVELS)
        wait_for(lambda: not list(never_polled(self.history, committed)), None)
        self.end(self._readers)
        self.cluster.wait_until_in_sync([self.topic])
        of_history = check_history(self.history, written, committed)
        if any(violation.startswith("duplicate") for violation in of_history):
            rewritten = self._rewritten_values()
            self.report.outcomes["records that librdkafka wrote again under a new epoch"] += len(rewritten)
            of_history = list(without_rewritten(of_history, rewritten))
        violations = [
            *of_history,
            *client_errors(self.history.producers[:2]),
            *foreign_values(self.history, written),
            *check_cluster(self.cluster, self.topic, range(PARTITIONS)),
        ]
        self.report.violations += violations
        sends = [send for part in self.history.producers for send in part.sends]
        self.report.acknowledged += sum(send.offset >= 0 for send in sends)

    def _rewritten_values(self) -> set[str]:
        """Return values that the producer of confluent-kafka wrote under two epochs."""
        own = {send.value for send in self.history.producers[0].sends}
        leaders = [self.cluster.leader(self.topic, partition) for partition in range(PARTITIONS)]
        return {
            value
            for partition, leader in enumerate(leaders)
            for value in rewritten_values(
                read_batches(self.cluster.replica_dir(leader, self.topic, partition))
            )
            if value in own
        }

    def end(self, actors: Sequence[Actor]) -> None:
        """Stop actors and wait for them."""
        for actor in actors:
            actor.stop()
        for actor in actors:
            actor.join(END_SECONDS_MAX)
            self.report.check(not actor.is_alive(), f"{actor.name} did not end")


def seconds_until_acknowledged(sends: Sequence[Send], partition: int, moment: float) -> float | None:
    """Return when the first record sent after a moment was acknowledged, in seconds after it."""
    moments = (
        send.acknowledged_s
        for send in sends
        if send.partition == partition and send.sent_s > moment and send.acknowledged_s is not None
    )
    first = min(moments, default=None)
    return None if first is None else first - moment


def client_errors(parts: Sequence[ProducerPart]) -> Iterator[str]:
    """Yield records that an idempotent producer gave up."""
    for part in parts:
        for send in part.sends:
            if send.error:
                yield f"client-error: {send.value} of {part.name} failed with {send.error}"


def foreign_values(history: History, written: Log) -> Iterator[str]:
    """Yield records that nobody sent to this topic."""
    own = {send.value for part in history.producers for send in part.sends}
    for partition, records in written.items():
        for offset, value in records:
            if value not in own:
                yield f"wrong-topic: {value} is at {(partition, offset)}, and was not sent there"


def wait_for(holds: Callable[[], bool], describe: Callable[[], str] | None) -> None:
    """Wait until a condition holds; without a description the caller checks it again."""
    deadline = time.monotonic() + END_SECONDS_MAX
    while not holds():
        if time.monotonic() > deadline:
            if describe is None:
                return
            raise TimeoutError(f"{describe()} after {END_SECONDS_MAX} s")
        time.sleep(0.1)


def read_log(bootstrap: str, topic: str, isolation_level: str, partitions: int = PARTITIONS) -> Log:
    """Read a topic from its start to its current end offsets. Producers may still be writing."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": isolation_level,
        "log_level": 2,
    }
    consumer = confluent_kafka.Consumer(settings)
    records: dict[int, list[tuple[int, str]]] = {number: [] for number in range(partitions)}
    at_end: set[int] = set()
    deadline = time.monotonic() + END_SECONDS_MAX
    try:
        begins = [confluent_kafka.TopicPartition(topic, number, 0) for number in range(partitions)]
        ends = [consumer.get_watermark_offsets(begin, END_SECONDS_MAX)[1] for begin in begins]
        consumer.assign(begins)
        while len(at_end) < partitions:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} must be readable to its end within {END_SECONDS_MAX} s")
            for message in consumer.consume(500, 0.2):
                partition, offset, value = message.partition(), message.offset(), message.value()
                assert partition is not None
                if message.error() is None and offset is not None and value is not None:
                    records[partition].append((offset, value.decode()))
                if message.error() is not None or offset is None or offset >= ends[partition] - 1:
                    at_end.add(partition)
    finally:
        consumer.close()
    return records
