"""The Spark session of a pipeline, and the environment of the process that holds it.

What exactly once needs is set here, and set explicitly: tasks look for these settings and refuse to write
without them. Settings of the pipeline's own file come last and win; those that would break its promises have
been refused when it was read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odradek.pipelines.checkpoint.checkpoint import OURS, Checkpoint
from odradek.pipelines.run.java import java_variables
from odradek.pipelines.run.spark_home import spark_home_variables
from odradek.pipelines.run.user_cache import user_cache
from odradek.pipelines.spec.model import Spec, replaces_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER: Final = "local[*,3]"
"""All cores; a task that fails is tried three times before its batch fails."""
LOG_FILE: Final = "driver.log"
_LOG_SETTINGS_FILE: Final = "log4j2.properties"
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_OTHER_PYTHON: Final = "spark.pyspark.python"
_FILE_MANAGER: Final = "spark.sql.streaming.checkpointFileManagerClass"
_RENAMING_MANAGER: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_LOG_SETTINGS: Final = """\
status = off
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {file}
appender.file.filePattern = {file}.1
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 8MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 1
rootLogger.level = error
rootLogger.appenderRef.file.ref = file
"""


def is_local(master: str) -> bool:
    return master.startswith("local")


def session_settings(spec: Spec, master: str, log_settings: Path, core_count: int) -> dict[str, str]:
    """Everything that is set for Spark. Pure."""
    settings = {
        "spark.master": master,
        "spark.app.name": spec.name,
        "spark.speculation": "false",
        "spark.sql.adaptive.streaming.stateless.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        # The cause of an error tells whether it is worth another try; a simplified trace leaves it out.
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
        # A pipeline that is run again for a window of time writes by partition, and these must not move.
        "spark.sql.adaptive.enabled": "false",
    }
    if is_local(master):
        settings |= {
            "spark.ui.enabled": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            # 200, the default, is for clusters. The checkpoint keeps the number its first batch had.
            "spark.sql.shuffle.partitions": str(min(16, max(2, core_count))),
        }
    if "://" not in spec.checkpoint or spec.checkpoint.startswith("file://"):
        settings[_FILE_MANAGER] = _RENAMING_MANAGER
    settings |= spec.spark
    ours = f"-Dlog4j2.configurationFile={log_settings.as_uri()}"
    if replaces_rows(spec):
        # Spark looks through the trace of a batch function that failed with a pattern that needs much stack.
        ours += " -Xss4m"
    settings[_JAVA_OPTIONS] = f"{ours} {spec.spark.get(_JAVA_OPTIONS, '')}".strip()
    return settings


def state_folder(spec: Spec, environment: Mapping[str, str]) -> Path:
    """Where the log of a run is written: beside a local checkpoint, else in the user's cache."""
    if Checkpoint(spec.checkpoint).is_local:
        return Path(spec.checkpoint.removeprefix("file://")) / OURS
    return user_cache(environment) / "pipelines" / spec.name


def log_file(spec: Spec, environment: Mapping[str, str]) -> Path:
    """Where Spark's own words go; a person is told in one line."""
    return state_folder(spec, environment) / LOG_FILE


def build_session(spec: Spec, master: str | None = None) -> SparkSession:
    """A session for this pipeline, in this process. Its log is quiet from the first line on."""
    from pyspark.sql import SparkSession

    log = log_file(spec, os.environ)
    log.parent.mkdir(parents=True, exist_ok=True)
    log_settings = log.with_name(_LOG_SETTINGS_FILE)
    log_settings.write_text(_LOG_SETTINGS.format(file=log), encoding="utf-8")
    chosen = master or spec.spark.get("spark.master") or DEFAULT_MASTER
    builder = SparkSession.builder
    for name, value in session_settings(spec, chosen, log_settings, os.cpu_count() or 1).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    _quieten()
    if not is_local(chosen):
        _ship_module(session, spec)
    return session


def _ship_module(session: SparkSession, spec: Spec) -> None:
    """Executors elsewhere get the file of the transform; packages must be installed there."""
    if spec.transform.module is not None:
        file = spec.directory / f"{spec.transform.module}.py"
        if file.is_file():
            session.sparkContext.addPyFile(str(file))


def _quieten() -> None:
    """Errors of queries are told by the one who started them, not by a logger as well."""
    from pyspark.logger import PySparkLogger

    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def process_environment(spec: Spec, master: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a driver process: Java, the same Python everywhere, modules beside the file."""
    found = {"PYSPARK_PYTHON": sys.executable, **environment, **java_variables(environment)}
    if is_local(master or spec.spark.get("spark.master") or DEFAULT_MASTER):
        found.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        if _OTHER_PYTHON not in spec.spark:
            found |= spark_home_variables(environment)
    if spec.transform.module is not None:
        # Workers import the functions of a module by its name, as the driver does.
        before = environment.get("PYTHONPATH")
        found["PYTHONPATH"] = f"{spec.directory}{os.pathsep}{before}" if before else str(spec.directory)
    return found
