"""R13 with broker processes: ``odradek serve`` starts with one bit flipped or one file missing.

Startup succeeds and serves only data that passes a reader's checks, or fails with one line that names the
file. The embedded store is included, and counted separately.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from tests.faults.broker_partitions import append, batch_of, create, fetch_page
from tests.faults.fault_report import FaultReport
from tests.faults.storage.bit_flips import flipped, kind_of
from tests.faults.storage.specimen import is_whole, whole_batches
from tests.support.broker import Broker
from tests.support.raw_connection import RawConnection

TOPIC = "flipped"
BATCHES = 30
SETTINGS = {"log.segment.bytes": "2000", "log.index.interval.bytes": "300"}


def make(directory: Path, *, clean: bool) -> dict[bytes, int]:
    """Create a data directory; return the offsets of its batches by their checksummed bytes."""
    broker = Broker(directory, SETTINGS).start()
    written = {}
    with RawConnection(broker.bootstrap) as connection:
        assert create(connection, TOPIC) == 0
        for number in range(BATCHES):
            batch = batch_of(b"value %d" % number, b"x" * 40)
            written[batch[21:]] = append(connection, TOPIC, 0, batch).base_offset
    if clean:
        broker.stop()
    else:
        broker.kill()
    return written


def play(directory: Path, starts: int, seed: int) -> FaultReport:
    """Start ``starts`` brokers, each on a copy with one fault."""
    report = FaultReport("bit flips, real processes", seed)
    rng = random.Random(seed)
    written = {clean: make(directory / f"made-{clean}", clean=clean) for clean in (True, False)}
    report.acknowledged = 2 * sum(map(len, written.values()))
    for number in range(starts):
        clean = bool(number % 2)
        data = directory / f"made-{clean}" / "data"
        files = sorted(path for path in data.rglob("*") if path.is_file() and path.stat().st_size)
        kinds = sorted({kind_of(str(path)) for path in files})
        kind = kinds[number // 2 % len(kinds)]
        path = rng.choice([file for file in files if kind_of(str(file)) == kind])
        copy = directory / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(data, copy / "data")
        victim = copy / "data" / path.relative_to(data)
        if number % 5 == 4:
            victim.unlink()
            change = "deleted"
        else:
            content = victim.read_bytes()
            victim.write_bytes(flipped(content, rng.randrange(8 * len(content))))
            change = "flipped"
        report.faults += 1
        outcome = _start(copy, victim, written[clean], f"{victim.name} {change}, clean {clean}", report)
        report.outcomes[f"{kind} {change}: {outcome}"] += 1
    return report


def _start(
    directory: Path, victim: Path, written: dict[bytes, int], description: str, report: FaultReport
) -> str:
    broker = Broker(directory, SETTINGS)
    try:
        broker.start()
    except pytest.fail.Exception:
        lines = [line for line in broker.output().splitlines() if line.startswith("odradek: ")]
        names_it = any(victim.name in line or victim.parent.name in line for line in lines)
        is_clear = len(lines) == 1 and names_it and broker.traceback() is None
        report.check(is_clear, f"{description}: an unclear refusal to start: {broker.output()[-600:]}")
        return "start refused"
    outcome = _read(broker, written, description, report)
    broker.stop()
    return outcome


def _read(broker: Broker, written: dict[bytes, int], description: str, report: FaultReport) -> str:
    """Classify what a reader gets."""
    offset, classified, moved = 0, 0, 0
    with RawConnection(broker.bootstrap) as connection:
        while classified <= BATCHES:
            entry = fetch_page(connection, TOPIC, 0, offset)
            if entry.error_code:
                return f"refused with {entry.error_code}"
            batches = list(whole_batches(entry.records))
            for batch in batches:
                if not is_whole(batch):
                    return "seen by the reader"
                report.check(batch[21:] in written, f"{description}: a batch that was never written")
                moved += written.get(batch[21:]) != int.from_bytes(batch[:8], "big")
                offset = int.from_bytes(batch[:8], "big") + int.from_bytes(batch[23:27], "big") + 1
                classified += 1
            if not batches:
                break
    if moved:
        return "offset of a batch changed"
    return "all served" if classified == len(written) else "a part served"
