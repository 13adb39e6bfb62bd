"""R2 and R3 at chosen points: SIGKILL before a file operation, in every step of a log's life.

One data directory survives all kills. Each broker process is first checked, then put under load until it
kills itself: appends with segment rolls and flushes, deletion by size, compaction, producer snapshots,
checkpoints, moves between two log directories. Acknowledged records are at their offsets; each key has its
newest value; repeated batches are not stored twice.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.broker_partitions import append, create, fetch_page, first_offset, read_records
from tests.faults.fault_report import FaultReport
from tests.faults.storage.self_killing_broker import TRACE
from tests.support.broker import STOP_SECONDS_MAX, Broker
from tests.support.kio_requests import kio_requests
from tests.support.raw_connection import ConnectionEnded, RawConnection
from tests.support.record_batches import HandMadeBatch, record

LOAD_SECONDS_MAX = 20.0
"""A point not reached by then may be reached during shutdown; else it is reported as not reached."""
TRACE_SECONDS = 3.0
FLUSH_SECONDS_MAX = 10.0
KEYS = 12
MOVE_EVERY = 150
"""Batches between moves of a log, if the last move has finished."""
SETTINGS = {
    "log.segment.bytes": "3000",
    "log.index.interval.bytes": "300",
    "log.retention.check.interval.ms": "150",
    "log.initial.task.delay.ms": "0",
    "log.segment.delete.delay.ms": "100",
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.flush.offset.checkpoint.interval.ms": "150",
    "log.flush.start.offset.checkpoint.interval.ms": "150",
}
PLAIN, FLUSHED, COMPACTED, SHORT, MOVING = "plain", "flushed", "compacted", "short", "moving"
TOPICS: dict[str, dict[str, str | None]] = {
    PLAIN: {},
    FLUSHED: {"flush.messages": "1"},
    COMPACTED: {"cleanup.policy": "compact", "delete.retention.ms": "0"},
    SHORT: {"retention.bytes": "8000"},
    MOVING: {},
}
WITH_PRODUCERS = (PLAIN, FLUSHED, MOVING)
SHORT_FORM = (
    ("append .log", 150),
    ("create .log", 3),
    ("append .snapshot", 2),
    ("rename .log.deleted", 2),
    ("remove .log.deleted", 2),
    ("append .log.cleaned", 1),
    ("rename .log.swap", 1),
    ("rename .log", 1),
    ("rename cleaner-offset-checkpoint", 2),
    ("append future/.log", 5),
    ("rename log", 1),
)
"""Label and number of the file operation before which the broker is killed."""

moves = kio_requests("alter_replica_log_dirs", 1)
directories = kio_requests("describe_log_dirs", 1)


@dataclass
class Sent:
    """A topic as its producers know it."""

    acknowledged: dict[int, tuple[bytes | None, bytes | None]] = field(default_factory=dict)
    unanswered: dict[bytes, bytes] = field(default_factory=dict)
    """Unacknowledged values by key, which may be stored."""
    producer_id: int = 0
    """Records of this broker process; an unacknowledged batch may be stored or not."""
    sequence: int = 0
    last: tuple[bytes, int] | None = None
    """The last batch of the idempotent producer, and its offset; None if it was not acknowledged."""


class KilledBroker(Broker):
    """A broker with two log directories that kills itself at a label once it is armed."""

    label, nth = TRACE, 0

    @property
    def armed(self) -> Path:
        return self.directory / "armed"

    @property
    def log_dirs(self) -> list[str]:
        return [str(self.directory / name) for name in ("data", "other")]

    def _command(self) -> list[str]:
        pairs = {
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": ",".join(self.log_dirs),
            **self.settings,
        }
        script = Path(__file__).with_name("self_killing_broker.py")
        fields = [sys.executable, str(script), str(self.armed), self.label, str(self.nth)]
        return fields + [f"{name}={value}" for name, value in pairs.items()]

    def wait_for_the_kill(self) -> bool:
        """Return whether the process has killed itself."""
        assert self._process is not None
        try:
            status = self._process.wait(2)
        except subprocess.TimeoutExpired:
            return False
        self._process = None
        self.check_output()
        return status == -signal.SIGKILL

    def stop_or_be_killed(self) -> bool:
        """Stop it; return whether it killed itself meanwhile."""
        if self._process is None:
            return False
        self.terminate()
        status = self._process.wait(STOP_SECONDS_MAX)
        self._process = None
        self.check_output()
        assert status in (0, -signal.SIGKILL), f"the broker ended with status {status}"
        return status != 0


def pairs_of(number: int) -> list[tuple[bytes, bytes]]:
    """Return keys and values of a batch of one to three records."""
    return [
        (b"key %d" % ((number * 5 + at * 3) % KEYS), b"%d.%d " % (number, at) * 8)
        for at in range(1 + number % 3)
    ]


def batch_of(pairs: list[tuple[bytes, bytes]], **fields: Any) -> bytes:
    now_ms = int(time.time() * 1000)
    records = [record(at, value, key) for at, (key, value) in enumerate(pairs)]
    return HandMadeBatch(records, base_timestamp=now_ms, max_timestamp=now_ms, **fields).build()


class KillRun:
    """One data directory and the records sent to it."""

    def __init__(self, directory: Path, report: FaultReport, load_seconds: float = LOAD_SECONDS_MAX) -> None:
        self.report = report
        self.load_seconds = load_seconds
        self.broker = KilledBroker(directory, SETTINGS)
        self.topics = {topic: Sent() for topic in TOPICS}
        self.number = 0
        self.moves = 0

    def create_topics(self) -> None:
        self.broker.start()
        with RawConnection(self.broker.bootstrap) as connection:
            for topic, settings in TOPICS.items():
                self.report.check(create(connection, topic, 1, settings) == 0, f"{topic} was not created")
        self.broker.stop()

    def live(self, label: str, nth: int) -> None:
        """Run one broker process: check its data, then append until it kills itself."""
        broker, description = self.broker, f"{label} #{nth}"
        broker.label, broker.nth = label, nth
        broker.armed.unlink(missing_ok=True)
        broker.start()
        with RawConnection(broker.bootstrap) as connection:
            self.look(connection, f"before {description}")
            broker.armed.touch()
            was_killed = self.load(connection)
        if label == TRACE:
            broker.stop()
            return
        was_killed = was_killed or broker.stop_or_be_killed()
        self.report.faults += was_killed
        self.report.outcomes[f"killed before {label}" if was_killed else f"not reached: {description}"] += 1

    def load(self, connection: RawConnection) -> bool:
        """Append to all topics in turn, and move a log now and then; return whether the broker was killed."""
        deadline = time.monotonic() + (TRACE_SECONDS if self.broker.label == TRACE else self.load_seconds)
        try:
            while time.monotonic() < deadline:
                for topic, sent in self.topics.items():
                    self._append(connection, topic, sent)
                self.number += 1
                if self.number % MOVE_EVERY == 0:
                    self._move(connection)
        except (ConnectionEnded, OSError):
            is_dead = self.broker.wait_for_the_kill()
            self.report.check(is_dead, "the broker refused or ended a connection, and was not killed")
            return is_dead
        return False

    def _append(self, connection: RawConnection, topic: str, sent: Sent) -> None:
        pairs = pairs_of(self.number)
        sent.unanswered = dict(pairs)
        has_id = self.number % 4 == 3 and topic in WITH_PRODUCERS
        fields = {}
        if has_id:
            fields = {"producer_id": sent.producer_id, "producer_epoch": 0, "base_sequence": sent.sequence}
            sent.sequence += len(pairs)
            sent.last = None
        batch = batch_of(pairs, **fields)
        entry = append(connection, topic, 0, batch)
        if entry.error_code:
            output_tail = self.broker.output()[-400:]
            self.report.violate(f"append to {topic} refused with {entry.error_code}: {output_tail}")
            raise ConnectionEnded
        for at, pair in enumerate(pairs, entry.base_offset):
            self.report.check(at not in sent.acknowledged, f"{topic}: offset {at} was given twice")
            sent.acknowledged[at] = pair
        sent.unanswered = {}
        if has_id:
            sent.last = batch, entry.base_offset

    def _move(self, connection: RawConnection) -> None:
        if self._is_moving(connection):
            return  # a move the other way would end it, and none would ever come to its end
        self.moves += 1
        part = moves.AlterReplicaLogDirTopic(name=MOVING, partitions=(0,))
        target = moves.AlterReplicaLogDir(path=self.broker.log_dirs[self.moves % 2], topics=(part,))
        response = connection.exchange(moves.AlterReplicaLogDirsRequest(dirs=(target,)))
        code = response.results[0].partitions[0].error_code
        self.report.check(code == 0, f"a move was refused with {code}")

    def _is_moving(self, connection: RawConnection) -> bool:
        asked = directories.DescribableLogDirTopic(topic=MOVING, partitions=(0,))
        response = connection.exchange(directories.DescribeLogDirsRequest(topics=(asked,)))
        parts = [part for place in response.results for topic in place.topics for part in topic.partitions]
        return any(part.is_future_key for part in parts)

    # What must be there.

    def look(self, connection: RawConnection, when: str) -> None:
        for topic, sent in self.topics.items():
            try:
                if topic == FLUSHED:
                    self._wait_for_the_flush(connection, max(sent.acknowledged, default=-1))
                start = first_offset(connection, topic)
                records = read_records(connection, topic, 0, start, may_have_holes=topic == COMPACTED)
            except ValueError as wrong:
                self.report.violate(f"{when}: {wrong}")
                continue
            if topic == COMPACTED:
                self._look_at_keys(records, sent, f"{when}, {topic}")
            else:
                self._look_at_all(records, sent, start, f"{when}, {topic}")
            self.report.check(topic == SHORT or start == 0, f"{when}, {topic}: it starts at {start}")
            self._repeat(connection, topic, sent, when)

    def _wait_for_the_flush(self, connection: RawConnection, newest: int) -> None:
        """Wait for the flush after a start: the high watermark may not pass unflushed records before it."""
        deadline = time.monotonic() + FLUSH_SECONDS_MAX
        while fetch_page(connection, FLUSHED, 0, 0).high_watermark <= newest and time.monotonic() < deadline:
            time.sleep(0.01)

    def _look_at_all(self, records: dict[int, Any], sent: Sent, start: int, when: str) -> None:
        kept = {offset: pair for offset, pair in sent.acknowledged.items() if offset >= start}
        missing = [offset for offset, pair in kept.items() if records.get(offset) != pair]
        self.report.check(
            not missing, f"{when}: {len(missing)} acknowledged records lost, the first at {missing[:1]}"
        )
        numbers = list(range(start, start + len(records)))
        self.report.check(list(records) == numbers, f"{when}: offsets are not consecutive")
        newest = max(sent.acknowledged, default=-1)
        self.report.check(
            start + len(records) > newest, f"{when}: ends at {start + len(records)}, not {newest}"
        )
        sent.acknowledged = dict(records)

    def _look_at_keys(self, records: dict[int, Any], sent: Sent, when: str) -> None:
        values = {key: value for _, (key, value) in sorted(records.items())}
        newest = {key: value for _, (key, value) in sorted(sent.acknowledged.items())}
        for key, value in newest.items():
            may_be = {value, sent.unanswered.get(key or b"", value)}
            self.report.check(
                values.get(key) in may_be, f"{when}: {key!r} is {values.get(key)!r}, not {value!r}"
            )
        changed = [offset for offset, pair in records.items() if sent.acknowledged.get(offset, pair) != pair]
        self.report.check(not changed, f"{when}: other records than acknowledged at {changed[:3]}")
        sent.acknowledged |= records

    def _repeat(self, connection: RawConnection, topic: str, sent: Sent, when: str) -> None:
        """Repeat the last batch of the producer; then replace the producer."""
        if sent.last is not None:
            batch, offset = sent.last
            entry = append(connection, topic, 0, batch)
            is_same = entry.error_code == 0 and entry.base_offset == offset
            self.report.check(
                is_same, f"{when}, {topic}: {offset} repeated at {entry.base_offset}, code {entry.error_code}"
            )
        sent.producer_id += 1
        sent.sequence, sent.last = 0, None


def play(
    directory: Path, points: list[tuple[str, int]], seed: int, load_seconds: float = LOAD_SECONDS_MAX
) -> FaultReport:
    """Kill a broker at each of these points."""
    report = FaultReport("kill -9 before a change of a file", seed)
    run = KillRun(directory, report, load_seconds)
    run.create_topics()
    for label, nth in points:
        run.live(label, nth)
    run.live(TRACE, 0)
    report.acknowledged = sum(len(sent.acknowledged) for sent in run.topics.values())
    return report


def all_points(directory: Path, seed: int, numbers: int) -> list[tuple[str, int]]:
    """Return kill points for every kind of file operation under load, at random occurrences."""
    run = KillRun(directory, FaultReport("trace", seed))
    run.create_topics()
    run.live(TRACE, 0)
    seen = Counter(Path(f"{run.broker.armed}.{TRACE}").read_text().splitlines())
    rng = random.Random(seed)
    points = [
        (label, nth)
        for label, count in sorted(seen.items())
        for nth in sorted({1, *(rng.randint(1, min(count, 60)) for _ in range(numbers - 1))})
    ]
    rng.shuffle(points)
    return points
