"""Queries that are stopped, played again and failed: with the marker transaction each row is there once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, udf
from tests.spark.topic_content import committed_records, committed_values, make_topic


class Play:
    """A query from files to a topic, with a checkpoint of its own."""

    def __init__(self, spark: SparkSession, bootstrap: str, topic: str, directory: Path) -> None:
        self.spark, self.bootstrap, self.topic, self.directory = spark, bootstrap, topic, directory
        self.files = directory / "input"
        self.files.mkdir(parents=True)
        make_topic(bootstrap, topic, 2)

    def feed(self, first: int, end: int) -> None:
        """A file of numbers: one micro-batch, with two partitions."""
        (self.files / f"{first}.txt").write_text("".join(f"{number}\n" for number in range(first, end)))

    def run(self, guarantee: str, checkpoint: str = "checkpoint", value: Column | None = None) -> None:
        """Write all there is, a file for each micro-batch."""
        lines = self.spark.readStream.schema("value string").option("maxFilesPerTrigger", 1)
        frame = lines.text(str(self.files)).repartition(2, "value")
        query = (
            self.sent(frame if value is None else frame.withColumn("value", value))
            .writeStream.format("odradek")
            .options(**{"kafka.bootstrap.servers": self.bootstrap, "topic": self.topic})
            .options(guarantee=guarantee, checkpointLocation=str(self.directory / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def sent(self, frame: DataFrame) -> DataFrame:
        return frame.select("value", col("value").alias("key"))

    def forget_the_end_of_batch(self, number: int, checkpoint: str = "checkpoint") -> None:
        """Make the checkpoint what it is when a driver dies right after the last task of a batch."""
        for name in (f"{number}", f".{number}.crc"):
            (self.directory / checkpoint / "commits" / name).unlink(missing_ok=True)

    def values(self) -> list[int]:
        return sorted(int(value) for value in committed_values(self.bootstrap, self.topic))


@pytest.fixture
def play(spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path) -> Iterator[Play]:
    return Play(spark, bootstrap, topic, tmp_path)


def test_a_batch_that_is_played_again_writes_nothing_and_the_next_one_goes_on(play: Play) -> None:
    play.feed(0, 50)
    play.feed(50, 100)
    play.run("exactly_once")
    before = committed_records(play.bootstrap, play.topic)
    play.forget_the_end_of_batch(1)
    play.run("exactly_once")
    assert committed_records(play.bootstrap, play.topic) == before
    play.feed(100, 120)
    play.run("exactly_once")
    assert play.values() == list(range(120))


def test_the_plain_sink_writes_a_batch_that_is_played_again_twice(play: Play) -> None:
    play.feed(0, 50)
    play.run("at_least_once")
    play.forget_the_end_of_batch(0)
    play.run("at_least_once")
    assert Counter(play.values()) == dict.fromkeys(range(50), 2)


def test_a_task_that_fails_leaves_nothing_of_itself_and_succeeds_when_it_is_run_again(
    play: Play, tmp_path: Path
) -> None:
    flag = tmp_path / "failed-once"

    def fails_once(value):  # type: ignore[no-untyped-def]  # Spark would read hints as a wish for pandas
        if value == "99" and not flag.exists():
            flag.touch()
            raise ArithmeticError("fails once")
        return value

    value = udf(fails_once, "string")("value")
    play.feed(0, 100)
    with pytest.raises(StreamingQueryException, match="fails once"):
        play.run("exactly_once", value=value)
    assert 99 not in play.values()
    assert not Counter(play.values()) - Counter(range(100))
    play.run("exactly_once", value=value)
    assert play.values() == list(range(100))


def test_queries_with_checkpoints_of_their_own_do_not_disturb_each_other(play: Play) -> None:
    play.feed(0, 20)
    play.run("exactly_once", "first")
    play.run("exactly_once", "second")
    play.forget_the_end_of_batch(0, "first")
    play.run("exactly_once", "first")
    assert play.values() == sorted([*range(20), *range(20)])


def test_a_session_that_may_deal_rows_otherwise_is_refused(play: Play) -> None:
    setting = "spark.sql.adaptive.streaming.stateless.enabled"
    play.spark.conf.unset(setting)
    try:
        play.feed(0, 5)
        with pytest.raises(StreamingQueryException, match=setting):
            play.run("exactly_once")
    finally:
        play.spark.conf.set(setting, "false")
    assert play.values() == []


def test_a_batch_write_with_an_identity_is_written_once(play: Play) -> None:
    frame = play.sent(play.spark.range(0, 100, 1, 2).selectExpr("cast(id as string) as value"))
    writer = frame.write.format("odradek").mode("append").options(topic=play.topic, guarantee="exactly_once")
    writer.option("kafka.bootstrap.servers", play.bootstrap).option("sinkId", play.topic)
    with pytest.raises(PySparkException, match=r"spark\.sql\.adaptive\.enabled"):
        writer.save()
    play.spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        for _ in range(2):
            writer.save()
    finally:
        play.spark.conf.unset("spark.sql.adaptive.enabled")
    assert play.values() == list(range(100))


def test_enabling_sets_what_exactly_once_needs(play: Play) -> None:
    from odradek.spark import enable

    setting = "spark.sql.adaptive.streaming.stateless.enabled"
    play.spark.conf.unset(setting)
    enable(play.spark)
    assert play.spark.conf.get(setting) == "false"


def test_queries_that_start_at_once_share_no_map_that_breaks(play: Play) -> None:
    from odradek.spark import enable

    context = play.spark.sparkContext
    before = context.environment
    enable(play.spark)
    sources = play.spark._jsparkSession.sessionState().dataSourceManager()
    environment = sources.lookupDataSource("odradek").dataSourceCls().envVars()
    assert environment.getClass().getName() == "java.util.concurrent.ConcurrentHashMap"
    assert dict(environment) == before
    assert context.environment is before
