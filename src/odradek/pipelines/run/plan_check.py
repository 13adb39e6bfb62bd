"""Has Spark plan a pipeline without running it: finds wrong schemas, SQL, columns, types and output modes."""

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

FIX = "correct the transform, or the sections of the file that it does not fit"


def can_plan(spec: Spec, checks: Sequence[Check]) -> bool:
    """Return whether Spark can say more: it needs Java, packages, and a source with columns."""
    needed = ["package", "Java", "transform"]
    if spec.source.type == "table":
        needed.append("source table")
    elif spec.source.value.schema == SAMPLE:
        needed.append("source")
    return not any(not one.ok and one.what.startswith(tuple(needed)) for one in checks)


def plan_checks(spec: Spec, master: str | None) -> list[Check]:
    """The query as Spark plans it, and its columns against those of the table it goes to."""
    from odradek.pipelines.run.dry_run import ask_driver

    return [Check(**one) for one in ask_driver(spec, ["--plan"], master)["checks"]]


def planned(spark: SparkSession, spec: Spec) -> list[Check]:
    """The same within a session. Schema and SQL are read first, so that mistakes in both are told at once."""
    from pyspark.errors import PySparkException

    from odradek.pipelines.query.sinks import InvalidSink, outgoing
    from odradek.pipelines.query.source_frames import source_frames
    from odradek.pipelines.query.transforms import transformed
    from odradek.pipelines.query.value_sample import SchemaRefused

    mistakes = [*_schema_mistakes(spark, spec), *_sql_mistakes(spark, spec)]
    if mistakes:
        return mistakes
    try:
        frames = source_frames(spark, spec, streaming=True)
        rows = transformed(frames.rows, spec)
        _check_streaming(spark, outgoing(rows, frames, spec), spec.sink.mode)
    except (TransformFailed, InvalidSink, SchemaRefused) as refused:
        return [Check("plan", False, str(refused), FIX)]
    except PySparkException as refused:
        return [Check("plan", False, first_line(refused), FIX)]
    columns = ", ".join(f"{one.name} {one.dataType.simpleString()}" for one in rows.schema.fields)
    return [Check("plan", True, columns), *_table_checks(rows, spec)]


def _schema_mistakes(spark: SparkSession, spec: Spec) -> Iterator[Check]:
    from odradek.pipelines.query.json_values import value_schema
    from odradek.pipelines.query.value_sample import SchemaRefused

    if spec.source.value.format != "json" or spec.source.value.schema == SAMPLE:
        return
    try:
        value_schema(spark, spec, Checkpoint(spec.checkpoint))
    except SchemaRefused as refused:
        yield Check("schema", False, str(refused), "correct schema in [source] value")


def _sql_mistakes(spark: Any, spec: Spec) -> Iterator[Check]:
    from pyspark.errors import PySparkException

    if spec.transform.sql is None:
        return
    query = spec.transform.sql.read_text(encoding="utf-8").strip().removesuffix(";")
    try:
        spark._jsparkSession.sessionState().sqlParser().parsePlan(query)
    except PySparkException as refused:
        yield Check("SQL", False, f"{spec.transform.sql.name}: {first_line(refused)}", "correct the query")


def _check_streaming(spark: Any, frame: Any, mode: str) -> None:
    """What Spark looks at when a stream starts: whether the operators can do what the output mode asks."""
    jvm = spark._jvm
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    chosen = {"append": modes.Append, "complete": modes.Complete, "update": modes.Update}[mode]()
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    checker.checkForStreaming(frame._jdf.queryExecution().analyzed(), chosen)


def _table_checks(rows: DataFrame, spec: Spec) -> list[Check]:
    if spec.sink.type != "delta" or spec.sink.path is None:
        return []
    from odradek.spark.delta.errors import TableError, TableNotFound
    from odradek.spark.delta.options import read_source_options
    from odradek.spark.delta.schemas import check_change, compare
    from odradek.spark.delta.source.reader import read_schema

    merge = spec.sink.options.get("mergeSchema", "false").lower() == "true"
    try:
        table = read_schema(read_source_options({"path": spec.sink.path}))
        check_change(compare(table, rows.schema), spec.sink.path, merge_schema=merge)
    except TableNotFound:
        return [Check("sink schema", True, "the table will be made")]
    except TableError as refused:
        return [Check("sink schema", False, str(refused), "select these columns, or set mergeSchema")]
    return [Check("sink schema", True, "the same columns")]
