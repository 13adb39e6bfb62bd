"""The shipped pipelines, run with only addresses and topic names changed.

They run in the shared session, through the functions of the driver.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.spark.topic_content import committed_records, make_topic

from odradek import Producer
from odradek.pipelines.commands.shipped_files import copy_kind
from odradek.pipelines.monitoring.progress import Progress, read_progress
from odradek.pipelines.query import sinks
from odradek.pipelines.run import driver
from odradek.pipelines.spec.reader import Spec, read_spec

SECONDS_MAX = 150
"""Generous, for a busy machine."""
pytestmark = pytest.mark.timeout(2 * SECONDS_MAX)

ADDRESS, TOPIC = "127.0.0.1:9092", "orders"
Order = dict[str, Any]


class Stage:
    """A shipped pipeline with its own directory and topics."""

    def __init__(self, kind: str, directory: Path, bootstrap: str, topic: str) -> None:
        self.directory, self.bootstrap, self.topic = directory, bootstrap, topic
        self.file = copy_kind(kind, directory)[0]
        text = self.file.read_text().replace(ADDRESS, bootstrap)
        self.file.write_text(text.replace(f'"{TOPIC}', f'"{topic}'))
        make_topic(bootstrap, topic, 2)

    @property
    def spec(self) -> Spec:
        return read_spec(self.file)

    def make_topics(self, *suffixes: str) -> None:
        for suffix in suffixes:
            make_topic(self.bootstrap, self.topic + suffix, 2)

    def send(self, partition: int, *orders: Order | bytes) -> None:
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            for order in orders:
                value = order if isinstance(order, bytes) else json.dumps(order).encode()
                producer.send(self.topic, value, partition=partition)

    def run_once(self, spark: SparkSession) -> list[Progress]:
        """Process all available records; return the progress of each batch."""
        spec = self.spec
        query = sinks.start_query(driver.outgoing_frame(spark, spec, streaming=True), spec, once=True)
        try:
            assert query.awaitTermination(SECONDS_MAX), "the query did not end"
            return [read_progress(json.loads(progress.json)) for progress in query.recentProgress]
        finally:
            query.stop()

    def remove_last_commit(self) -> None:
        """Simulate the death of the driver right before it writes the last commit."""
        commits = Path(self.spec.checkpoint) / "commits"
        last = max(
            (file for file in commits.iterdir() if file.name.isdigit()), key=lambda file: int(file.name)
        )
        last.unlink()
        (commits / f".{last.name}.crc").unlink(missing_ok=True)

    def records(self, suffix: str) -> Counter[tuple[bytes | None, str]]:
        """Return the number of occurrences of each committed key and value in a topic."""
        records = committed_records(self.bootstrap, self.topic + suffix)
        return Counter((record.key, (record.value or b"").decode()) for record in records)

    def table(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = DeltaTable(str(self.spec.sink.path)).to_pyarrow_table().to_pylist()
        return rows


def order(number: int, minute: int = 0, place: str = "castle", amount: float = 10.0) -> Order:
    return {"id": number, "place": place, "at": f"2026-01-31T12:{minute:02}:00Z", "amount": amount}


def test_topic_to_table_writes_every_order_once_and_dead_letters_separately(
    spark: SparkSession, tmp_path: Path, bootstrap: str, topic: str
) -> None:
    stage = Stage("topic-to-table", tmp_path, bootstrap, topic)
    stage.make_topics(".dead")
    stage.send(0, *(order(number) for number in range(60)))
    stage.send(1, *(order(number) for number in range(60, 119)), b"no JSON")
    batches = stage.run_once(spark)
    assert sum(batch.dead_letter_count for batch in batches) == 1
    assert sum(batch.row_count for batch in batches) == 120
    stage.send(0, order(119))
    stage.run_once(spark)
    rows = sorted(stage.table(), key=lambda row: row["id"])
    assert [row["id"] for row in rows] == list(range(120))
    assert {(row["place"], row["amount"], row["at"]) for row in rows} == {
        ("castle", 10.0, datetime(2026, 1, 31, 12, tzinfo=UTC))
    }
    origins = [(row["record"]["partition"], row["record"]["offset"]) for row in rows]
    assert origins == [*((0, n) for n in range(60)), *((1, n) for n in range(59)), (0, 60)]
    (dead,) = committed_records(bootstrap, topic + ".dead")
    assert dead.value == b"no JSON"
    assert dict(dead.headers)["dead.offset"] == b"59"


def test_topic_to_topic_writes_each_result_once_despite_a_replay(
    spark: SparkSession, tmp_path: Path, bootstrap: str, topic: str
) -> None:
    stage = Stage("topic-to-topic", tmp_path, bootstrap, topic)
    stage.make_topics(".large")
    stage.send(0, *(order(number, amount=number) for number in range(90, 110)))
    stage.send(1, order(1, place="inn", amount=100.456), order(2, amount=99.9))
    stage.run_once(spark)
    large = [
        (0, offset, number, "castle", float(number)) for offset, number in enumerate(range(100, 110), 10)
    ]
    expected = Counter(result(*fields) for fields in [*large, (1, 0, 1, "inn", 100.46)])
    assert stage.records(".large") == expected
    stage.remove_last_commit()
    stage.send(1, order(3, amount=300))
    stage.run_once(spark)
    assert stage.records(".large") == expected + Counter([result(1, 2, 3, "castle", 300.0)])


def result(partition: int, offset: int, number: int, place: str, amount: float) -> tuple[bytes, str]:
    row = {
        "id": number,
        "place": place.upper(),
        "at": "2026-01-31T12:00:00.000000Z",
        "amount": amount,
        "from_partition": partition,
        "from_offset": offset,
    }
    return place.upper().encode(), json.dumps(row, separators=(",", ":"))


def test_windows_count_every_row_once_and_late_rows_exactly(
    spark: SparkSession, tmp_path: Path, bootstrap: str, topic: str
) -> None:
    """Rows read are rows in the table, rows in open windows, and late rows."""
    stage = Stage("windows", tmp_path, bootstrap, topic)
    # Two windows, 12:00 and 12:10; then 12:55, so that the watermark is 12:35 and both are closed.
    stage.send(0, *(order(n, minute=n) for n in range(10)), *(order(n, minute=11) for n in range(10, 15)))
    stage.send(1, order(15, minute=3, place="inn"), order(16, minute=55))
    first = stage.run_once(spark)
    # Late: five rows in three groups. One row is behind the watermark, but its window ends at 12:40.
    late = [order(20, minute=1), order(21, minute=2), order(22, minute=2, place="inn"), order(23, minute=12)]
    stage.send(0, *late)
    stage.send(1, order(24, minute=3), order(25, minute=34))
    second = stage.run_once(spark)
    windows = {(row["place"], row["window_start"].minute): row["row_count"] for row in stage.table()}
    assert windows == {("castle", 0): 10, ("castle", 10): 5, ("inn", 0): 1}
    assert {row["amount"] for row in stage.table()} == {100.0, 50.0, 10.0}
    assert open_windows(spark, stage.spec) == {("castle", 30): 1, ("castle", 50): 1}
    read = sum(batch.row_count for batch in [*first, *second])
    late_rows = read - sum(windows.values()) - 2
    assert (read, late_rows) == (23, 5)
    # Spark counts dropped rows after partial aggregation by group.
    assert sum(batch.late_dropped_count for batch in second) == 3


def open_windows(spark: SparkSession, spec: Spec) -> Mapping[tuple[str, int], int]:
    """Return the rows in open windows, from Spark's state store in the checkpoint."""
    state = spark.read.format("statestore").load(spec.checkpoint)
    rows = state.selectExpr("key.place AS place", "minute(key.window.start) AS minute", "value.count AS n")
    return {(row.place, row.minute): row.n for row in rows.collect()}


def test_table_to_topic_sends_added_rows_once_despite_a_replay(
    spark: SparkSession, tmp_path: Path, bootstrap: str, topic: str
) -> None:
    stage = Stage("table-to-topic", tmp_path, bootstrap, topic)
    stage.make_topics(".from.table")
    add_rows(spark, stage.spec, range(50))
    stage.run_once(spark)
    assert stage.records(".from.table") == Counter(expected_records(range(50)))
    add_rows(spark, stage.spec, range(50, 60))
    add_rows(spark, stage.spec, range(60, 65))
    stage.run_once(spark)
    assert stage.records(".from.table") == Counter(expected_records(range(65)))
    stage.remove_last_commit()
    stage.run_once(spark)
    assert stage.records(".from.table") == Counter(expected_records(range(65)))


def add_rows(spark: SparkSession, spec: Spec, numbers: range) -> None:
    """Add a version to the table."""
    rows = spark.range(numbers.start, numbers.stop, numPartitions=2).selectExpr("id", "id * 1.5D AS amount")
    rows.write.format("odradek_delta").mode("append").save(str(spec.source.path))


def expected_records(numbers: range) -> Iterator[tuple[bytes, str]]:
    for number in numbers:
        yield str(number).encode(), f'{{"id":{number},"amount":{number * 1.5}}}'
