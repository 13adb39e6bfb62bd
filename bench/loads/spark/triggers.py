"""Micro-batches of a few rows each: fixed cost of a trigger.

The topic is filled beforehand and read with `maxOffsetsPerTrigger`, so that micro-batches follow each other
without waiting for records; each one requests the latest offsets. The figure is Spark's `triggerExecution`,
without the first ones.
"""

from __future__ import annotations

import shutil
import statistics

from pyspark.sql import SparkSession

from bench.loads.spark.frames import (
    QUERY_SECONDS_MAX,
    await_condition,
    expect_rows,
    fresh_directory,
    rows_read,
    stream_frame,
)
from bench.loads.worker import Result, Spec
from bench.meter import Meter

WARM_UP_TRIGGERS = 10


def small_triggers(session: SparkSession, spec: Spec) -> Result:
    folder = fresh_directory(spec, "triggers")
    limited = {**spec, "options": {"maxOffsetsPerTrigger": str(spec["rows_per_trigger"])}}
    writer = stream_frame(session, limited).writeStream.format("noop")
    meter = Meter(spec["broker_pid"], with_children=True)
    meter.start()
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    try:
        await_condition(query, lambda: rows_read(query) >= spec["rows"], QUERY_SECONDS_MAX)
    finally:
        query.stop()
    cost = meter.stop()
    expect_rows(rows_read(query), spec)
    durations = [p["durationMs"] for p in query.recentProgress if p["numInputRows"]][WARM_UP_TRIGGERS:]
    shutil.rmtree(folder)
    return {
        "ms": statistics.median(duration["triggerExecution"] for duration in durations),
        "triggers": len(durations),
        "parts": {
            name: statistics.median(duration.get(name, 0) for duration in durations) for name in durations[-1]
        },
        **cost.as_result(),
    }
