"""Pipelines on a real Spark: their lag while they run, where they begin after a reset, and replays."""

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
from tests.spark.pipelines.pipeline_stage import HOUR_MS, Pipeline, confluent_lag, moment, now_ms

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
"""Seconds on a machine that does much else; a few are enough on one that does not."""
pytestmark = pytest.mark.timeout(2 * SECONDS_MAX)

LAKE = 'type = "delta"\npath = "lake"'


@pytest.fixture
def pipeline(tmp_path: Path, bootstrap: str, topic: str) -> Pipeline:
    one = Pipeline(tmp_path, bootstrap, topic)
    one.write(LAKE)
    return one


@contextmanager
def query_of(spark: SparkSession, spec: Spec, *, once: bool) -> Iterator[StreamingQuery]:
    """The query of a pipeline, as its driver starts it, in the session that tests share."""
    query = sinks.start_query(driver.outgoing_frame(spark, spec, streaming=True), spec, once=once)
    try:
        yield query
    finally:
        query.stop()


def run_once(spark: SparkSession, pipeline: Pipeline) -> None:
    with query_of(spark, read_spec(pipeline.file), once=True) as query:
        assert query.awaitTermination(SECONDS_MAX)


def lake(pipeline: Pipeline) -> Counter[tuple[int, int]]:
    """How often the table has each record, by partition and offset."""
    table = DeltaTable(str(pipeline.directory / "lake")).to_pyarrow_table(columns=["partition", "offset"])
    return Counter(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


def test_lag_of_a_running_pipeline_is_what_confluent_computes(
    spark: SparkSession, pipeline: Pipeline
) -> None:
    """A transaction that is still open holds rows back for as long as it takes to look at them."""
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
        see_lag(pipeline, query, {0: 5, 1: 0})
        producer.commit_transaction()
        see_lag(pipeline, query, {0: 0, 1: 0})
        reports = [json.loads(one.json) for one in query.recentProgress]
    standing = heard(reports)
    assert (standing.row_count, standing.state) == (75, RunState.RUNNING)
    assert standing.last is not None
    assert (standing.last.lag_rows, standing.last.lag_s) == (0, 0.0)
    assert lake(pipeline) == {(0, n): 1 for n in range(45)} | {(1, n): 1 for n in range(30)}


def see_lag(pipeline: Pipeline, query: StreamingQuery, wanted: dict[int, int]) -> None:
    """Wait until the other client computes this lag, and see that our command does, too."""
    deadline = time.monotonic() + SECONDS_MAX
    while (lag := confluent_lag(pipeline)) != wanted:
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, lag
        time.sleep(0.2)
    assert {one["partition"]: one["lag_rows"] for one in pipeline.json("lag")} == wanted


def heard(reports: list[dict[str, object]]) -> RunStatus:
    """How a pipeline stands after these reports of Spark's."""
    out = io.StringIO()
    listener = RunMonitor(
        RunStatus("orders", 1, "castle", 0, 0), system_environment().clock, LineDisplay(out)
    )
    for report in reports:
        assert listener.hear(json.dumps({"event": "progress", "progress": report})) == "progress"
    assert "driver:" not in out.getvalue()
    return listener.standing


def test_after_a_reset_the_next_run_begins_there(spark: SparkSession, pipeline: Pipeline) -> None:
    pipeline.send(0, *[now_ms()] * 10)
    pipeline.send(1, now_ms())
    run_once(spark, pipeline)
    assert set(lake(pipeline).values()) == {1}
    where = json.dumps({pipeline.topic: {"0": 7}})
    pipeline.call("reset", "--to", where, "--execute")
    assert [one["lag_rows"] for one in pipeline.json("lag")] == [3, 0]
    run_once(spark, pipeline)
    twice = {place for place, count in lake(pipeline).items() if count == 2}
    assert twice == {(0, 7), (0, 8), (0, 9)}
    assert [one["lag_rows"] for one in pipeline.json("lag")] == [0, 0]


def test_a_window_replayed_twice_is_written_once_more_and_no_more(
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
    window = ("--from", moment(begin + 1000), "--to", moment(begin + 3000))
    pipeline.call("replay", *window, "--execute")
    replayed = {(0, 0): 1, (0, 1): 2, (0, 2): 2, (0, 3): 1, (1, 0): 2}
    assert lake(pipeline) == replayed
    # One that comes late into the window is told, and not taken for one of those written before.
    pipeline.send(1, begin + 2000)
    again = pipeline.call("replay", *window, "--execute")
    assert "was replayed before" in again.stderr
    assert "1 rows came into the window since then" in again.stderr
    assert lake(pipeline) == replayed


def test_a_plan_shows_the_columns_and_finds_what_does_not_fit(
    spark: SparkSession, pipeline: Pipeline
) -> None:
    pipeline.write(LAKE, more='[transform]\nsql = "clean.sql"')
    query = pipeline.directory / "clean.sql"

    def plan(text: str) -> list[tuple[str, bool, str]]:
        query.write_text(text)
        return [(one.what, one.ok, one.found) for one in planned(spark, read_spec(pipeline.file))]

    assert plan("SELECT partition, offset FROM source") == [
        ("plan", True, "partition int, offset bigint"),
        ("sink schema", True, "the table will be made"),
    ]
    ((_, is_fine, found),) = plan("SELECT nothing FROM source")
    assert not is_fine
    assert "`nothing`" in found
    ((_, is_fine, found),) = plan("SELECT topic, count(*) AS n FROM source GROUP BY topic")
    assert not is_fine
    assert "watermark" in found
    pipeline.send(0, now_ms())
    query.write_text("SELECT partition, offset FROM source")
    run_once(spark, pipeline)
    assert plan("SELECT partition, offset FROM source")[1] == ("sink schema", True, "the same columns")
    _, (what, is_fine, _) = plan("SELECT partition, topic AS offset FROM source")
    assert (what, is_fine) == ("sink schema", False)
