"""The middle of a pipeline: a Python function of a DataFrame, or a query over the view ``source``.

What goes wrong in it is told with the file and line that the user wrote.
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
    """A transform that cannot be loaded, or does not give a DataFrame; names file and line."""


def transformed(rows: DataFrame, spec: Spec) -> DataFrame:
    """The rows as the pipeline's transform makes them."""
    transform = spec.transform
    if transform.sql is not None:
        return _reading(rows, _queried(rows, transform.sql), f"{transform.sql} must read the view {VIEW}")
    if transform.module is None or transform.function is None:
        return rows
    function = load_function(transform.module, transform.function, spec.directory)
    words = f"{transform.module}:{transform.function} must use the DataFrame that it is given"
    return _reading(rows, _called(function, rows, spec), words)


def _reading(rows: DataFrame, result: DataFrame, words: str) -> DataFrame:
    """The result, if it is made of the rows: a stream comes out of a stream only."""
    if rows.isStreaming and not result.isStreaming:
        raise TransformFailed(f"{words}: what it gives is no stream of rows")
    return result


def check_transform(spec: Spec) -> None:
    """Import what is named, without Spark; raises TransformFailed."""
    if spec.transform.module is not None and spec.transform.function is not None:
        load_function(spec.transform.module, spec.transform.function, spec.directory)


def load_function(module: str, function: str, directory: Path) -> Callable[[DataFrame], DataFrame]:
    """A function of a module beside the pipeline's file, or of an installed one."""
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    try:
        loaded = import_module(module)
    except Exception as failed:  # noqa: BLE001 - importing runs the user's code, which may raise anything
        raise TransformFailed(f"{module} cannot be imported: {told(failed, directory)}") from None
    found = getattr(loaded, function, None)
    if not callable(found):
        raise TransformFailed(f"{loaded.__file__ or module} has no function {function}")
    return found  # type: ignore[no-any-return]


def _called(function: Callable[[DataFrame], DataFrame], rows: DataFrame, spec: Spec) -> DataFrame:
    from pyspark.sql import DataFrame

    words = f"{spec.transform.module}:{spec.transform.function}"
    try:
        result: Any = function(rows)
    except Exception as failed:  # noqa: BLE001 - the user's code may raise anything
        raise TransformFailed(f"{words} failed: {told(failed, spec.directory)}") from None
    if not isinstance(result, DataFrame):
        raise TransformFailed(f"{words} gave {type(result).__name__}; it must return a DataFrame")
    return result


def _queried(rows: DataFrame, file: Path) -> DataFrame:
    from pyspark.errors import PySparkException

    rows.createOrReplaceTempView(VIEW)
    query = file.read_text(encoding="utf-8").strip().removesuffix(";")
    try:
        return rows.sparkSession.sql(query)
    except PySparkException as failed:
        raise TransformFailed(f"{file}: {first_line(failed)}") from None


def told(failed: BaseException, directory: Path) -> str:
    """An error of the user's code in one line, with the innermost place that is theirs."""
    place = user_place(failed.__traceback__, directory)
    if isinstance(failed, SyntaxError) and failed.filename is not None:
        place = f"{failed.filename}:{failed.lineno}"
    words = f"{type(failed).__name__}: {first_line(failed)}"
    return words if place is None else f"{place}: {words}"


def user_place(trace: TracebackType | None, directory: Path) -> str | None:
    """``file:line`` of the innermost frame in a file beside the pipeline's."""
    theirs = [
        f"{frame.filename}:{frame.lineno}"
        for frame in traceback.extract_tb(trace)
        if Path(frame.filename).is_relative_to(directory)
    ]
    return theirs[-1] if theirs else None


def first_line(failed: BaseException) -> str:
    """The first line of an error, without SQLSTATE; Spark's go on with the plan for many lines."""
    return _SQLSTATE.sub("", next(iter(str(failed).strip().splitlines()), ""))
