"""Failures of a pipeline: their messages, and recovery with the same checkpoint, every record once."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.pipelines.pipeline_stage import Pipeline, now_ms
from tests.spark.source_topics import make_topic, recreate_topic, write
from tests.support.fixtures import StartBroker

from odradek import Admin, TopicPartition
from odradek.pipelines.checkpoint import topic_ids
from odradek.pipelines.checkpoint.checkpoint import Checkpoint
from odradek.pipelines.query import sinks, topic_checks
from odradek.pipelines.query.sinks import InvalidSink
from odradek.pipelines.run import driver
from odradek.pipelines.spec.reader import Spec, read_spec

ACCEPTED = 'options = { failOnDataLoss = "false" }'
PARQUET = 'type = "parquet"\npath = "rows"'

MakeSpec = Callable[..., Spec]


@pytest.fixture
def spec(tmp_path: Path, bootstrap: str, topic: str) -> MakeSpec:
    """Return a factory of this test's pipeline, with lines added to its source or sink."""

    def make(source: str = "", sink: str = PARQUET, more: str = "", brokers: str = bootstrap) -> Spec:
        file = tmp_path / "bad.toml"
        file.write_text(
            f"""
[pipeline]
name = "bad-{"-".join(topic.rsplit("-", 2)[1:])}"
checkpoint = "checkpoint"
[source]
brokers = "{brokers}"
topics = ["{topic}"]
{source}
[sink]
{sink}
{more}
"""
        )
        return read_spec(file)

    return make


def run_once(spark: SparkSession, spec: Spec) -> None:
    """Run a query as the driver process does, in the shared session."""
    topic_ids.record_topic_ids(spec, Checkpoint(spec.checkpoint))
    frame = driver.outgoing_frame(spark, spec, streaming=True)
    query = sinks.start_query(frame, spec, once=True)
    report = driver.Report(os.open(os.devnull, os.O_WRONLY))
    try:
        monitor = driver.QueryMonitor(query, spec, report, driver.SupervisorCommands())
        assert monitor.wait() == "once"
    finally:
        query.stop()
        report.close()


def failure_message(spark: SparkSession, spec: Spec) -> str:
    """Return the message of a run that fails permanently."""
    with pytest.raises(Exception) as failed:  # noqa: PT011 - the caller checks the message
        run_once(spark, spec)
    failure = driver.failure_of(failed.value)
    assert not failure.retry
    return failure.message


def rows_of(spark: SparkSession, spec: Spec) -> list[str]:
    read = spark.read.parquet(str(spec.sink.path)).selectExpr("string(value) AS text").collect()
    return sorted(row.text for row in read)


def test_topic_recreated_between_runs_is_reported_and_read_once_accepted(
    spark: SparkSession, bootstrap: str, topic: str, spec: MakeSpec
) -> None:
    make_topic(bootstrap, topic)
    write(bootstrap, topic, ["a0", "a1"])
    run_once(spark, spec())
    recreate_topic(bootstrap, topic)
    write(bootstrap, topic, ["b0", "b1", "b2"])
    message = failure_message(spark, spec())
    assert f"topic {topic} was deleted and recreated" in message
    assert "odradek pipeline reset" in message
    run_once(spark, spec(ACCEPTED))
    both = ["a0", "a1", "b0", "b1", "b2"]
    assert rows_of(spark, spec()) == both
    # The group has the topic id too; without it the stored id counts.
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_groups([spec().observe.group])
    run_once(spark, spec())
    assert rows_of(spark, spec()) == both


def test_expired_offsets_are_reported_and_skipped_once_accepted(
    spark: SparkSession, bootstrap: str, topic: str, spec: MakeSpec
) -> None:
    make_topic(bootstrap, topic)
    write(bootstrap, topic, "ab")
    run_once(spark, spec())
    write(bootstrap, topic, "cd")
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 3})
    assert f"{topic}-0: offsets 2 to 2 are lost: the log now starts at 3" in failure_message(spark, spec())
    run_once(spark, spec(ACCEPTED))
    run_once(spark, spec())
    assert rows_of(spark, spec()) == ["a", "b", "d"]


def test_damaged_checkpoint_is_reported_and_works_after_restoring_the_file(
    spark: SparkSession, bootstrap: str, topic: str, spec: MakeSpec
) -> None:
    make_topic(bootstrap, topic)
    write(bootstrap, topic, "a")
    run_once(spark, spec())
    write(bootstrap, topic, "b")
    for name in ("offsets/1", "odradek/topics.json"):
        file = Path(spec().checkpoint) / name
        content = file.read_bytes()
        file.write_bytes(b"")
        message = failure_message(spark, spec())
        assert str(file) in message
        assert "odradek pipeline reset" in message
        file.write_bytes(content)
    run_once(spark, spec())
    assert rows_of(spark, spec()) == ["a", "b"]


@pytest.mark.parametrize(
    ("query", "pattern"),
    [
        ("selec id from source", r"bad.sql: .* at or near 'selec'.* \(line 1, pos 0\)"),
        ("select idd from source", r"bad.sql: .*`idd` cannot be resolved.*`id`"),
        ("select 1 as id", "bad.sql must read the view source"),
        ("select count(*) as n from source", r"output mode: append.*needs \[source\] watermark"),
    ],
)
def test_invalid_query_is_reported_with_its_file(
    spark: SparkSession, bootstrap: str, topic: str, spec: MakeSpec, tmp_path: Path, query: str, pattern: str
) -> None:
    make_topic(bootstrap, topic)
    (tmp_path / "bad.sql").write_text(query)
    value = 'value = { format = "json", schema = "id bigint" }'
    message = failure_message(spark, spec(value, more='[transform]\nsql = "bad.sql"'))
    assert re.search(pattern, message), message


def test_missing_sink_topic_is_reported_before_reading(start_broker: StartBroker, spec: MakeSpec) -> None:
    sink = 'type = "topic"\ntopic = "not-there"'
    strict = start_broker({"auto.create.topics.enable": "false"})
    with pytest.raises(InvalidSink, match=r"topic not-there .* does not exist .* odradek topics create"):
        topic_checks.check_sink_topics(spec(sink=sink, brokers=strict.bootstrap))
    # Auto-created topics need not exist.
    topic_checks.check_sink_topics(spec(sink=sink))


def test_unreadable_checkpoint_can_be_reset_and_is_kept(tmp_path: Path, bootstrap: str, topic: str) -> None:
    pipeline = Pipeline(tmp_path, bootstrap, topic)
    pipeline.send(0, now_ms())
    pipeline.write_batch(0, {"0": 1, "1": 0})
    (pipeline.checkpoint / "offsets" / "0").write_text("")
    assert "offsets/0 is not a valid offset log" in pipeline.call("run", "--once", status=1).output
    pipeline.call("reset", "--to", "earliest", "--execute")
    (kept,) = tmp_path.glob("checkpoint.before-*")
    assert (kept / "offsets" / "0").exists()
    assert not (pipeline.checkpoint / "offsets").exists()
