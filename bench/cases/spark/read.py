"""S1: rows per second read by Spark from a topic, through our source and through the JVM connector.

One session with two task slots has both connectors for the whole case; six partitions in the page cache;
batch reads to noop, to a count and to Parquet, and a stream with AvailableNow to noop. Each load has two
rows: rows per second of wall time, and rows per CPU second of driver, JVM and Python workers together. The
broker runs on the same cores and affects the first figure only.
"""

from __future__ import annotations

from typing import NamedTuple

from bench.fixtures.topic_fill import TopicFill, fill
from bench.harness import Bench, Goal, Row, Sample
from bench.spark_driver import FORMATS, PEER, SHORT, SparkSides, per_core, rows_sample, spark_sides, warm_up

CASE = "S1"
PARTITIONS = 6
# Batches of about 16 KB, the producers' default.
SHARE = 10 if SHORT else 1
CONTENTS = {
    100: TopicFill(PARTITIONS, batches=6500 // SHARE, records=150, size=100),
    1000: TopicFill(PARTITIONS, batches=12_000 // SHARE, records=16, size=1000),
}
NOT_WORSE = Goal("ratio", "≥", 1.0)


class Load(NamedTuple):
    size: int
    sink: str
    measurement: str = "read_batch"
    goal: Goal = NOT_WORSE
    """Goal of the wall-time figure."""

    def __str__(self) -> str:
        how = "batch" if self.measurement == "read_batch" else "AvailableNow"
        return f"{how} to {self.sink}, {self.size} B"


LOADS = (
    Load(100, "noop", goal=Goal("ours", "≥", 1_500_000)),
    Load(100, "count"),
    Load(100, "parquet", goal=Goal("ours", "≥", 800_000)),
    Load(100, "noop", "read_stream"),
    Load(1000, "noop"),
    Load(1000, "count"),
    Load(1000, "parquet"),
    Load(1000, "noop", "read_stream"),
)


def run(bench: Bench) -> None:
    with spark_sides(bench, CASE) as sides:
        if sides is None:
            return
        for size, content in CONTENTS.items():
            fill(bench, sides.broker, _topic(size), content)
            for load in LOADS:
                if load.size == size:
                    _compare(bench, sides, load)
            sides.broker.delete_topic(_topic(size))


def _compare(bench: Bench, sides: SparkSides, load: Load) -> None:
    def measure(format_: str) -> Sample:
        spec = {"format": format_, "topic": _topic(load.size), "rows": _rows(load.size), "sink": load.sink}
        return rows_sample(sides.measure(load.measurement, **spec), sides.broker, load.size)

    warm_up(bench, sides, FORMATS, measure)
    row = Row(CASE, str(load), "rows/s", load.goal, peer=PEER)
    bench.compare(row, FORMATS, measure, missing=sides.missing, warm_up=False)
    bench.rows.append(per_core(row, NOT_WORSE))


def _rows(size: int) -> int:
    content = CONTENTS[size]
    return content.partitions * content.batches * content.records


def _topic(size: int) -> str:
    return f"spark-read-{size}"
