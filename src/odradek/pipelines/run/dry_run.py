"""Dry runs of a pipeline with Spark: planning, and previews of a few records.

The driver process uses a temporary checkpoint, so that the real one does not change, and reports the result
in one event.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from odradek.cli.errors import CommandFailed
from odradek.pipelines.checkpoint.checkpoint import Checkpoint
from odradek.pipelines.query.json_values import SCHEMA_FILE
from odradek.pipelines.run.driver_process import DriverProcess
from odradek.pipelines.run.session import build_session, process_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odradek.pipelines.spec.model import Spec


@contextmanager
def dry_run_session(spec: Spec, master: str | None) -> Iterator[tuple[SparkSession, Spec]]:
    """Open a session, and the pipeline with a temporary checkpoint that has the schema of the real one."""
    with tempfile.TemporaryDirectory(prefix="odradek-trial-") as directory:
        dry_spec = replace(spec, checkpoint=directory)
        schema = Checkpoint(spec.checkpoint).read_sidecar(SCHEMA_FILE)
        if schema is not None:
            Checkpoint(directory).write_sidecar(SCHEMA_FILE, schema)
        spark = build_session(dry_spec, master)
        try:
            yield spark, dry_spec
        finally:
            spark.stop()


def run_driver(spec: Spec, arguments: Sequence[str], master: str | None) -> Mapping[str, Any]:
    """Run a driver process; return its last report. Raise CommandFailed if it fails."""
    environment = process_environment(spec, master, os.environ)
    driver_arguments = [str(spec.file), *arguments, *(["--master", master] if master else [])]
    driver = DriverProcess(driver_arguments, environment)
    report: Mapping[str, Any] = {}
    try:
        for line in driver.reports():
            report = json.loads(line)
    except BaseException:
        driver.kill()
        raise
    finally:
        code = driver.finish()
    if report.get("event") == "failed":
        raise CommandFailed(str(report["message"]))
    if code != 0 or not report:
        raise CommandFailed(f"Spark exited with {code} without a message:\n{driver.stderr_tail}")
    return report
