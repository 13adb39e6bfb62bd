"""A Spark session that takes one measurement after another: `python -m bench.loads.spark.driver '<JSON>'`.

Unlike other generators it stays, because a session takes ten seconds to start and a minute to become fast. It
gets a line of JSON on standard input for each measurement and responses with a line on standard output: the
result, or `{"failed": why}`. Both connectors are measured in the same session with the same settings.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import TextIO

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from bench.loads.spark import age as spark_age
from bench.loads.spark import read as spark_read
from bench.loads.spark import triggers as spark_triggers
from bench.loads.spark import write as spark_write
from bench.loads.worker import LoadFailed, Result, Spec

MEASUREMENTS: Mapping[str, Callable[[SparkSession, Spec], Result]] = {
    "read_batch": spark_read.read_batch,
    "read_stream": spark_read.read_stream,
    "triggers": spark_triggers.small_triggers,
    "age": spark_age.age_at_the_sink,
    "write_batch": spark_write.write_batch,
}
SLOTS = 2
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": str(SLOTS),
    "spark.sql.session.timeZone": "UTC",
    # Required by our exactly-once sink; nothing measured here has a shuffle.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
}
ERROR_CHARACTERS_MAX = 1_500


def main(spec: Spec) -> None:
    responses = _result_stream()
    session = _session(spec)
    _write(responses, {"spark": session.version})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            _write(responses, MEASUREMENTS[request["measurement"]](session, request))
        except (PySparkException, LoadFailed, TimeoutError) as failure:
            _write(responses, {"failed": str(failure)[:ERROR_CHARACTERS_MAX]})
    session.stop()


def _result_stream() -> TextIO:
    """Reserve standard output for results; other output goes to standard error."""
    responses = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return responses


def _session(spec: Spec) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master(f"local[{SLOTS}]").appName("bench")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.jars", ",".join(spec["jars"]))
    for name in ("spark.local.dir", "spark.sql.warehouse.dir"):
        builder = builder.config(name, f"{spec['folder']}/{name}")
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _write(responses: TextIO, result: Result) -> None:
    print(json.dumps(result), file=responses, flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
