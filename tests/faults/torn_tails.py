"""R12: the process ends, and the active segment ends anywhere within its last batch.

One partition for each byte of the batch: all cuts are tried in one start of a real broker. Each must come
back with the batches before it, and take new ones at the offset where it ends.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.faults.partitions import append, batch_of, create, log_file, read_values
from tests.faults.tally import Tally
from tests.support.broker import Broker
from tests.support.raw import RawConnection

TOPIC = "torn"
BEFORE = 3
"""Batches before the one that is cut."""


def play(directory: Path, records: int = 3) -> Tally:
    """Cut a last batch of so many records at every byte."""
    tally = Tally(f"torn tails, last batch of {records} records", 0)
    batches = [batch_of(*(b"%d.%d" % (number, at) for at in range(records))) for number in range(BEFORE + 1)]
    cuts = len(batches[-1])
    broker = Broker(directory).start()
    with RawConnection(broker.bootstrap) as connection:
        tally.check(create(connection, TOPIC, cuts) == 0, "the topic was not created")
        for partition in range(cuts):
            for batch in batches:
                entry = append(connection, TOPIC, partition, batch)
                tally.check(entry.error_code == 0, f"append refused: {entry.error_code}")
                tally.acknowledged += records
    broker.kill()
    whole = sum(map(len, batches[:-1]))
    for kept in range(cuts):
        path = log_file(broker, TOPIC, kept)
        tally.check(path.stat().st_size == whole + cuts, f"{path} has not all that was acknowledged")
        os.truncate(path, whole + kept)
        tally.faults += 1
    began = time.monotonic()
    broker.start()
    tally.outcomes[f"recovered; ms until the broker answered: {(time.monotonic() - began) * 1000:.0f}"] = cuts
    with RawConnection(broker.bootstrap) as connection:
        for kept in range(cuts):
            _check(connection, kept, records, tally)
    broker.stop()
    return tally


def _check(connection: RawConnection, kept: int, records: int, tally: Tally) -> None:
    expected = {
        number * records + at: b"%d.%d" % (number, at) for number in range(BEFORE) for at in range(records)
    }
    try:
        found = read_values(connection, TOPIC, kept)
        tally.check(found == expected, f"cut after {kept} bytes: read {found}")
        entry = append(connection, TOPIC, kept, batch_of(b"after"))
        tally.check(
            entry.base_offset == len(expected), f"cut after {kept} bytes: appended at {entry.base_offset}"
        )
        found = read_values(connection, TOPIC, kept)
        tally.check(found == expected | {len(expected): b"after"}, f"cut after {kept} bytes: then {found}")
    except ValueError as wrong:
        tally.violate(f"cut after {kept} bytes: {wrong}")
