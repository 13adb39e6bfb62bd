"""DataFrames over a topic, the same for every connector: only the format's name differs."""

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


def fresh_folder(spec: Spec, stem: str) -> Path:
    return Path(mkdtemp(prefix=stem, dir=spec["folder"]))


def await_end(query: Any) -> None:
    """Wait for a query that ends by itself."""
    if not query.awaitTermination(QUERY_SECONDS_MAX):
        query.stop()
        raise LoadFailed(f"the query was not done after {QUERY_SECONDS_MAX} s")


def await_that(query: Any, done: Callable[[], bool], seconds_max: float) -> None:
    """Wait for something a running query will come to."""
    deadline = time.monotonic() + seconds_max
    while not done():
        if not query.isActive:
            raise LoadFailed(f"the query ended: {query.exception()}")
        if time.monotonic() > deadline:
            raise LoadFailed(f"not there after {seconds_max:.0f} s: {query.status}, {rows_read(query)} rows")
        time.sleep(LOOK_SECONDS)


def rows_read(query: Any) -> int:
    return sum(progress["numInputRows"] for progress in query.recentProgress)


def expect_rows(found: int, spec: Spec) -> None:
    if found != spec["rows"]:
        raise LoadFailed(f"{spec['format']} gave {found:,} rows of {spec['rows']:,}")
