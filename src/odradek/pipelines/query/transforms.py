"""The transform of a pipeline: a Python function of a DataFrame, or an SQL query over the view ``source``.

Errors name the user's file and line.
"""

from __future__ import annotations

import re
import sys
import traceback
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from odradek.pipelines.spec.model import Spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

VIEW: Final = "source"
_SQLSTATE: Final = re.compile(r" SQLSTATE: \w+")


class TransformFailed(Exception):
    """Raised when a transform cannot be loaded, fails, or does not return a DataFrame."""


def apply_transform(rows: DataFrame, spec: Spec) -> DataFrame:
    """Apply the pipeline's transform."""
    transform = spec.transform
    if transform.sql is not None:
        return _check_streaming(
            rows, _run_sql(rows, transform.sql), f"{transform.sql} must read the view {VIEW}"
        )
    if transform.module is None or transform.function is None:
        return rows
    function = load_function(transform.module, transform.function, spec.directory)
    requirement = f"{transform.module}:{transform.function} must use its argument"
    return _check_streaming(rows, _call(function, rows, spec), requirement)


def _check_streaming(rows: DataFrame, result: DataFrame, requirement: str) -> DataFrame:
    """Return the result; raise TransformFailed if a stream became a batch."""
    if rows.isStreaming and not result.isStreaming:
        raise TransformFailed(f"{requirement}: the result is not a streaming DataFrame")
    return result


def load_function(module: str, function: str, directory: Path) -> Callable[[DataFrame], DataFrame]:
    """Load a function of a module beside the pipeline file, or of an installed one."""
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    try:
        loaded = import_module(module)
    except Exception as failed:  # noqa: BLE001 - importing runs the user's code, which may raise anything
        raise TransformFailed(f"{module} cannot be imported: {describe_error(failed, directory)}") from None
    attribute = getattr(loaded, function, None)
    if not callable(attribute):
        raise TransformFailed(f"{loaded.__file__ or module} has no function {function}")
    return attribute  # type: ignore[no-any-return]


def _call(function: Callable[[DataFrame], DataFrame], rows: DataFrame, spec: Spec) -> DataFrame:
    from pyspark.sql import DataFrame

    name = f"{spec.transform.module}:{spec.transform.function}"
    try:
        result: Any = function(rows)
    except Exception as failed:  # noqa: BLE001 - the user's code may raise anything
        raise TransformFailed(f"{name} failed: {describe_error(failed, spec.directory)}") from None
    if not isinstance(result, DataFrame):
        raise TransformFailed(f"{name} must return a DataFrame, got {type(result).__name__}")
    return result


def _run_sql(rows: DataFrame, file: Path) -> DataFrame:
    from pyspark.errors import PySparkException

    rows.createOrReplaceTempView(VIEW)
    query = file.read_text(encoding="utf-8").strip().removesuffix(";")
    try:
        return rows.sparkSession.sql(query)
    except PySparkException as failed:
        raise TransformFailed(f"{file}: {first_line(failed)}") from None


def describe_error(error: BaseException, directory: Path) -> str:
    """Return an error of the user's code in one line, with the innermost location in it."""
    location = user_location(error.__traceback__, directory)
    if isinstance(error, SyntaxError) and error.filename is not None:
        location = f"{error.filename}:{error.lineno}"
    message = f"{type(error).__name__}: {first_line(error)}"
    return message if location is None else f"{location}: {message}"


def user_location(trace: TracebackType | None, directory: Path) -> str | None:
    """Return ``file:line`` of the innermost frame in a file beside the pipeline file."""
    locations = [
        f"{frame.filename}:{frame.lineno}"
        for frame in traceback.extract_tb(trace)
        if Path(frame.filename).is_relative_to(directory)
    ]
    return locations[-1] if locations else None


def first_line(error: BaseException) -> str:
    """Return the first line of an error without SQLSTATE; Spark adds the query plan."""
    return _SQLSTATE.sub("", next(iter(str(error).strip().splitlines()), ""))
