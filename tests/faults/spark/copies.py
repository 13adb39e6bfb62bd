"""The source topic and its three copies: progress, and the final comparison.

The copies are compared with the log of the source record by record: each partition and offset must be in a
copy, exactly once where the copy guarantees that.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from tests.faults.fault_report import FaultReport
from tests.faults.spark.driver import SINKS, SOURCE, TABLE, TOPICS

from odradek import Admin, Consumer, NewTopic, OffsetSpec, Producer, TopicPartition
from odradek.model.client_errors import ClientError

PARTITIONS = 2
FEED_RECORDS = 25
FEED_SECONDS = 0.2


class Feed:
    """Writes to the source until stopped; waits while the broker is down."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: list[str] = []
        self.failure: ClientError | None = None
        self._bootstrap = bootstrap
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> Feed:
        names = [SOURCE, *(f"{SOURCE}.{guarantee}" for guarantee in TOPICS)]
        with Admin(bootstrap_servers=self._bootstrap) as admin:
            admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names])
        self._thread.start()
        return self

    def _run(self) -> None:
        number = 0
        try:
            with Producer(bootstrap_servers=self._bootstrap) as producer:
                while not self._stopping.wait(FEED_SECONDS):
                    values = [f"record {number + count}" for count in range(FEED_RECORDS)]
                    number += FEED_RECORDS
                    sent = [value.encode() for value in values]
                    producer.send_many(SOURCE, sent, keys=sent).result()
                    self.acknowledged += values
        except ClientError as failed:
            self.failure = failed

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


class Copies:
    """The output of the queries so far."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._bootstrap = bootstrap
        self._table = directory / TABLE

    def mark(self, admin: Admin, sink: str) -> Callable[[], int]:
        """Return the visible size of a copy, as an increasing number."""

        def end() -> int:
            with_position = dict.fromkeys(_partitions(f"{SOURCE}.{sink}"), OffsetSpec.LATEST)
            values = admin.list_offsets(with_position, isolation_level="read_committed")
            return sum(offsets.offset for offsets in values.values())

        def versions() -> int:
            return len(list((self._table / "_delta_log").glob("*.json")))

        return versions if sink == TABLE else end

    def check_history(self, acknowledged: list[str], report: FaultReport) -> None:
        """Compare each copy with the log."""
        log = self._read(SOURCE, with_place=True)
        stored = {value.split(":", 2)[2] for value in log}
        missing = [value for value in acknowledged if value not in stored]
        report.check(
            not missing, f"{len(missing)} acknowledged records are not in the source, as {missing[:3]}"
        )
        report.acknowledged = len(acknowledged)
        report.outcomes["records in the source"] = len(log)
        for sink in SINKS:
            rows = self._rows() if sink == TABLE else self._read(f"{SOURCE}.{sink}", with_place=False)
            _classify(sink, set(log), Counter(rows), report)

    def _rows(self) -> list[str]:
        rows: list[str] = pa.table(DeltaTable(str(self._table)).scan())["value"].to_pylist()
        return rows

    def _read(self, topic: str, *, with_place: bool) -> list[str]:
        """Return read_committed values, prefixed by partition and offset if requested."""
        with Consumer(bootstrap_servers=self._bootstrap, isolation_level="read_committed") as consumer:
            partitions = _partitions(topic)
            consumer.assign(partitions)
            consumer.seek_to_beginning()
            ends = consumer.end_offsets(partitions)
            values = []
            while any(consumer.position(position) < ends[position] for position in partitions):
                for record in consumer.poll(timeout_s=1):
                    assert record.value is not None
                    value = record.value.decode()
                    values.append(f"{record.partition}:{record.offset}:{value}" if with_place else value)
        return values


def _partitions(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(PARTITIONS)]


def _classify(sink: str, expected: set[str], copies: Counter[str], report: FaultReport) -> None:
    missing, strange = expected - copies.keys(), copies.keys() - expected
    surplus = copies.total() - len(copies)
    report.check(not missing, f"{sink}: {len(missing)} records are missing, as {sorted(missing)[:3]}")
    report.check(
        not strange, f"{sink}: {len(strange)} records that were never sent, as {sorted(strange)[:3]}"
    )
    if sink != "at_least_once":
        twice = [value for value, count in copies.items() if count > 1]
        report.check(not surplus, f"{sink}: {surplus} records too many, as {twice[:3]}")
    report.outcomes[f"{sink}: records too many"] = surplus
    report.outcomes[f"{sink}: records missing"] = len(missing)
