"""How old records are when the micro-batch that carries them is done, at a steady rate.

Another process (`spark_feed`) writes records at fixed times in turn to every partition and dates them by
when they were due, so the date of an offset can be computed. When a micro-batch is done and what it held is
in Spark's own progress. The first part of the feed is left out: a query's first micro-batches compile.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession

from bench.loads.spark_frames import await_that, fresh_folder, rows_read, stream_frame
from bench.loads.worker import Result, Spec, run_load
from bench.meter import Meter

WARM_UP_SHARE = 0.3
CATCH_UP_SECONDS_MAX = 30.0
READY_SECONDS_MAX = 60.0


def age_at_the_sink(session: SparkSession, spec: Spec) -> Result:
    folder = fresh_folder(spec, "age")
    writer = stream_frame(session, spec).writeStream.format("noop")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    try:
        await_that(query, lambda: query.status["message"].startswith("Waiting"), READY_SECONDS_MAX)
        meter = Meter(spec["broker_pid"], with_children=True)
        meter.start()
        fed = run_load("spark_feed", spec, pinned=False)
        cost = meter.stop()
        await_that(query, lambda: rows_read(query) >= fed["records"], CATCH_UP_SECONDS_MAX)
        ages = sorted(_ages_ms(query.recentProgress, spec, fed))
    finally:
        query.stop()
    shutil.rmtree(folder)
    shares = {"p50": 0.5, "p99": 0.99}
    found = {name: ages[min(int(len(ages) * share), len(ages) - 1)] for name, share in shares.items()}
    batches = sum(1 for progress in query.recentProgress if progress["numInputRows"])
    return {**found, "records": len(ages), "batches": batches, "late_ms": fed["late_ms"], **cost.as_result()}


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
    """Which records of the feed lie between two offsets: record n is in partition n modulo their count."""
    before = json.loads(start or "{}").get(spec["topic"], {})
    for partition, offset in json.loads(end)[spec["topic"]].items():
        for each in range(before.get(partition, 0), offset):
            yield each * spec["partitions"] + int(partition)
