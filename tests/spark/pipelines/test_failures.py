"""Bad days of a pipeline: what it says, and that the same checkpoint then goes on with every record once."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.pipelines.pipeline_stage import Pipeline, now_ms
from tests.spark.source_topics import make_topic, remake_topic, write
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
    """The pipeline of this test, with the lines given added to its source or changed in its sink."""

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
    """What the driver process does, in the session of the tests."""
    topic_ids.record_topic_ids(spec, Checkpoint(spec.checkpoint))
    frame = driver.outgoing_frame(spark, spec, streaming=True)
    query = sinks.start_query(frame, spec, once=True)
    unheard = driver.Report(os.open(os.devnull, os.O_WRONLY))
    try:
        assert driver.Watch(query, spec, unheard, driver.Orders()).until_over() == "once"
    finally:
        query.stop()
        unheard.close()


def refusal(spark: SparkSession, spec: Spec) -> str:
    """What the runner says of a run that fails for good."""
    with pytest.raises(Exception) as failed:  # noqa: PT011 - what it says is looked at by the caller
        run_once(spark, spec)
    failure = driver.failure_of(failed.value)
    assert not failure.retry
    return failure.message


def rows_of(spark: SparkSession, spec: Spec) -> list[str]:
    read = spark.read.parquet(str(spec.sink.path)).selectExpr("string(value) AS text").collect()
    return sorted(row.text for row in read)


def test_a_topic_made_again_while_nobody_ran_is_told_and_once_accepted_read_once(
    spark: SparkSession, bootstrap: str, topic: str, spec: MakeSpec
) -> None:
    make_topic(bootstrap, topic)
    write(bootstrap, topic, ["a0", "a1"])
    run_once(spark, spec())
    remake_topic(bootstrap, topic)
    write(bootstrap, topic, ["b0", "b1", "b2"])
    words = refusal(spark, spec())
    assert f"topic {topic} was deleted and made again" in words
    assert "odradek pipeline reset" in words
    run_once(spark, spec(ACCEPTED))
    both = ["a0", "a1", "b0", "b1", "b2"]
    assert rows_of(spark, spec()) == both
    # The group remembers the topic too; without it, it is the pin that counts.
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_groups([spec().observe.group])
    run_once(spark, spec())
    assert rows_of(spark, spec()) == both


def test_expired_offsets_are_told_and_the_checkpoint_goes_on_once_the_loss_is_accepted(
    spark: SparkSession, bootstrap: str, topic: str, spec: MakeSpec
) -> None:
    make_topic(bootstrap, topic)
    write(bootstrap, topic, "ab")
    run_once(spark, spec())
    write(bootstrap, topic, "cd")
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 3})
    assert f"{topic}-0: offsets 2 to 2 are gone, as the log now starts at 3" in refusal(spark, spec())
    run_once(spark, spec(ACCEPTED))
    run_once(spark, spec())
    assert rows_of(spark, spec()) == ["a", "b", "d"]


def test_a_damaged_checkpoint_is_told_and_goes_on_when_the_file_is_put_back(
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
        words = refusal(spark, spec())
        assert str(file) in words
        assert "odradek pipeline reset" in words
        file.write_bytes(content)
    run_once(spark, spec())
    assert rows_of(spark, spec()) == ["a", "b"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("selec id from source", r"bad.sql: .* at or near 'selec'.* \(line 1, pos 0\)"),
        ("select idd from source", r"bad.sql: .*`idd` cannot be resolved.*`id`"),
        ("select 1 as id", "bad.sql must read the view source"),
        ("select count(*) as n from source", r"output mode: append.*needs \[source\] watermark"),
    ],
)
def test_a_query_that_cannot_run_is_told_with_its_file(
    spark: SparkSession, bootstrap: str, topic: str, spec: MakeSpec, tmp_path: Path, query: str, words: str
) -> None:
    make_topic(bootstrap, topic)
    (tmp_path / "bad.sql").write_text(query)
    value = 'value = { format = "json", schema = "id bigint" }'
    message = refusal(spark, spec(value, more='[transform]\nsql = "bad.sql"'))
    assert re.search(words, message), message


def test_a_sinks_topic_that_nobody_makes_is_told_before_anything_is_read(
    start_broker: StartBroker, spec: MakeSpec
) -> None:
    sink = 'type = "topic"\ntopic = "not-there"'
    strict = start_broker({"auto.create.topics.enable": "false"})
    with pytest.raises(InvalidSink, match=r"topic not-there .* does not exist .* odradek topics create"):
        topic_checks.check_sink_topics(spec(sink=sink, brokers=strict.bootstrap))
    # Where topics are made when they are written to, there is nothing to say.
    topic_checks.check_sink_topics(spec(sink=sink))


def test_a_checkpoint_that_cannot_be_read_can_be_reset_and_is_kept(
    tmp_path: Path, bootstrap: str, topic: str
) -> None:
    pipeline = Pipeline(tmp_path, bootstrap, topic)
    pipeline.send(0, now_ms())
    pipeline.write_batch(0, {"0": 1, "1": 0})
    (pipeline.checkpoint / "offsets" / "0").write_text("")
    assert "offsets/0 is no log of offsets" in pipeline.call("run", "--once", status=1).output
    pipeline.call("reset", "--to", "earliest", "--execute")
    (kept,) = tmp_path.glob("checkpoint.before-*")
    assert (kept / "offsets" / "0").exists()
    assert not (pipeline.checkpoint / "offsets").exists()
