"""The Spark session of a pipeline, and the environment of its driver process.

Settings that exactly-once writes require are set explicitly here, because tasks check them before they write.
Settings of the pipeline file take precedence; those that conflict with its guarantee are rejected when the
file is read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odradek.pipelines.checkpoint.checkpoint import SIDECAR_DIRECTORY, Checkpoint
from odradek.pipelines.run.java import java_variables
from odradek.pipelines.run.user_cache import user_cache
from odradek.pipelines.spec.model import Spec, replaces_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER: Final = "local[*,3]"
"""All cores; a failed task is retried up to three attempts."""
LOG_FILE: Final = "driver.log"
_LOG_SETTINGS_FILE: Final = "log4j2.properties"
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_OTHER_PYTHON: Final = "spark.pyspark.python"
_FILE_MANAGER: Final = "spark.sql.streaming.checkpointFileManagerClass"
_RENAMING_MANAGER: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_ZIP_DIRECTORY: Final = "python"
"""The directory of the package with the zip, and nothing else of use."""
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
    """Return all Spark settings. Pure."""
    settings = {
        "spark.master": master,
        "spark.app.name": spec.name,
        "spark.speculation": "false",
        "spark.sql.adaptive.streaming.stateless.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        # The causes of an error decide about a restart; a simplified traceback omits them.
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
        # A replay is idempotent by partition, so its partitioning must not change.
        "spark.sql.adaptive.enabled": "false",
    }
    if is_local(master):
        settings |= {
            "spark.ui.enabled": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            # The default of 200 is for clusters. The checkpoint keeps the number of its first batch.
            "spark.sql.shuffle.partitions": str(min(16, max(2, core_count))),
        }
    if "://" not in spec.checkpoint or spec.checkpoint.startswith("file://"):
        settings[_FILE_MANAGER] = _RENAMING_MANAGER
    settings |= spec.spark
    java_options = f"-Dlog4j2.configurationFile={log_settings.as_uri()}"
    if replaces_rows(spec):
        # Spark matches the traceback of a failed foreachBatch function with a regex that needs much stack.
        java_options += " -Xss4m"
    settings[_JAVA_OPTIONS] = f"{java_options} {spec.spark.get(_JAVA_OPTIONS, '')}".strip()
    return settings


def state_directory(spec: Spec, environment: Mapping[str, str]) -> Path:
    """Return the directory of a run's log: beside a local checkpoint, else in the user's cache."""
    if Checkpoint(spec.checkpoint).is_local:
        return Path(spec.checkpoint.removeprefix("file://")) / SIDECAR_DIRECTORY
    return user_cache(environment) / "pipelines" / spec.name


def log_file(spec: Spec, environment: Mapping[str, str]) -> Path:
    """Return the path of Spark's log; the terminal shows one line per error."""
    return state_directory(spec, environment) / LOG_FILE


def build_session(spec: Spec, master: str | None = None) -> SparkSession:
    """Create the session of this pipeline, with logging redirected to a file."""
    from pyspark.sql import SparkSession

    log = log_file(spec, os.environ)
    log.parent.mkdir(parents=True, exist_ok=True)
    log_settings = log.with_name(_LOG_SETTINGS_FILE)
    log_settings.write_text(_LOG_SETTINGS.format(file=log), encoding="utf-8")
    effective_master = master or spec.spark.get("spark.master") or DEFAULT_MASTER
    builder = SparkSession.builder
    for name, value in session_settings(spec, effective_master, log_settings, os.cpu_count() or 1).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    _disable_query_loggers()
    if not is_local(effective_master):
        _ship_module(session, spec)
    return session


def _ship_module(session: SparkSession, spec: Spec) -> None:
    """Send the transform's module to remote executors; packages must be installed there."""
    if spec.transform.module is not None:
        file = spec.directory / f"{spec.transform.module}.py"
        if file.is_file():
            session.sparkContext.addPyFile(str(file))


def _disable_query_loggers() -> None:
    """Disable loggers of query errors, which the driver reports itself."""
    from pyspark.logger import PySparkLogger

    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def process_environment(spec: Spec, master: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a driver process: Java, the same Python everywhere, and PYTHONPATH."""
    variables = {"PYSPARK_PYTHON": sys.executable, **environment, **java_variables(environment)}
    if is_local(master or spec.spark.get("spark.master") or DEFAULT_MASTER):
        variables.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        if _OTHER_PYTHON not in spec.spark:
            variables |= spark_home_variables(environment)
    if spec.transform.module is not None:
        # Workers import the transform's module by its name, as the driver does.
        python_path = environment.get("PYTHONPATH")
        variables["PYTHONPATH"] = (
            f"{spec.directory}{os.pathsep}{python_path}" if python_path else str(spec.directory)
        )
    return variables


# A SPARK_HOME whose Python processes start fast.
#
# Spark puts a zip of its Python package, from SPARK_HOME, before installed packages. Python does not cache
# bytecode of a zip, so each process that Spark starts compiles the package again: half a second, and a
# pipeline starts five of them in sequence. This SPARK_HOME has everything of the package except the zip.


def spark_home_variables(environment: Mapping[str, str], package: Path | None = None) -> dict[str, str]:
    """Return the environment variables for local Spark processes; empty if the zip may be needed.

    Another Python may need it, without the package installed. A SPARK_HOME of the user is respected.
    """
    package = package or _installed_package()
    if environment.get("SPARK_HOME") or package is None or not (package / _ZIP_DIRECTORY).is_dir():
        return {}
    if environment.get("PYSPARK_PYTHON", sys.executable) != sys.executable:
        return {}
    home = user_cache(environment) / "spark" / sha256(str(package).encode()).hexdigest()[:12]
    try:
        _fill(home, package)
    except OSError:
        return {}  # Only slower.
    return {"SPARK_HOME": str(home)}


def _installed_package() -> Path | None:
    module = find_spec("pyspark")
    return None if module is None or module.origin is None else Path(module.origin).parent


def _fill(home: Path, package: Path) -> None:
    """Link to all entries of the package; two runs may do it concurrently."""
    home.mkdir(parents=True, exist_ok=True)
    existing = set(os.listdir(home))
    for name in set(os.listdir(package)) - existing - {_ZIP_DIRECTORY}:
        with suppress(FileExistsError):
            (home / name).symlink_to(package / name)
