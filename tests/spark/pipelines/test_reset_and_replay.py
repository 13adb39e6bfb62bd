"""Pipelines on Spark: their lag while they run, resets and replays."""

from __future__ import annotations

import io
import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.spark.pipelines.pipeline_stage import HOUR_MS, Pipeline, confluent_lag, iso_time, now_ms

from odradek import Producer
from odradek.client.environment import system_environment
from odradek.pipelines.monitoring.display import LineDisplay
from odradek.pipelines.monitoring.run_monitor import RunMonitor
from odradek.pipelines.monitoring.run_status import RunState, RunStatus
from odradek.pipelines.query import sinks
from odradek.pipelines.run import driver, supervisor
from odradek.pipelines.run.plan_check import planned
from odradek.pipelines.spec.reader import Spec, read_spec

SECONDS_MAX = 150
"""Generous, for a busy machine."""
pytestmark = pytest.mark.timeout(2 * SECONDS_MAX)

LAKE = 'type = "delta"\npath = "lake"'


@pytest.fixture
def pipeline(tmp_path: Path, bootstrap: str, topic: str) -> Pipeline:
    pipeline = Pipeline(tmp_path, bootstrap, topic)
    pipeline.write(LAKE)
    return pipeline


@contextmanager
def query_of(spark: SparkSession, spec: Spec, *, once: bool) -> Iterator[StreamingQuery]:
    """Start the query of a pipeline as its driver does, in the shared session."""
    query = sinks.start_query(driver.outgoing_frame(spark, spec, streaming=True), spec, once=once)
    try:
        yield query
    finally:
        query.stop()


def run_once(spark: SparkSession, pipeline: Pipeline) -> None:
    with query_of(spark, read_spec(pipeline.file), once=True) as query:
        assert query.awaitTermination(SECONDS_MAX)


def lake(pipeline: Pipeline) -> Counter[tuple[int, int]]:
    """Return the number of occurrences of each record in the table, by partition and offset."""
    table = DeltaTable(str(pipeline.directory / "lake")).to_pyarrow_table(columns=["partition", "offset"])
    return Counter(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


def test_lag_of_a_running_pipeline_equals_confluents(spark: SparkSession, pipeline: Pipeline) -> None:
    """An open transaction holds rows back until the lag has been checked."""
    pipeline.file.write_text(
        pipeline.file.read_text().replace("[source]", 'trigger = "500 milliseconds"\n[source]')
    )
    pipeline.commit(p0=0, p1=0)
    pipeline.send(0, *[now_ms()] * 40)
    pipeline.send(1, *[now_ms()] * 30)
    with (
        Producer(bootstrap_servers=pipeline.bootstrap, transactional_id=pipeline.group) as producer,
        query_of(spark, read_spec(pipeline.file), once=False) as query,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        for _ in range(5):
            producer.send(pipeline.topic, b"held back", partition=0)
        producer.flush()
        wait_for_lag(pipeline, query, {0: 5, 1: 0})
        producer.commit_transaction()
        wait_for_lag(pipeline, query, {0: 0, 1: 0})
        reports = [json.loads(progress.json) for progress in query.recentProgress]
    status = run_status(reports)
    assert (status.row_count, status.state) == (75, RunState.RUNNING)
    assert status.last is not None
    assert (status.last.lag_rows, status.last.lag_s) == (0, 0.0)
    assert lake(pipeline) == {(0, n): 1 for n in range(45)} | {(1, n): 1 for n in range(30)}


def wait_for_lag(pipeline: Pipeline, query: StreamingQuery, expected: dict[int, int]) -> None:
    """Wait until another client computes this lag, and check that our command does too."""
    deadline = time.monotonic() + SECONDS_MAX
    while (lag := confluent_lag(pipeline)) != expected:
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, lag
        time.sleep(0.2)
    assert {row["partition"]: row["lag_rows"] for row in pipeline.json("lag")} == expected


def run_status(reports: list[dict[str, object]]) -> RunStatus:
    """Return the status of a run after these reports of Spark."""
    out = io.StringIO()
    monitor = RunMonitor(RunStatus("orders", 1, "castle", 0, 0), system_environment().clock, LineDisplay(out))
    for report in reports:
        assert monitor.handle_line(json.dumps({"event": "progress", "progress": report})) == "progress"
    assert "driver:" not in out.getvalue()
    return monitor.status


def test_run_after_a_reset_starts_at_its_offsets(spark: SparkSession, pipeline: Pipeline) -> None:
    pipeline.send(0, *[now_ms()] * 10)
    pipeline.send(1, now_ms())
    run_once(spark, pipeline)
    assert set(lake(pipeline).values()) == {1}
    where = json.dumps({pipeline.topic: {"0": 7}})
    pipeline.call("reset", "--to", where, "--execute")
    assert [row["lag_rows"] for row in pipeline.json("lag")] == [3, 0]
    run_once(spark, pipeline)
    twice = {record for record, count in lake(pipeline).items() if count == 2}
    assert twice == {(0, 7), (0, 8), (0, 9)}
    assert [row["lag_rows"] for row in pipeline.json("lag")] == [0, 0]


def test_repeated_replay_writes_a_window_once(
    spark: SparkSession, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replay_here(spec: Spec, *, replay_id: str, **_: object) -> int:
        assert driver._replay(spark, spec, replay_id) == 3
        return 0

    monkeypatch.setattr(supervisor, "replay", replay_here)
    begin = now_ms() - HOUR_MS
    pipeline.send(0, begin, begin + 1000, begin + 2000, begin + 3000)
    pipeline.send(1, begin + 1500)
    run_once(spark, pipeline)
    window = ("--from", iso_time(begin + 1000), "--to", iso_time(begin + 3000))
    pipeline.call("replay", *window, "--execute")
    replayed = {(0, 0): 1, (0, 1): 2, (0, 2): 2, (0, 3): 1, (1, 0): 2}
    assert lake(pipeline) == replayed
    # A record that arrives in the window later is reported, and not written.
    pipeline.send(1, begin + 2000)
    again = pipeline.call("replay", *window, "--execute")
    assert "was replayed before" in again.stderr
    assert "1 rows arrived in the window since then" in again.stderr
    assert lake(pipeline) == replayed


def test_plan_check_shows_columns_and_mismatches(spark: SparkSession, pipeline: Pipeline) -> None:
    pipeline.write(LAKE, more='[transform]\nsql = "clean.sql"')
    query = pipeline.directory / "clean.sql"

    def plan(text: str) -> list[tuple[str, bool, str]]:
        query.write_text(text)
        return [(check.what, check.ok, check.found) for check in planned(spark, read_spec(pipeline.file))]

    assert plan("SELECT partition, offset FROM source") == [
        ("plan", True, "partition int, offset bigint"),
        ("sink schema", True, "the table will be created"),
    ]
    ((_, is_fine, finding),) = plan("SELECT nothing FROM source")
    assert not is_fine
    assert "`nothing`" in finding
    ((_, is_fine, finding),) = plan("SELECT topic, count(*) AS n FROM source GROUP BY topic")
    assert not is_fine
    assert "watermark" in finding
    pipeline.send(0, now_ms())
    query.write_text("SELECT partition, offset FROM source")
    run_once(spark, pipeline)
    assert plan("SELECT partition, offset FROM source")[1] == ("sink schema", True, "the same columns")
    _, (what, is_fine, _) = plan("SELECT partition, topic AS offset FROM source")
    assert (what, is_fine) == ("sink schema", False)
