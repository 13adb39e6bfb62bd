"""Reads a whole topic with Spark: as a batch to a sink, or as a stream with AvailableNow.

The whole action is timed: planning, offsets, tasks, commits. CPU is that of this process, its JVM and all
Python workers.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow.dataset
from pyspark.sql import DataFrame, SparkSession

from bench.loads.spark.frames import (
    await_end,
    batch_frame,
    expect_rows,
    fresh_directory,
    rows_read,
    stream_frame,
)
from bench.loads.worker import Result, Spec
from bench.meter import Meter

Sink = Callable[[DataFrame, Path], int | None]


def _to_noop(frame: DataFrame, _: Path) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _to_count(frame: DataFrame, _: Path) -> int:
    return int(frame.count())


def _to_parquet(frame: DataFrame, folder: Path) -> None:
    frame.write.mode("overwrite").parquet(str(folder / "rows"))


SINKS: Mapping[str, Sink] = {"noop": _to_noop, "count": _to_count, "parquet": _to_parquet}


def read_batch(session: SparkSession, spec: Spec) -> Result:
    folder = fresh_directory(spec, "read")
    frame = batch_frame(session, spec)
    meter = Meter(spec["broker_pid"], with_children=True)
    meter.start()
    counted = SINKS[spec["sink"]](frame, folder)
    cost = meter.stop()
    if spec["sink"] == "parquet":
        counted = pyarrow.dataset.dataset(folder / "rows", format="parquet").count_rows()
    if counted is not None:
        expect_rows(counted, spec)
    shutil.rmtree(folder)
    return {"rows": spec["rows"], **cost.as_result()}


def read_stream(session: SparkSession, spec: Spec) -> Result:
    folder = fresh_directory(spec, "stream")
    writer = stream_frame(session, spec).writeStream.format("noop").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    meter = Meter(spec["broker_pid"], with_children=True)
    meter.start()
    query = writer.start()
    await_end(query)
    cost = meter.stop()
    expect_rows(rows_read(query), spec)
    shutil.rmtree(folder)
    return {"rows": spec["rows"], **cost.as_result()}
