"""A Spark driver that copies a topic three times at once: ``driver.py BOOTSTRAP DIRECTORY``.

Two copies are topics, written exactly once and at least once; the third is a Delta table. A copy's value
has partition and offset of its record. The queries run until the file FINISH is in the directory; then they
process what is left, and the driver exits with status 0. A failed query ends the driver with status 1,
except for failures of Spark itself: those are printed, and the query is restarted.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

SOURCE = "source"
TABLE = "delta"
TOPICS = ("exactly_once", "at_least_once")
SINKS = (*TOPICS, TABLE)
CHECKPOINTS = "checkpoints"
FINISH = "finish"
AGAIN = "started again: "
SPARKS_OWN = {
    # Spark gives Python workers ten seconds to start: too little on a busy machine.
    "failed to connect back": "a Python process was slow to start",
}
"""Failures of Spark itself, by a part of their message."""
COMPACT_EVERY = "5"
ROWS_PER_BATCH = 300
ROWS_AT_THE_END = 20_000
STARTS_MAX = 20


class Copying:
    """The three queries of one session."""

    def __init__(self, spark: SparkSession, bootstrap: str, directory: Path) -> None:
        self._spark = spark
        self._servers = {"kafka.bootstrap.servers": bootstrap}
        self._directory = directory
        self._again_count = 0

    def run(self) -> None:
        copies = self._copies(ROWS_PER_BATCH)
        running = {sink: self._start(copies, sink) for sink in SINKS}
        while not (self._directory / FINISH).exists():
            for sink, query in running.items():
                if not query.isActive:
                    self._note_failure(sink, query)
                    running[sink] = self._start(copies, sink)
            time.sleep(0.1)
        for query in running.values():
            query.stop()
        self._run_to_the_end()

    def _run_to_the_end(self) -> None:
        copies = self._copies(ROWS_AT_THE_END)
        running = {sink: self._start(copies, sink, availableNow=True) for sink in SINKS}
        while running:
            for sink, query in list(running.items()):
                if query.isActive:
                    continue
                if query.exception() is None:
                    del running[sink]
                else:
                    self._note_failure(sink, query)
                    running[sink] = self._start(copies, sink, availableNow=True)
            time.sleep(0.1)

    def _note_failure(self, sink: str, query: StreamingQuery) -> None:
        failure = str(query.exception())
        reason = next((reason for words, reason in SPARKS_OWN.items() if words in failure), None)
        self._again_count += 1
        if reason is None or self._again_count > STARTS_MAX:
            raise SystemExit(f"{sink} failed: {failure}")
        print(f"{AGAIN}{reason}", flush=True)

    def _start(self, copies: DataFrame, sink: str, **trigger: Any) -> StreamingQuery:
        writer = copies.writeStream
        if sink == TABLE:
            writer = writer.format("odradek_delta").options(path=str(self._directory / TABLE))
            writer = writer.options(compactEvery=COMPACT_EVERY)
        else:
            writer = writer.format("odradek").options(**self._servers, topic=f"{SOURCE}.{sink}")
            writer = writer.options(guarantee=sink)
        if trigger:
            writer = writer.trigger(**trigger)
        return writer.options(checkpointLocation=str(self._directory / CHECKPOINTS / sink)).start()

    def _copies(self, rows_per_batch: int) -> DataFrame:
        records = (
            self._spark.readStream.format("odradek")
            .options(**self._servers, subscribe=SOURCE)
            .options(startingOffsets="earliest", maxOffsetsPerTrigger=rows_per_batch)
            .load()
        )
        return records.selectExpr(
            "key", "concat(partition, ':', offset, ':', cast(value as string)) as value"
        )


def main(bootstrap: str, directory: str) -> None:
    from pyspark.sql import SparkSession

    from odradek.spark import enable

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[3]")
        .appName("copies")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.sql.streaming.metricsEnabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    enable(spark)
    Copying(spark, bootstrap, Path(directory)).run()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
