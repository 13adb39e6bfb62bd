"""Planning of a pipeline by Spark without running it, to find errors in schema, SQL, columns and modes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from odradek.pipelines.checkpoint.checkpoint import Checkpoint
from odradek.pipelines.query.transforms import TransformFailed, first_line
from odradek.pipelines.run.checks import Check
from odradek.pipelines.spec.model import SAMPLE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odradek.pipelines.spec.reader import Spec

FIX = "correct the transform, or the sections of the file that do not match it"


def can_plan(spec: Spec, checks: Sequence[Check]) -> bool:
    """Return True if planning is possible: it needs Java, packages, and a source with columns."""
    needed = ["package", "Java", "transform"]
    if spec.source.type == "table":
        needed.append("source table")
    elif spec.source.value.schema == SAMPLE:
        needed.append("source")
    return not any(not check.ok and check.what.startswith(tuple(needed)) for check in checks)


def plan_checks(spec: Spec, master: str | None) -> list[Check]:
    """Check the query plan, and its columns against those of the sink table, in a driver process."""
    from odradek.pipelines.run.dry_run import run_driver

    return [Check(**check) for check in run_driver(spec, ["--plan"], master)["checks"]]


def planned(spark: SparkSession, spec: Spec) -> list[Check]:
    """Check the plan within a session; errors in schema and SQL are reported together."""
    from pyspark.errors import PySparkException

    from odradek.pipelines.query.sinks import InvalidSink, sink_frame
    from odradek.pipelines.query.source_frames import source_frames
    from odradek.pipelines.query.transforms import apply_transform
    from odradek.pipelines.query.value_sample import InvalidSchema

    failed_checks = [*_schema_checks(spark, spec), *_sql_checks(spark, spec)]
    if failed_checks:
        return failed_checks
    try:
        frames = source_frames(spark, spec, streaming=True)
        rows = apply_transform(frames.rows, spec)
        _check_streaming(spark, sink_frame(rows, frames, spec), spec.sink.mode)
    except (TransformFailed, InvalidSink, InvalidSchema) as error:
        return [Check("plan", False, str(error), FIX)]
    except PySparkException as error:
        return [Check("plan", False, first_line(error), FIX)]
    columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in rows.schema.fields)
    return [Check("plan", True, columns), *_table_checks(rows, spec)]


def _schema_checks(spark: SparkSession, spec: Spec) -> Iterator[Check]:
    from odradek.pipelines.query.json_values import value_schema
    from odradek.pipelines.query.value_sample import InvalidSchema

    if spec.source.value.format != "json" or spec.source.value.schema == SAMPLE:
        return
    try:
        value_schema(spark, spec, Checkpoint(spec.checkpoint))
    except InvalidSchema as error:
        yield Check("schema", False, str(error), "correct schema in [source] value")


def _sql_checks(spark: Any, spec: Spec) -> Iterator[Check]:
    from pyspark.errors import PySparkException

    if spec.transform.sql is None:
        return
    query = spec.transform.sql.read_text(encoding="utf-8").strip().removesuffix(";")
    try:
        spark._jsparkSession.sessionState().sqlParser().parsePlan(query)
    except PySparkException as error:
        yield Check("SQL", False, f"{spec.transform.sql.name}: {first_line(error)}", "correct the query")


def _check_streaming(spark: Any, frame: Any, mode: str) -> None:
    """Run Spark's check at the start of a stream: operators against the output mode."""
    jvm = spark._jvm
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    output_mode = {"append": modes.Append, "complete": modes.Complete, "update": modes.Update}[mode]()
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    checker.checkForStreaming(frame._jdf.queryExecution().analyzed(), output_mode)


def _table_checks(rows: DataFrame, spec: Spec) -> list[Check]:
    if spec.sink.type != "delta" or spec.sink.path is None:
        return []
    from odradek.spark.delta.errors import TableError, TableNotFound
    from odradek.spark.delta.options import read_source_options
    from odradek.spark.delta.schemas import check_change, compare_schemas
    from odradek.spark.delta.source.reader import read_schema

    merge = spec.sink.options.get("mergeSchema", "false").lower() == "true"
    try:
        table = read_schema(read_source_options({"path": spec.sink.path}))
        check_change(compare_schemas(table, rows.schema), spec.sink.path, merge_schema=merge)
    except TableNotFound:
        return [Check("sink schema", True, "the table will be created")]
    except TableError as error:
        return [Check("sink schema", False, str(error), "select these columns, or set mergeSchema")]
    return [Check("sink schema", True, "the same columns")]
