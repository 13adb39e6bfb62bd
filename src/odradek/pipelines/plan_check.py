"""Has Spark plan a pipeline without running it: wrong columns, types and output modes are found before a run.

It is planned with a checkpoint that is thrown away, so that nothing of the real one changes.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from odradek.pipelines.check import Check
from odradek.pipelines.checkpoint import Checkpoint
from odradek.pipelines.json_values import SCHEMA_FILE
from odradek.pipelines.transforms import TransformFailed, first_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odradek.pipelines.spec import Spec

FIX = "correct the transform, or the sections of the file that it does not fit"


def plan_checks(spec: Spec, master: str | None) -> list[Check]:
    """The query as Spark plans it, and its columns against those of the table it goes to."""
    from odradek.pipelines.session import build_session, process_environment

    os.environ.update(process_environment(spec, master, os.environ))
    with tempfile.TemporaryDirectory(prefix="odradek-plan-") as folder:
        trial = replace(spec, checkpoint=folder)
        pinned = Checkpoint(spec.checkpoint).read_pinned(SCHEMA_FILE)
        if pinned is not None:
            Checkpoint(folder).write_pinned(SCHEMA_FILE, pinned)
        spark = build_session(trial, master)
        try:
            return planned(spark, trial)
        finally:
            spark.stop()


def planned(spark: SparkSession, spec: Spec) -> list[Check]:
    """The same within a session."""
    from pyspark.errors import PySparkException

    from odradek.pipelines.frames import source_frames
    from odradek.pipelines.sinks import SinkRefused, outgoing
    from odradek.pipelines.transforms import transformed
    from odradek.pipelines.value_sample import SchemaRefused

    try:
        frames = source_frames(spark, spec, streaming=True)
        rows = transformed(frames.rows, spec)
        _check_streaming(spark, outgoing(rows, frames, spec), spec.sink.mode)
    except (TransformFailed, SinkRefused, SchemaRefused) as refused:
        return [Check("plan", False, str(refused), FIX)]
    except PySparkException as refused:
        return [Check("plan", False, first_line(refused), FIX)]
    columns = ", ".join(f"{one.name} {one.dataType.simpleString()}" for one in rows.schema.fields)
    return [Check("plan", True, columns), *_table_checks(rows, spec)]


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
    from odradek.spark.delta.reader import read_schema
    from odradek.spark.delta.schemas import check_change, compare

    merge = spec.sink.options.get("mergeSchema", "false").lower() == "true"
    try:
        table = read_schema(read_source_options({"path": spec.sink.path}))
        check_change(compare(table, rows.schema), spec.sink.path, merge_schema=merge)
    except TableNotFound:
        return [Check("sink schema", True, "the table will be made")]
    except TableError as refused:
        return [Check("sink schema", False, str(refused), "select these columns, or set mergeSchema")]
    return [Check("sink schema", True, "the same columns")]
