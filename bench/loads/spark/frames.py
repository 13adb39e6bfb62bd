"""DataFrames over a topic; connectors differ by the format name only."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.loads.worker import LoadFailed, Spec

QUERY_SECONDS_MAX = 150
LOOK_SECONDS = 0.1


def batch_frame(session: SparkSession, spec: Spec) -> DataFrame:
    return _with_options(session.read, spec).load()


def stream_frame(session: SparkSession, spec: Spec) -> DataFrame:
    return _with_options(session.readStream, spec).option("startingOffsets", "earliest").load()


def _with_options(reader: Any, spec: Spec) -> Any:
    reader = reader.format(spec["format"]).option("kafka.bootstrap.servers", spec["bootstrap"])
    for name, value in spec.get("options", {}).items():
        reader = reader.option(name, value)
    if schema := spec.get("schema"):
        reader = reader.schema(schema)
    return reader.option("subscribe", spec["topic"])


def fresh_directory(spec: Spec, stem: str) -> Path:
    return Path(mkdtemp(prefix=stem, dir=spec["folder"]))


def await_end(query: Any) -> None:
    """Wait for a query that terminates."""
    if not query.awaitTermination(QUERY_SECONDS_MAX):
        query.stop()
        raise LoadFailed(f"query timed out after {QUERY_SECONDS_MAX} s")


def await_condition(query: Any, done: Callable[[], bool], seconds_max: float) -> None:
    """Wait until a running query meets a condition."""
    deadline = time.monotonic() + seconds_max
    while not done():
        if not query.isActive:
            raise LoadFailed(f"query ended: {query.exception()}")
        if time.monotonic() > deadline:
            raise LoadFailed(
                f"condition not met after {seconds_max:.0f} s: {query.status}, {rows_read(query)} rows"
            )
        time.sleep(LOOK_SECONDS)


def rows_read(query: Any) -> int:
    return sum(progress["numInputRows"] for progress in query.recentProgress)


def expect_rows(count: int, spec: Spec) -> None:
    if count != spec["rows"]:
        raise LoadFailed(f"{spec['format']} must return {spec['rows']:,} rows, got {count:,}")
