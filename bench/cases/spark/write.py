"""S3: rows per second written by Spark to a topic, through our sink and through the JVM connector.

Spark generates rows of 100 B and writes them as a batch to six partitions, two tasks at a time, each sink
with its defaults: the JVM connector is at-least-once, ours is measured with both guarantees. The visible
records are counted afterwards. As in S1 there is one row by wall time and one by CPU.
"""

from __future__ import annotations

from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition

from bench.harness import SUBJECT, Bench, Goal, Row, Sample
from bench.loads.worker import LoadFailed
from bench.peers.broker import Broker
from bench.spark_driver import FORMATS, PEER, SHORT, SparkSides, per_core, rows_sample, spark_sides, warm_up

CASE = "S3"
PARTITIONS = 6
SIZE = 100
ROWS = 200_000 if SHORT else 2_000_000
TASKS = 2
RESPONSE_SECONDS_MAX = 30.0
NOT_WORSE = Goal("ratio", "≥", 1.0)
GUARANTEES = ("at_least_once", "exactly_once")


class Variant(NamedTuple):
    format: str
    guarantee: str | None = None


def run(bench: Bench) -> None:
    with spark_sides(bench, CASE) as sides:
        if sides is None:
            return
        for guarantee in GUARANTEES:
            _compare(bench, sides, guarantee)


def _compare(bench: Bench, sides: SparkSides, guarantee: str) -> None:
    def measure(variant: Variant) -> Sample:
        return _measure(bench, sides, variant)

    variants = {SUBJECT: Variant(FORMATS[SUBJECT], guarantee), PEER: Variant(FORMATS[PEER])}
    warm_up(bench, sides, variants, measure)
    row = Row(CASE, f"batch write, {SIZE} B, {guarantee}", "rows/s", NOT_WORSE, peer=PEER)
    bench.compare(row, variants, measure, missing=sides.missing, warm_up=False)
    bench.rows.append(per_core(row, NOT_WORSE))


def _measure(bench: Bench, sides: SparkSides, variant: Variant) -> Sample:
    topic = bench.fresh_name("spark-write")
    sides.broker.create_topic(topic, PARTITIONS)
    options = {} if variant.guarantee is None else {"guarantee": variant.guarantee}
    if variant.guarantee == "exactly_once":
        options["sinkId"] = topic
    spec = {"format": variant.format, "topic": topic, "rows": ROWS, "size": SIZE, "tasks": TASKS}
    sample = rows_sample(sides.measure("write_batch", options=options, **spec), sides.broker, SIZE)
    _expect(sides.broker, topic, markers_max=TASKS * PARTITIONS if variant.guarantee == "exactly_once" else 0)
    sides.broker.delete_topic(topic)
    return sample


def _expect(broker: Broker, topic: str, markers_max: int) -> None:
    """Check by end offsets that every row was written once; transaction markers take offsets too."""
    reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "bench", "log_level": 2})
    try:
        ends = sum(
            reader.get_watermark_offsets(TopicPartition(topic, partition), RESPONSE_SECONDS_MAX)[1]
            for partition in range(PARTITIONS)
        )
    finally:
        reader.close()
    if not ROWS <= ends <= ROWS + markers_max:
        raise LoadFailed(f"{topic} must have {ROWS:,} records, got {ends:,}")
