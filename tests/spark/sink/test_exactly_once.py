"""Replayed and failed queries: with the marker transaction each row is written once."""

from __future__ import annotations

import shutil
import uuid
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, udf
from tests.spark.topic_content import committed_records, committed_values, make_topic

from odradek import Admin


class Play:
    """A query from files to a topic, with its own checkpoint."""

    def __init__(self, spark: SparkSession, bootstrap: str, topic: str, directory: Path) -> None:
        self.spark, self.bootstrap, self.topic, self.directory = spark, bootstrap, topic, directory
        self.files = directory / "input"
        self.files.mkdir(parents=True)
        make_topic(bootstrap, topic, 2)

    def feed(self, first: int, end: int) -> None:
        """Add a file of numbers, which is one micro-batch with two partitions."""
        self.feed_numbers(range(first, end))

    def feed_numbers(self, numbers: Sequence[int]) -> None:
        (self.files / f"{numbers[0]}.txt").write_text("".join(f"{number}\n" for number in numbers))

    def numbers_of_tasks(self, tasks: set[int], tasks_count: int, end: int = 100) -> list[int]:
        """Return the numbers below ``end`` that Spark partitions to these of ``tasks_count`` tasks."""
        partitioned = self.spark.range(end).selectExpr("id", f"pmod(hash(string(id)), {tasks_count}) AS task")
        return [row.id for row in partitioned.collect() if row.task in tasks]

    def run(
        self,
        guarantee: str,
        checkpoint: str = "checkpoint",
        value: Column | None = None,
        tasks_count: int = 2,
        **options: str,
    ) -> None:
        """Write all files, one per micro-batch."""
        lines = self.spark.readStream.schema("value string").option("maxFilesPerTrigger", 1)
        frame = lines.text(str(self.files)).repartition(tasks_count, "value")
        query = (
            self.with_key(frame if value is None else frame.withColumn("value", value))
            .writeStream.format("odradek")
            .options(**{"kafka.bootstrap.servers": self.bootstrap, "topic": self.topic})
            .options(guarantee=guarantee, checkpointLocation=str(self.directory / checkpoint), **options)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def with_key(self, frame: DataFrame) -> DataFrame:
        return frame.select("value", col("value").alias("key"))

    def remove_commit(self, number: int, checkpoint: str = "checkpoint") -> None:
        """Simulate the death of the driver right after the last task of a batch."""
        for name in (f"{number}", f".{number}.crc"):
            (self.directory / checkpoint / "commits" / name).unlink(missing_ok=True)

    def values(self) -> list[int]:
        return sorted(int(value) for value in committed_values(self.bootstrap, self.topic))


@pytest.fixture
def play(spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path) -> Play:
    return Play(spark, bootstrap, topic, tmp_path)


def test_replayed_batch_writes_nothing_and_the_next_one_continues(play: Play) -> None:
    play.feed(0, 50)
    play.feed(50, 100)
    play.run("exactly_once")
    before = committed_records(play.bootstrap, play.topic)
    play.remove_commit(1)
    play.run("exactly_once")
    assert committed_records(play.bootstrap, play.topic) == before
    play.feed(100, 120)
    play.run("exactly_once")
    assert play.values() == list(range(120))


@pytest.mark.parametrize(
    ("tasks_count", "written_by", "tasks_count_again"),
    [(4, {2, 3}, 2), (4, {0, 3}, 3), (2, {1}, 4)],
)
def test_replay_with_more_or_fewer_tasks_is_rejected(
    play: Play, tasks_count: int, written_by: set[int], tasks_count_again: int
) -> None:
    numbers = play.numbers_of_tasks(written_by, tasks_count)
    play.feed_numbers(numbers)
    play.run("exactly_once", tasks_count=tasks_count)
    play.remove_commit(0)
    with pytest.raises(StreamingQueryException, match=r"ReplayMismatch.*batch 0.*restore the options"):
        play.run("exactly_once", tasks_count=tasks_count_again)
    assert play.values() == numbers
    play.run("exactly_once", tasks_count=tasks_count)
    play.feed(100, 120)
    play.run("exactly_once", tasks_count=tasks_count_again)
    assert play.values() == [*numbers, *range(100, 120)]


def test_stale_checkpoint_is_rejected(play: Play) -> None:
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


def test_deleted_marker_topic_is_detected(play: Play) -> None:
    markers = f"{play.topic}-markers"
    play.feed(0, 50)
    play.run("exactly_once", markerTopic=markers)
    play.remove_commit(0)
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


def test_tasks_get_the_run_id(play: Play) -> None:
    def run_of_task(value):  # with type hints Spark would use pandas
        task = TaskContext.get()
        return None if task is None else task.getLocalProperty("spark.jobGroup.id")

    play.feed(0, 5)
    for _ in range(2):
        play.run("exactly_once", value=udf(run_of_task, "string")("value"))
        play.feed(5, 10)
    runs = committed_values(play.bootstrap, play.topic)
    assert [uuid.UUID(run.decode()).version for run in runs] == [4] * 10
    assert sorted(Counter(runs).values()) == [5, 5]


def test_at_least_once_sink_writes_a_replayed_batch_twice(play: Play) -> None:
    play.feed(0, 50)
    play.run("at_least_once")
    play.remove_commit(0)
    play.run("at_least_once")
    assert Counter(play.values()) == dict.fromkeys(range(50), 2)


def test_failed_task_leaves_nothing_and_its_retry_succeeds(play: Play, tmp_path: Path) -> None:
    flag = tmp_path / "failed-once"

    def fails_once(value):  # with type hints Spark would use pandas
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


def test_queries_with_separate_checkpoints_are_independent(play: Play) -> None:
    play.feed(0, 20)
    play.run("exactly_once", "first")
    play.run("exactly_once", "second")
    play.remove_commit(0, "first")
    play.run("exactly_once", "first")
    assert play.values() == sorted([*range(20), *range(20)])


def test_session_with_adaptive_execution_is_rejected(play: Play) -> None:
    setting = "spark.sql.adaptive.streaming.stateless.enabled"
    play.spark.conf.unset(setting)
    try:
        play.feed(0, 5)
        with pytest.raises(StreamingQueryException, match=setting):
            play.run("exactly_once")
    finally:
        play.spark.conf.set(setting, "false")
    assert play.values() == []


def test_batch_write_with_a_sink_id_is_written_once(play: Play) -> None:
    frame = play.with_key(play.spark.range(0, 100, 1, 2).selectExpr("cast(id as string) as value"))
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


def test_enable_sets_what_exactly_once_requires(play: Play) -> None:
    from odradek.spark import enable

    setting = "spark.sql.adaptive.streaming.stateless.enabled"
    play.spark.conf.unset(setting)
    enable(play.spark)
    assert play.spark.conf.get(setting) == "false"


def test_concurrent_query_starts_do_not_corrupt_the_environment(play: Play) -> None:
    from odradek.spark import enable

    context = play.spark.sparkContext
    before = context.environment
    enable(play.spark)
    sources = play.spark._jsparkSession.sessionState().dataSourceManager()
    environment = sources.lookupDataSource("odradek").dataSourceCls().envVars()
    assert environment.getClass().getName() == "java.util.concurrent.ConcurrentHashMap"
    assert dict(environment) == before
    assert context.environment is before
