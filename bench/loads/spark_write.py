"""Writes rows that Spark itself makes into a topic, as a batch.

Timed is the whole action. How many records a reader sees afterwards is checked by the case, not here.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from bench.loads.worker import Result, Spec
from bench.meter import Meter


def write_batch(session: SparkSession, spec: Spec) -> Result:
    rows = session.range(0, spec["rows"], 1, spec["tasks"])
    frame = rows.selectExpr(f"cast(lpad(cast(id as string), {spec['size']}, 'x') as binary) as value")
    writer = frame.write.format(spec["format"]).mode("append")
    writer = writer.option("kafka.bootstrap.servers", spec["bootstrap"]).option("topic", spec["topic"])
    for name, value in spec.get("options", {}).items():
        writer = writer.option(name, value)
    meter = Meter(spec["broker_pid"], with_children=True)
    meter.start()
    writer.save()
    cost = meter.stop()
    return {"rows": spec["rows"], **cost.as_result()}
