"""S2: latency of Spark Structured Streaming, through our source and through the JVM connector.

First the cost of a trigger: consecutive micro-batches of ten rows to noop, median of Spark's
`triggerExecution`, with one partition per task slot (two) and with six. Then the age of records when their
micro-batch completes, while a feed writes 10,000 rows per second of 1 KB to six partitions: from when a
record was due until Spark reports the micro-batch. The feed runs on the same cores. Nothing is pinned.
"""

from __future__ import annotations

from bench.fixtures.topic_fill import TopicFill, fill
from bench.harness import Bench, Goal, Row, Sample, load_sample
from bench.loads.worker import Result
from bench.spark_driver import FORMATS, PEER, SHORT, SparkSides, spark_sides

CASE = "S2"
ROWS_PER_TRIGGER = {2: 10, 6: 12}
"""By partition count, evenly distributed."""
TRIGGERS = 30 if SHORT else 60
RATE = 10_000
SIZE = 1000
FEED_SECONDS = 8 if SHORT else 20
FEED_PARTITIONS = 6
GOAL_PARTITIONS = 2
LATENCY = Goal("ratio", "≤", 1.0)
TRIGGER = Goal("ours", "≤", 200)


def run(bench: Bench) -> None:
    with spark_sides(bench, CASE) as sides:
        if sides is None:
            return
        for partitions, rows_per_trigger in ROWS_PER_TRIGGER.items():
            _triggers(bench, sides, partitions, rows_per_trigger)
        _ages(bench, sides)


def _triggers(bench: Bench, sides: SparkSides, partitions: int, rows_per_trigger: int) -> None:
    topic = bench.fresh_name("spark-triggers")
    rows = rows_per_trigger * TRIGGERS
    fill(bench, sides.broker, topic, TopicFill(partitions, rows // partitions, records=1, size=100))
    spec = {"topic": topic, "rows": rows, "rows_per_trigger": rows_per_trigger}

    def measure(format_: str) -> Sample:
        result = sides.measure("triggers", format=format_, **spec)
        bench.log(f"{format_}: {result['ms']:.0f} ms of {result['triggers']} triggers: {result['parts']}")
        return load_sample(result["ms"], result, sides.broker)

    load = f"trigger of {rows_per_trigger} rows to noop, {partitions} partitions"
    row = Row(CASE, load, "ms", TRIGGER if partitions == GOAL_PARTITIONS else None, peer=PEER)
    bench.compare(row, FORMATS, measure, missing=sides.missing)


def _ages(bench: Bench, sides: SparkSides) -> None:
    load = f"age at the sink, {RATE:,} rows/s of {SIZE} B"
    middle = Row(CASE, f"{load}, p50", "ms", LATENCY, peer=PEER)

    def measure(format_: str) -> Sample:
        result = _feed(bench, sides, format_)
        sample = load_sample(result["p50"], result, sides.broker)
        sample.cost.update({name: result[name] for name in ("p99", "batches", "late_ms")})
        return sample

    bench.compare(middle, FORMATS, measure, missing=sides.missing)
    late = {
        side: [Sample(s.cost["p99"], s.cost) for s in samples] for side, samples in middle.samples.items()
    }
    bench.rows.append(Row(CASE, f"{load}, p99", "ms", LATENCY, late, middle.not_run, peer=PEER))


def _feed(bench: Bench, sides: SparkSides, format_: str) -> Result:
    topic = bench.fresh_name("spark-age")
    sides.broker.create_topic(topic, FEED_PARTITIONS)
    spec = {
        "format": format_,
        "topic": topic,
        "partitions": FEED_PARTITIONS,
        "rate": RATE,
        "seconds": FEED_SECONDS,
        "size": SIZE,
        "seed": bench.seed,
    }
    result = sides.measure("age", **spec)
    sides.broker.delete_topic(topic)
    return result
