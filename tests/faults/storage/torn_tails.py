"""R12: the process ends, and the active segment ends anywhere within its last batch.

One partition for each byte of the batch: all cuts are tried in one start of a real broker. Each must come
back with the batches before it, and take new ones at the offset where it ends.
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
"""Batches before the one that is cut."""


def play(directory: Path, records: int = 3) -> FaultReport:
    """Cut a last batch of so many records at every byte."""
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
    whole = sum(map(len, batches[:-1]))
    for kept in range(cuts):
        path = log_file(broker, TOPIC, kept)
        report.check(path.stat().st_size == whole + cuts, f"{path} has not all that was acknowledged")
        os.truncate(path, whole + kept)
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
        found = read_values(connection, TOPIC, kept)
        report.check(found == expected, f"cut after {kept} bytes: read {found}")
        entry = append(connection, TOPIC, kept, batch_of(b"after"))
        report.check(
            entry.base_offset == len(expected), f"cut after {kept} bytes: appended at {entry.base_offset}"
        )
        found = read_values(connection, TOPIC, kept)
        report.check(found == expected | {len(expected): b"after"}, f"cut after {kept} bytes: then {found}")
    except ValueError as wrong:
        report.violate(f"cut after {kept} bytes: {wrong}")
