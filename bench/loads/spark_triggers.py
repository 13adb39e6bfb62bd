"""Micro-batches of a few rows each: what a trigger costs whatever it carries.

The topic is filled beforehand and read with `maxOffsetsPerTrigger`, so that one micro-batch follows the other
without waiting for records; the broker is asked for its newest offsets each time. The figure is Spark's own
`triggerExecution` of each, the first ones left out.
"""

from __future__ import annotations

import shutil
import statistics

from pyspark.sql import SparkSession

from bench.loads.spark_frames import (
    QUERY_SECONDS_MAX,
    await_that,
    expect_rows,
    fresh_folder,
    rows_read,
    stream_frame,
)
from bench.loads.worker import Result, Spec
from bench.meter import Meter

WARM_UP_TRIGGERS = 10


def small_triggers(session: SparkSession, spec: Spec) -> Result:
    folder = fresh_folder(spec, "triggers")
    limited = {**spec, "options": {"maxOffsetsPerTrigger": str(spec["rows_per_trigger"])}}
    writer = stream_frame(session, limited).writeStream.format("noop")
    meter = Meter(spec["broker_pid"], with_children=True)
    meter.start()
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    try:
        await_that(query, lambda: rows_read(query) >= spec["rows"], QUERY_SECONDS_MAX)
    finally:
        query.stop()
    cost = meter.stop()
    expect_rows(rows_read(query), spec)
    durations = [p["durationMs"] for p in query.recentProgress if p["numInputRows"]][WARM_UP_TRIGGERS:]
    shutil.rmtree(folder)
    return {
        "ms": statistics.median(each["triggerExecution"] for each in durations),
        "triggers": len(durations),
        "parts": {name: statistics.median(each.get(name, 0) for each in durations) for name in durations[-1]},
        **cost.as_result(),
    }
