"""A driver of Spark that copies a topic twice: ``spark_driver.py BOOTSTRAP SOURCE CHECKPOINTS ROWS``.

One query writes SOURCE.exactly_once, the other SOURCE.at_least_once, both at the same time and in batches
of so many rows. A copy's value says which record it is of. Ends with status 0 when everything is copied.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

GUARANTEES = ("exactly_once", "at_least_once")
STARTS_MAX = 20


def wait(query: StreamingQuery, start_again: Callable[[], StreamingQuery]) -> None:
    """Wait for the end. Spark gives Python processes ten seconds to start: too little on a busy machine."""
    from pyspark.errors import StreamingQueryException

    for _ in range(STARTS_MAX):
        try:
            query.awaitTermination()
        except StreamingQueryException as failed:
            if "failed to connect back" not in str(failed):
                raise
            query = start_again()
        else:
            return
    raise SystemExit(f"not started {STARTS_MAX} times")


def main(bootstrap: str, source: str, checkpoints: str, rows_per_batch: str) -> None:
    from pyspark.sql import SparkSession

    from odradek.spark import enable

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[3]")
        .appName("copies")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.sql.streaming.metricsEnabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    enable(spark)
    records = (
        spark.readStream.format("odradek")
        .options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": source})
        .options(startingOffsets="earliest", maxOffsetsPerTrigger=rows_per_batch)
        .load()
    )
    copies = records.selectExpr("key", "concat(partition, ':', offset, ':', cast(value as string)) as value")

    def start(guarantee: str) -> StreamingQuery:
        return (
            copies.writeStream.format("odradek")
            .options(**{"kafka.bootstrap.servers": bootstrap, "topic": f"{source}.{guarantee}"})
            .options(guarantee=guarantee, checkpointLocation=f"{checkpoints}/{guarantee}")
            .trigger(availableNow=True)
            .start()
        )

    running = {guarantee: start(guarantee) for guarantee in GUARANTEES}
    for guarantee, query in running.items():
        wait(query, lambda guarantee=guarantee: start(guarantee))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
