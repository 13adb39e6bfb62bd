"""A pipeline tried out: planned, or run over a few records, with Spark and without a trace.

The driver process does it with a checkpoint that is thrown away, so that nothing of the real one changes. The
command that asks for it is told the result in one event.
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
def trial_session(spec: Spec, master: str | None) -> Iterator[tuple[SparkSession, Spec]]:
    """A session, and the pipeline with a checkpoint of its own that knows the schema of the real one."""
    with tempfile.TemporaryDirectory(prefix="odradek-trial-") as folder:
        trial = replace(spec, checkpoint=folder)
        pinned = Checkpoint(spec.checkpoint).read_sidecar(SCHEMA_FILE)
        if pinned is not None:
            Checkpoint(folder).write_sidecar(SCHEMA_FILE, pinned)
        spark = build_session(trial, master)
        try:
            yield spark, trial
        finally:
            spark.stop()


def ask_driver(spec: Spec, arguments: Sequence[str], master: str | None) -> Mapping[str, Any]:
    """Have a driver process try something out; gives what it tells. Raises CommandFailed if it fails."""
    environment = process_environment(spec, master, os.environ)
    given = [str(spec.file), *arguments, *(["--master", master] if master else [])]
    driver = DriverProcess(given, environment)
    told: Mapping[str, Any] = {}
    try:
        for line in driver.reports():
            told = json.loads(line)
    except BaseException:
        driver.kill()
        raise
    finally:
        code = driver.finish()
    if told.get("event") == "failed":
        raise CommandFailed(str(told["message"]))
    if code != 0 or not told:
        raise CommandFailed(f"Spark ended with {code} and did not say why:\n{driver.last_words}")
    return told
