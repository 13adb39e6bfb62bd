"""R2: kill -9 at any moment under load. Acknowledged records are at their acknowledged offsets.

Several producers append to their own partitions, one request at a time, alternating acks=1 and acks=all.
Segments are small, so that kills also hit rolls, flushes and index files.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from tests.faults.broker_partitions import append, batch_of, create, read_values
from tests.faults.fault_report import FaultReport
from tests.support.broker import Broker
from tests.support.raw_connection import ConnectionEnded, RawConnection

TOPIC = "killed"
PRODUCERS = 3
SETTINGS = {"log.segment.bytes": "65536", "log.index.interval.bytes": "512"}
LOAD_SECONDS_MAX = 1.0


class Producer(threading.Thread):
    """Appends until the broker is gone; records acknowledged values by offset."""

    def __init__(self, bootstrap: str, partition: int, acknowledged: dict[int, bytes], number: int) -> None:
        super().__init__(daemon=True)
        self._address = bootstrap
        self._partition = partition
        self._acknowledged = acknowledged
        self._number = number
        self.problem: str | None = None

    def run(self) -> None:
        try:
            with RawConnection(self._address) as connection:
                while self.problem is None:
                    self._append(connection)
        except (ConnectionEnded, OSError):
            return

    def _append(self, connection: RawConnection) -> None:
        values = [b"%d-%d-%d" % (self._partition, self._number, at) * 9 for at in range(1 + self._number % 4)]
        self._number += 1
        acks = 1 if self._number % 2 else -1
        entry = append(connection, TOPIC, self._partition, batch_of(*values), acks)
        if entry.error_code:
            self.problem = f"append refused with {entry.error_code}"
            return
        for offset, value in enumerate(values, entry.base_offset):
            if offset in self._acknowledged:
                self.problem = f"offset {offset} was given twice"
            self._acknowledged[offset] = value


def play(directory: Path, kills: int, seed: int) -> FaultReport:
    """Kill a broker under load ``kills`` times."""
    report = FaultReport("kill -9 under load", seed)
    rng = random.Random(seed)
    acknowledged: list[dict[int, bytes]] = [{} for _ in range(PRODUCERS)]
    broker = Broker(directory, SETTINGS).start()
    with RawConnection(broker.bootstrap) as connection:
        report.check(create(connection, TOPIC, PRODUCERS) == 0, "the topic was not created")
    starts: list[float] = []
    for life in range(kills):
        producers = [
            Producer(broker.bootstrap, number, acknowledged_values, life * 1_000_000)
            for number, acknowledged_values in enumerate(acknowledged)
        ]
        for producer in producers:
            producer.start()
        time.sleep(rng.random() * LOAD_SECONDS_MAX)
        broker.kill()
        for producer in producers:
            producer.join(20)
            report.check(producer.problem is None, f"kill {life}: {producer.problem}")
        report.faults += 1
        began = time.monotonic()
        broker.start()
        starts.append(time.monotonic() - began)
        _check(broker, acknowledged, f"kill {life}", report)
    broker.stop()
    broker.start()
    _check(broker, acknowledged, "after a stop in order", report)
    broker.stop()
    report.acknowledged = sum(map(len, acknowledged))
    starts.sort()
    report.outcomes[
        f"kills; start with recovery, s: median {starts[len(starts) // 2]:.2f}, worst {starts[-1]:.2f}"
    ] = kills
    return report


def _check(broker: Broker, acknowledged: list[dict[int, bytes]], when: str, report: FaultReport) -> None:
    with RawConnection(broker.bootstrap) as connection:
        for partition, acknowledged_values in enumerate(acknowledged):
            try:
                values = read_values(connection, TOPIC, partition)
            except ValueError as wrong:
                report.violate(f"{when}: {wrong}")
                continue
            _compare(values, acknowledged_values, f"{when}, partition {partition}", report)


def _compare(
    values: Mapping[int, bytes | None], acknowledged_values: dict[int, bytes], when: str, report: FaultReport
) -> None:
    missing = [offset for offset, value in acknowledged_values.items() if values.get(offset) != value]
    report.check(not missing, f"{when}: {len(missing)} acknowledged records lost, the first at {missing[:1]}")
    report.check(list(values) == list(range(len(values))), f"{when}: offsets are not consecutive")
