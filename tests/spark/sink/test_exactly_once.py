"""Queries that are stopped, played again and failed: with the marker transaction each row is there once."""

from __future__ import annotations

import shutil
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, udf
from tests.spark.topic_content import committed_records, committed_values, make_topic

from odradek import Admin


class Play:
    """A query from files to a topic, with a checkpoint of its own."""

    def __init__(self, spark: SparkSession, bootstrap: str, topic: str, directory: Path) -> None:
        self.spark, self.bootstrap, self.topic, self.directory = spark, bootstrap, topic, directory
        self.files = directory / "input"
        self.files.mkdir(parents=True)
        make_topic(bootstrap, topic, 2)

    def feed(self, first: int, end: int) -> None:
        """A file of numbers: one micro-batch, with two partitions."""
        self.feed_numbers(range(first, end))

    def feed_numbers(self, numbers: Sequence[int]) -> None:
        (self.files / f"{numbers[0]}.txt").write_text("".join(f"{number}\n" for number in numbers))

    def numbers_of_tasks(self, tasks: set[int], tasks_count: int, end: int = 100) -> list[int]:
        """The numbers below ``end`` that Spark deals to these tasks out of so many."""
        dealt = self.spark.range(end).selectExpr("id", f"pmod(hash(string(id)), {tasks_count}) AS task")
        return [row.id for row in dealt.collect() if row.task in tasks]

    def run(
        self,
        guarantee: str,
        checkpoint: str = "checkpoint",
        value: Column | None = None,
        tasks_count: int = 2,
        **options: str,
    ) -> None:
        """Write all there is, a file for each micro-batch."""
        lines = self.spark.readStream.schema("value string").option("maxFilesPerTrigger", 1)
        frame = lines.text(str(self.files)).repartition(tasks_count, "value")
        query = (
            self.sent(frame if value is None else frame.withColumn("value", value))
            .writeStream.format("odradek")
            .options(**{"kafka.bootstrap.servers": self.bootstrap, "topic": self.topic})
            .options(guarantee=guarantee, checkpointLocation=str(self.directory / checkpoint), **options)
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


@pytest.mark.parametrize(
    ("tasks_count", "written_by", "tasks_count_again"),
    [(4, {2, 3}, 2), (4, {0, 3}, 3), (2, {1}, 4)],
)
def test_a_batch_that_is_cut_into_more_or_fewer_tasks_than_before_is_refused(
    play: Play, tasks_count: int, written_by: set[int], tasks_count_again: int
) -> None:
    numbers = play.numbers_of_tasks(written_by, tasks_count)
    play.feed_numbers(numbers)
    play.run("exactly_once", tasks_count=tasks_count)
    play.forget_the_end_of_batch(0)
    with pytest.raises(StreamingQueryException, match=r"ReplayMismatch.*batch 0.*go back to"):
        play.run("exactly_once", tasks_count=tasks_count_again)
    assert play.values() == numbers
    play.run("exactly_once", tasks_count=tasks_count)
    play.feed(100, 120)
    play.run("exactly_once", tasks_count=tasks_count_again)
    assert play.values() == [*numbers, *range(100, 120)]


def test_a_checkpoint_that_went_back_in_time_is_refused(play: Play) -> None:
    play.feed(0, 50)
    play.run("exactly_once")
    shutil.copytree(play.directory / "checkpoint", play.directory / "restored")
    for first in (50, 60, 70):
        play.feed(first, first + 10)
        play.run("exactly_once")
    play.feed(80, 100)
    with pytest.raises(StreamingQueryException, match=r"StaleCheckpoint.*batch 1.*batch 3"):
        play.run("exactly_once", "restored")
    assert play.values() == list(range(80))
    play.run("exactly_once")
    assert play.values() == list(range(100))


def test_a_marker_topic_that_was_deleted_is_noticed(play: Play) -> None:
    markers = f"{play.topic}-markers"
    play.feed(0, 50)
    play.run("exactly_once", markerTopic=markers)
    play.forget_the_end_of_batch(0)
    with Admin(bootstrap_servers=play.bootstrap) as admin:
        admin.delete_topics([markers])
    with pytest.raises(StreamingQueryException, match=r"MarkersLost.*missingMarkers"):
        play.run("exactly_once", markerTopic=markers)
    assert play.values() == list(range(50))
    play.run("exactly_once", markerTopic=markers, missingMarkers="write")
    assert play.values() == sorted([*range(50), *range(50)])
    play.feed(50, 60)
    play.run("exactly_once", markerTopic=markers)
    assert play.values() == sorted([*range(50), *range(60)])


def test_tasks_are_told_the_run_they_belong_to(play: Play) -> None:
    def run_of_task(value):  # type: ignore[no-untyped-def]  # Spark would read hints as a wish for pandas
        task = TaskContext.get()
        return None if task is None else task.getLocalProperty("spark.jobGroup.id")

    play.feed(0, 5)
    for _ in range(2):
        play.run("exactly_once", value=udf(run_of_task, "string")("value"))
        play.feed(5, 10)
    runs = committed_values(play.bootstrap, play.topic)
    assert [uuid.UUID(run.decode()).version for run in runs] == [4] * 10
    assert sorted(Counter(runs).values()) == [5, 5]


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
