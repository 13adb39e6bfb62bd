"""R12: the process crashes, and the active segment ends at any byte of its last batch.

One partition per byte of the batch: all truncations are tried in one start of a broker process. Each
partition must have the batches before it, and append new ones at its end.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.faults.broker_partitions import append, batch_of, create, log_file, read_values
from tests.faults.fault_report import FaultReport
from tests.support.broker import Broker
from tests.support.raw_connection import RawConnection

TOPIC = "torn"
BEFORE = 3
"""Batches before the truncated one."""


def play(directory: Path, records: int = 3) -> FaultReport:
    """Truncate a last batch of ``records`` records at every byte."""
    report = FaultReport(f"torn tails, last batch of {records} records", 0)
    batches = [batch_of(*(b"%d.%d" % (number, at) for at in range(records))) for number in range(BEFORE + 1)]
    cuts = len(batches[-1])
    broker = Broker(directory).start()
    with RawConnection(broker.bootstrap) as connection:
        report.check(create(connection, TOPIC, cuts) == 0, "the topic was not created")
        for partition in range(cuts):
            for batch in batches:
                entry = append(connection, TOPIC, partition, batch)
                report.check(entry.error_code == 0, f"append refused: {entry.error_code}")
                report.acknowledged += records
    broker.kill()
    intact = sum(map(len, batches[:-1]))
    for kept in range(cuts):
        path = log_file(broker, TOPIC, kept)
        report.check(path.stat().st_size == intact + cuts, f"{path} has not all that was acknowledged")
        os.truncate(path, intact + kept)
        report.faults += 1
    began = time.monotonic()
    broker.start()
    report.outcomes[f"recovered; ms until the broker answered: {(time.monotonic() - began) * 1000:.0f}"] = (
        cuts
    )
    with RawConnection(broker.bootstrap) as connection:
        for kept in range(cuts):
            _check(connection, kept, records, report)
    broker.stop()
    return report


def _check(connection: RawConnection, kept: int, records: int, report: FaultReport) -> None:
    expected = {
        number * records + at: b"%d.%d" % (number, at) for number in range(BEFORE) for at in range(records)
    }
    try:
        values = read_values(connection, TOPIC, kept)
        report.check(values == expected, f"cut after {kept} bytes: read {values}")
        entry = append(connection, TOPIC, kept, batch_of(b"after"))
        report.check(
            entry.base_offset == len(expected), f"cut after {kept} bytes: appended at {entry.base_offset}"
        )
        values = read_values(connection, TOPIC, kept)
        report.check(values == expected | {len(expected): b"after"}, f"cut after {kept} bytes: then {values}")
    except ValueError as wrong:
        report.violate(f"cut after {kept} bytes: {wrong}")
