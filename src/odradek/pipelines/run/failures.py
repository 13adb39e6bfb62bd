"""Classification of query failures: a message for users, and whether and when to retry. Pure.

Spark wraps a Python error in a traceback inside a Java stack trace inside a message about a stage. Only the
innermost message helps, and the names of the errors decide the kind of failure.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from odradek.pipelines.spec.model import Restart

MESSAGE_CHARACTERS_MAX: Final = 1500
BACKOFF_MAX_MS: Final = 60_000

_TRANSIENT: Final = frozenset(
    {
        *("ConnectionFailed", "TimedOut", "BufferFull", "ProducerFenced", "TransactionAborted"),
        *("ConnectionError", "ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError"),
        *("TimeoutError", "Py4JNetworkError", "CommitConflict", "StorageFailed", "SinkFailed"),
        "MemoryError",
    }
)
"""Errors of brokers, the network or the machine, which a retry may not meet."""
_PERMANENT: Final = frozenset(
    {
        *("AuthenticationFailed", "AuthorizationFailed", "UnknownTopic", "RecordTooLarge", "DataLoss"),
        *("ConfigError", "SpecError", "RecordCorrupt", "SerializationFailed", "UnsupportedVersion"),
        *("ExactlyOnceUnsupported", "ReplayMismatch", "InvalidRow", "TransformFailed", "InvalidSink"),
        *(
            "InvalidSchema",
            "SchemaMismatch",
            "TooManyDeadLetters",
            "TableOptionError",
            "TableNotFound",
            "TableUnsupported",
        ),
        *("InvalidRows", "TableChanged", "HistoryLost", "CheckpointUnreadable"),
        *("StaleCheckpoint", "MarkersLost"),
    }
)
_GONE: Final = frozenset({"Py4JNetworkError", "ConnectionRefusedError", "ConnectionResetError"})
_PYTHON_ERROR: Final = re.compile(r"^(?:pyspark\.errors\.\S+\.)?((?:\w+\.)*[A-Z]\w*)(?:: (.*))?$")
_USER_RAISED: Final = re.compile(r"\[USER_RAISED_EXCEPTION\] (.*?)(?: SQLSTATE: \w+)*$", re.MULTILINE)
_FRAME: Final = re.compile(r'  File "(.+)", line (\d+), in ')
_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] ")
_SQLSTATE: Final = re.compile(r" SQLSTATE: \w+")
_JAVA_ERROR: Final = re.compile(r"(?:Caused by: |: )?((?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error)): (.+)")
_JAVA_CLASS: Final = re.compile(r"^(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): ")
_ANALYSIS: Final = ("AnalysisException", "ParseException")
_PERMANENT_JAVA: Final = (
    "AnalysisException",
    "ParseException",
    "SparkRuntimeException",
    "ArithmeticException",
)
_UNSUPPORTED: Final = ("requirement failed: ", "Failed to read log file")
"""Messages of Spark for unsupported requests, and for a damaged checkpoint."""
_CUT_OFF: Final = "EOFException"
_HINTS_BY_NAME: Final = {
    "DataLoss": 'in the pipeline file: [source] options = { failOnDataLoss = "false" }, or odradek pipeline '
    "reset FILE --to earliest",
    "MarkersLost": 'in the pipeline file: [sink] options = { missingMarkers = "write" }, for one run',
}
"""Advice for our own errors in the terms of a pipeline file."""
_HINTS: Final = {
    "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION": "choose another [sink] mode; an aggregation that appends "
    "needs [source] watermark, and the transform must group by a window of that column",
    "JAVA_GATEWAY_EXITED": "Java's output is above: check --master and [spark]",
    "WRITE_STREAM_NOT_ALLOWED": "the transform must read the view source",
    "Failed to read log file": "restore the file from a copy of the checkpoint, or start over with odradek "
    "pipeline reset, which keeps the old checkpoint",
    "No space left on device": "free space for the checkpoint, the sink or spark.local.dir, then run it "
    "again: it continues from its checkpoint",
}
"""Advice for errors of Spark by their text; our own errors contain advice."""
_TRACE: Final = "Traceback (most recent call last):"
_WRAPPERS: Final = (
    "TASK_WRITE_FAILED",
    "STREAM_FAILED",
    "PYTHON_DATA_SOURCE_ERROR",
    "PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR",
)


class Failure(NamedTuple):
    """Message of a failure, and whether to retry."""

    message: str
    retry: bool


def explain(name: str, text: str) -> Failure:
    """Classify a failure by the class and text of the error that Spark raised, and add advice."""
    failure = _classify(name, text)
    names = {name, *(error.name for error in python_errors(text))}
    if special := names & _HINTS_BY_NAME.keys():
        hint: str | None = _HINTS_BY_NAME[special.pop()]
    elif names & (_PERMANENT | _TRANSIENT):
        return failure
    else:
        hint = next((hint for sign, hint in _HINTS.items() if sign in text), None)
    return failure if hint is None else failure._replace(message=f"{failure.message} ({hint})")


def _classify(name: str, text: str) -> Failure:
    raised = _USER_RAISED.search(text)
    if raised is not None:
        return Failure(_shorten(raised[1]), retry=False)
    chain = python_errors(text)
    if chain:
        return _python_failure(chain)
    if name in _GONE or "Answer from Java side is empty" in text:
        return Failure("Spark's Java process died", retry=True)
    if name in _PERMANENT or name in _ANALYSIS:
        return Failure(_shorten(_first_line(text)), retry=False)
    return _java_failure(name, text)


class PythonError(NamedTuple):
    """The end of a Python traceback: the error's class, its message, and the line that raised it."""

    name: str
    message: str
    location: str


def python_errors(text: str) -> list[PythonError]:
    """Return the errors of the Python tracebacks in a text, innermost cause first."""
    errors: list[PythonError] = []
    in_traceback = False
    location = ""
    for line in text.splitlines():
        if _TRACE in line:
            in_traceback, location = True, ""
        elif in_traceback and (frame := _FRAME.match(line)):
            location = f"{frame[1]}:{frame[2]}"
        elif in_traceback and not line.startswith((" ", "\t")) and (match := _PYTHON_ERROR.match(line)):
            errors.append(PythonError(match[1].rpartition(".")[2], match[2] or "", location))
            in_traceback = False
    return errors


def _python_failure(chain: list[PythonError]) -> Failure:
    """Return the message of the last error of a chain; any error of it may decide about a retry."""
    names = {error.name for error in chain}
    last = next((error for error in reversed(chain) if not error.name.startswith("PySpark")), chain[-1])
    is_ours = bool(names & (_PERMANENT | _TRANSIENT))
    message = last.message if is_ours and last.message else f"{last.location}: {last.name}: {last.message}"
    return Failure(_shorten(message), retry=not names & _PERMANENT and bool(names & _TRANSIENT))


def _java_failure(name: str, text: str) -> Failure:
    """Classify an error of Spark itself: errors of the query are permanent, errors of machines are not."""
    conditions = [condition for condition in _CONDITION.findall(text) if condition not in _WRAPPERS]
    errors = _JAVA_ERROR.findall(text)
    is_permanent = bool(conditions) or any(class_name.endswith(_PERMANENT_JAVA) for class_name, _ in errors)
    message = _innermost([message for _, message in errors]) if errors else _first_line(text)
    if not message and _CUT_OFF in text:
        message = "a Python worker of Spark exited unexpectedly: it was killed, or memory ran out"
    is_permanent |= any(sign in text for sign in _UNSUPPORTED)
    return Failure(_shorten(_without_codes(message) or name), retry=not is_permanent)


def _innermost(messages: list[str]) -> str:
    """Return the innermost message, with a prefix of an outer error: which program, which file."""
    innermost = messages[-1]
    return next(message for message in messages if message.endswith(innermost))


def _first_line(text: str) -> str:
    """Return the first line, without Spark's prefix for the query."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    line = lines[0] if lines else ""
    return _without_codes(re.sub(r"^\[STREAM_FAILED\] .* terminated with exception: ", "", line))


def _without_codes(message: str) -> str:
    """Remove SQLSTATE and the Java class; the position in a query stays."""
    return _JAVA_CLASS.sub("", _SQLSTATE.sub("", message)).rstrip(" ;")


def _shorten(message: str) -> str:
    if len(message) <= MESSAGE_CHARACTERS_MAX:
        return message
    return f"{message[:MESSAGE_CHARACTERS_MAX]}…"


class Restarts:
    """Restart policy of a failed driver.

    Exponential backoff over consecutive failures without progress, up to a minute.
    """

    def __init__(self, restart: Restart) -> None:
        self._restart = restart
        self._failure_count = 0

    def wait_ms(self, *, made_progress: bool) -> int | None:
        """Return the time to wait before the next start; None if the attempts are exhausted."""
        if made_progress:
            self._failure_count = 0
        self._failure_count += 1
        if self._failure_count > self._restart.attempts:
            return None
        doublings = min(self._failure_count - 1, 16)
        return min(BACKOFF_MAX_MS, self._restart.backoff_ms << doublings)
