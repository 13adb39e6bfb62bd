"""R10: the disk fills up, and later has space again.

A broker process on a small tmpfs, filled by a file. Producers get KAFKA_STORAGE_ERROR, which clients retry;
readers continue; topic creation fails with an error; once there is space the broker recovers by itself; no
acknowledged record is lost, also after a kill on a full disk, where the next start serves reads and
deletions at once. A compaction without space is abandoned, and repeated once there is space.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.broker_partitions import append, batch_of, create, delete_records, read_records, read_values
from tests.faults.fault_report import FaultReport
from tests.faults.storage.kill_points import batch_of as keyed_batch
from tests.support.broker import Broker
from tests.support.raw_connection import RawConnection

TOPIC = "filling"
STATES = "states"
SETTINGS = {
    "log.segment.bytes": "262144",
    "log.cleaner.backoff.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "200",
}
LAG_SECONDS = 3.0
"""min.compaction.lag.ms of the compacted topic: long enough to flush records and fill the disk."""
STATE_SETTINGS: dict[str, str | None] = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": str(int(LAG_SECONDS * 1000)),
    "segment.bytes": "8192",
}
KEYS = 40
DISK_BYTES = 12 << 20
ROOM_BYTES = 600 << 10
KAFKA_STORAGE_ERROR = 56
REFUSALS = 20
RESUME_SECONDS_MAX = 10.0
FLUSH_SECONDS = 1.5
"""Long enough for flushes and checkpoints to hit the full disk too."""


def why_no_disk() -> str | None:
    """Return why no tmpfs can be mounted here; None if one can."""
    if os.geteuid() != 0:
        return "a tmpfs can only be mounted by root"
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "/mnt"], capture_output=True)
    if done.returncode:
        return f"mount refused: {done.stderr.decode().strip()}"
    subprocess.run(["umount", "/mnt"], check=True)
    return None


@contextmanager
def small_disk(path: Path) -> Iterator[Path]:
    """Mount a tmpfs of DISK_BYTES at this path."""
    path.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(path)], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


def fill(disk: Path, *, room: int) -> Path:
    """Fill the disk up to ``room`` bytes."""
    ballast = disk / "ballast"
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    with ballast.open("ab") as file:
        if free > room:
            os.posix_fallocate(file.fileno(), ballast.stat().st_size, free - room)
    return ballast


def play(directory: Path, rounds: int) -> FaultReport:
    """Fill and free the disk ``rounds`` times, then kill the broker on a full one."""
    report = FaultReport("full disk", 0)
    acknowledged: dict[int, bytes] = {}
    with small_disk(directory / "data") as disk:
        broker = Broker(directory, SETTINGS).start()
        try:
            with RawConnection(broker.bootstrap) as connection:
                report.check(create(connection, TOPIC) == 0, "the topic was not created")
                _compact_on_full_disk(broker, connection, disk, report)
                for number in range(rounds):
                    ballast = fill(disk, room=ROOM_BYTES)
                    _fill_and_free(connection, ballast, acknowledged, number, report)
            _kill_on_full_disk(broker, disk, acknowledged, report)
        finally:
            if broker.is_running:
                broker.kill_if_running()
    report.acknowledged = len(acknowledged)
    return report


def _compact_on_full_disk(broker: Broker, connection: RawConnection, disk: Path, report: FaultReport) -> None:
    """Let records become cleanable while there is no space for the cleaned segment."""
    report.faults += 1
    report.check(create(connection, STATES, 1, STATE_SETTINGS) == 0, "the compacted topic was not created")
    newest = {}
    for number in range(4 * KEYS):
        key, value = b"key %d" % (number % KEYS), b"%d " % number * 60
        entry = append(connection, STATES, 0, keyed_batch([(key, value)]))
        report.check(entry.error_code == 0, f"append refused with {entry.error_code}")
        newest[key] = value
    time.sleep(LAG_SECONDS / 2)
    ballast = fill(disk, room=0)
    time.sleep(LAG_SECONDS)
    report.check("cleaning_failed" in broker.output(), "no compaction was given up")
    report.check("log_uncleanable" not in broker.output(), "a full disk was taken for damage")
    _check_states(connection, newest, "while full", report)
    ballast.unlink()
    began = time.monotonic()
    while len(read_records(connection, STATES, may_have_holes=True)) > 2 * KEYS:
        time.sleep(0.05)
        if time.monotonic() - began > RESUME_SECONDS_MAX:
            report.violate(f"not compacted {RESUME_SECONDS_MAX} s after there was room")
            break
    report.outcomes[f"compacted {time.monotonic() - began:.1f} s after there was room"] += 1
    _check_states(connection, newest, "compacted", report)


def _check_states(
    connection: RawConnection, newest: dict[bytes, bytes], when: str, report: FaultReport
) -> None:
    values = {key: value for _, (key, value) in sorted(read_records(connection, STATES).items())}
    report.check(values == newest, f"{when}: not each key has its newest value")


def _append_some(
    connection: RawConnection, acknowledged: dict[int, bytes], wanted: int, report: FaultReport
) -> int:
    """Append until ``wanted`` appends failed; return the number of failed appends."""
    failed_count = 0
    for number in range(100_000):
        value = b"%d:" % number + os.urandom(900)
        entry = append(connection, TOPIC, 0, batch_of(value))
        if entry.error_code == 0:
            report.check(entry.base_offset not in acknowledged, f"offset {entry.base_offset} was given twice")
            acknowledged[entry.base_offset] = value
        else:
            failed_count += 1
            report.check(entry.error_code == KAFKA_STORAGE_ERROR, f"refused with {entry.error_code}")
            if failed_count == wanted:
                break
    return failed_count


def _check(connection: RawConnection, acknowledged: dict[int, bytes], when: str, report: FaultReport) -> None:
    try:
        values = read_values(connection, TOPIC)
    except ValueError as wrong:
        report.violate(f"{when}: {wrong}")
        return
    missing = [offset for offset, value in acknowledged.items() if values.get(offset) != value]
    report.check(not missing, f"{when}: {len(missing)} acknowledged records lost")
    report.check(list(values) == list(range(len(values))), f"{when}: offsets are not consecutive")


def _fill_and_free(
    connection: RawConnection, ballast: Path, acknowledged: dict[int, bytes], number: int, report: FaultReport
) -> None:
    report.faults += 1
    report.outcomes["appends refused while full"] += _append_some(connection, acknowledged, REFUSALS, report)
    fill(ballast.parent, room=0)
    time.sleep(FLUSH_SECONDS)
    _check(connection, acknowledged, "while full", report)
    code = create(connection, f"refused-{number}")
    report.check(code != 0, "a topic was created on a full disk")
    report.outcomes[f"creation of a topic while full refused with {code}"] += 1
    ballast.unlink()
    began = time.monotonic()
    while append(connection, TOPIC, 0, batch_of(b"probe")).error_code:
        time.sleep(0.01)
        if time.monotonic() - began > RESUME_SECONDS_MAX:
            report.violate(f"still refusing {RESUME_SECONDS_MAX} s after there was room")
            return
    report.outcomes[f"resumed within {(time.monotonic() - began) * 1000:.0f} ms"] += 1
    code = create(connection, f"made-{number}")
    report.check(code == 0, f"no topic can be created after there was room: {code}")
    _check(connection, acknowledged, "after there was room", report)


def _kill_on_full_disk(
    broker: Broker, disk: Path, acknowledged: dict[int, bytes], report: FaultReport
) -> None:
    """Check that a start on a full disk serves reads and deletions, and appends once there is space."""
    ballast = fill(disk, room=0)
    report.faults += 1
    with RawConnection(broker.bootstrap) as connection:
        _append_some(connection, acknowledged, 3, report)
    broker.kill()
    fill(disk, room=0)
    broker.start()
    with RawConnection(broker.bootstrap) as connection:
        _check(connection, acknowledged, "started on a full disk", report)
        # What the kill left half written may have been cut, and leave room for some more.
        fill(disk, room=0)
        _append_some(connection, acknowledged, 3, report)
        report.check(create(connection, "refused-at-start") != 0, "a topic was created on a full disk")
        deleted = delete_records(connection, TOPIC, max(acknowledged) // 2)
        report.check(deleted == 0, f"records cannot be deleted on a full disk: {deleted}")
        report.outcomes["started on a full disk"] += 1
        ballast.unlink()
        began = time.monotonic()
        while append(connection, TOPIC, 0, batch_of(b"last")).error_code:
            time.sleep(0.01)
            if time.monotonic() - began > RESUME_SECONDS_MAX:
                report.violate(f"still refusing {RESUME_SECONDS_MAX} s after a start on a full disk")
                break
        report.check(create(connection, "made-after-start") == 0, "no topic can be created after the start")
        start = max(acknowledged) // 2
        values = read_records(connection, TOPIC, offset=start)
        missing = [
            record for record, value in acknowledged.items() if record >= start and values[record][1] != value
        ]
        report.check(not missing, f"{len(missing)} acknowledged records lost after a start on a full disk")
    broker.stop()
    broker.start()
    broker.stop()
