"""Age of records when their micro-batch completes, at a constant rate.

Another process (`loads.spark.feed`) writes records at fixed times, round robin over the partitions, with the
due time as timestamp, so that the time of an offset can be computed. Spark's progress has the completion and
the offsets of each micro-batch. The first part of the feed is excluded, because the first micro-batches of a
query compile.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession

from bench.loads.spark.frames import await_condition, fresh_directory, rows_read, stream_frame
from bench.loads.worker import Result, Spec, run_load
from bench.meter import Meter

WARM_UP_SHARE = 0.3
CATCH_UP_SECONDS_MAX = 30.0
READY_SECONDS_MAX = 60.0


def age_at_the_sink(session: SparkSession, spec: Spec) -> Result:
    folder = fresh_directory(spec, "age")
    writer = stream_frame(session, spec).writeStream.format("noop")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    try:
        await_condition(query, lambda: query.status["message"].startswith("Waiting"), READY_SECONDS_MAX)
        meter = Meter(spec["broker_pid"], with_children=True)
        meter.start()
        fed = run_load("spark.feed", spec, pinned=False)
        cost = meter.stop()
        await_condition(query, lambda: rows_read(query) >= fed["records"], CATCH_UP_SECONDS_MAX)
        ages = sorted(_ages_ms(query.recentProgress, spec, fed))
    finally:
        query.stop()
    shutil.rmtree(folder)
    shares = {"p50": 0.5, "p99": 0.99}
    percentiles = {name: ages[min(int(len(ages) * share), len(ages) - 1)] for name, share in shares.items()}
    batches = sum(1 for progress in query.recentProgress if progress["numInputRows"])
    return {
        **percentiles,
        "records": len(ages),
        "batches": batches,
        "late_ms": fed["late_ms"],
        **cost.as_result(),
    }


def _ages_ms(progresses: list[Any], spec: Spec, fed: Result) -> Iterator[float]:
    for progress in progresses:
        if not progress["numInputRows"]:
            continue
        began = datetime.fromisoformat(progress["timestamp"]).timestamp() * 1000
        done_ms = began + progress["durationMs"]["triggerExecution"]
        source = progress["sources"][0]
        for number in _numbers(source["startOffset"], source["endOffset"], spec):
            if number >= fed["records"] * WARM_UP_SHARE:
                yield done_ms - fed["begin_ms"] - number * 1000 / spec["rate"]


def _numbers(start: str | None, end: str, spec: Spec) -> Iterator[int]:
    """Yield the numbers of records between two offsets: record n is in partition n modulo their count."""
    before = json.loads(start or "{}").get(spec["topic"], {})
    for partition, offset in json.loads(end)[spec["topic"]].items():
        for offset_in_partition in range(before.get(partition, 0), offset):
            yield offset_in_partition * spec["partitions"] + int(partition)
