"""Why a query ended: one message for people, and whether it is worth another try. Pure.

Spark wraps an error of ours in a Python trace inside a Java trace inside a sentence about a stage. Only the
innermost words help, and only the names of the errors tell what kind of failure it is.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

MESSAGE_CHARACTERS_MAX: Final = 1500

_TRANSIENT: Final = frozenset(
    {
        *("ConnectionFailed", "TimedOut", "BufferFull", "ProducerFenced", "TransactionAborted"),
        *("ConnectionError", "ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError"),
        *("TimeoutError", "Py4JNetworkError", "CommitConflict", "StorageFailed", "SinkFailed"),
        "MemoryError",
    }
)
"""Another try may find the brokers, the network or the machine in a better state."""
_PERMANENT: Final = frozenset(
    {
        *("AuthenticationFailed", "AuthorizationFailed", "UnknownTopic", "RecordTooLarge", "DataLoss"),
        *("ConfigError", "SpecError", "RecordCorrupt", "SerializationFailed", "UnsupportedVersion"),
        *("ExactlyOnceUnsupported", "ReplayMismatch", "InvalidRow", "TransformFailed", "InvalidSink"),
        *("SchemaRefused", "TooManyDeadLetters", "TableOptionError", "TableNotFound", "TableUnsupported"),
        *("InvalidRows", "TableChanged", "HistoryLost", "CheckpointUnreadable"),
        *("StaleCheckpoint", "MarkersLost"),
    }
)
_GONE: Final = frozenset({"Py4JNetworkError", "ConnectionRefusedError", "ConnectionResetError"})
_PYTHON_ERROR: Final = re.compile(r"^(?:pyspark\.errors\.\S+\.)?((?:\w+\.)*[A-Z]\w*)(?:: (.*))?$")
_USER_RAISED: Final = re.compile(r"\[USER_RAISED_EXCEPTION\] (.*?)(?: SQLSTATE: \w+)*$", re.MULTILINE)
_PLACE: Final = re.compile(r'  File "(.+)", line (\d+), in ')
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
_REFUSED: Final = ("requirement failed: ", "Failed to read log file")
"""How Spark says that it was asked for what it never does, or that its checkpoint is damaged."""
_CUT_OFF: Final = "EOFException"
_HINTS_BY_NAME: Final = {
    "DataLoss": 'in a pipeline\'s file: [source] options = { failOnDataLoss = "false" }, or odradek pipeline '
    "reset FILE --to earliest",
    "MarkersLost": 'in a pipeline\'s file: [sink] options = { missingMarkers = "write" }, for one run',
}
"""Meaning of our own errors in the terms of a pipeline file."""
_HINTS: Final = {
    "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION": "choose another [sink] mode; an aggregation that appends "
    "needs [source] watermark, and the transform must group by a window of that column",
    "JAVA_GATEWAY_EXITED": "Java's own words are above: look at --master, and at what [spark] says",
    "WRITE_STREAM_NOT_ALLOWED": "the transform must read the view source",
    "Failed to read log file": "put the file back from a copy of the checkpoint, or begin anew with odradek "
    "pipeline reset, which keeps the old checkpoint",
    "No space left on device": "make room where the checkpoint, the sink or spark.local.dir is, then run it "
    "again: it goes on where its checkpoint stands",
}
"""What to do, by what an error of Spark says; ours say it themselves."""
_TRACE: Final = "Traceback (most recent call last):"
_WRAPPERS: Final = (
    "TASK_WRITE_FAILED",
    "STREAM_FAILED",
    "PYTHON_DATA_SOURCE_ERROR",
    "PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR",
)


class Failure(NamedTuple):
    """What to tell, and whether to try again."""

    message: str
    retry: bool


def explain(name: str, text: str) -> Failure:
    """A failure by the class of the error that came out of Spark, and all that it says; with what to do."""
    failure = _explained(name, text)
    names = {name, *(one.name for one in python_errors(text))}
    if special := names & _HINTS_BY_NAME.keys():
        hint: str | None = _HINTS_BY_NAME[special.pop()]
    elif names & (_PERMANENT | _TRANSIENT):
        return failure
    else:
        hint = next((hint for sign, hint in _HINTS.items() if sign in text), None)
    return failure if hint is None else failure._replace(message=f"{failure.message} ({hint})")


def _explained(name: str, text: str) -> Failure:
    raised = _USER_RAISED.search(text)
    if raised is not None:
        return Failure(_short(raised[1]), retry=False)
    chain = python_errors(text)
    if chain:
        return _of_python(chain)
    if name in _GONE or "Answer from Java side is empty" in text:
        return Failure("Spark's Java process died", retry=True)
    if name in _PERMANENT or name in _ANALYSIS:
        return Failure(_short(_first_words(text)), retry=False)
    return _of_java(name, text)


class PythonError(NamedTuple):
    """The end of a Python trace: the error's class, its words, and the line that raised it."""

    name: str
    words: str
    place: str


def python_errors(text: str) -> list[PythonError]:
    """The errors of the Python traces in a text, innermost cause first."""
    found: list[PythonError] = []
    is_inside = False
    place = ""
    for line in text.splitlines():
        if _TRACE in line:
            is_inside, place = True, ""
        elif is_inside and (at := _PLACE.match(line)):
            place = f"{at[1]}:{at[2]}"
        elif is_inside and not line.startswith((" ", "\t")) and (match := _PYTHON_ERROR.match(line)):
            found.append(PythonError(match[1].rpartition(".")[2], match[2] or "", place))
            is_inside = False
    return found


def _of_python(chain: list[PythonError]) -> Failure:
    """The last error of a chain says it best; what kind it is, any of them may know."""
    names = {one.name for one in chain}
    last = next((one for one in reversed(chain) if not one.name.startswith("PySpark")), chain[-1])
    is_ours = bool(names & (_PERMANENT | _TRANSIENT))
    words = last.words if is_ours and last.words else f"{last.place}: {last.name}: {last.words}"
    return Failure(_short(words), retry=not names & _PERMANENT and bool(names & _TRANSIENT))


def _of_java(name: str, text: str) -> Failure:
    """Errors of Spark itself: those with the query are for good, those of machines may pass."""
    conditions = [one for one in _CONDITION.findall(text) if one not in _WRAPPERS]
    caused = _JAVA_ERROR.findall(text)
    is_permanent = bool(conditions) or any(one.endswith(_PERMANENT_JAVA) for one, _ in caused)
    words = _fullest([words for _, words in caused]) if caused else _first_words(text)
    if not words and _CUT_OFF in text:
        words = "a Python process of Spark ended in the midst of an answer: it was killed, or memory ran out"
    is_permanent |= any(sign in text for sign in _REFUSED)
    return Failure(_short(_without_state(words) or name), retry=not is_permanent)


def _fullest(words: list[str]) -> str:
    """The innermost words, with what an outer error put before them: which program, which file."""
    innermost = words[-1]
    return next(one for one in words if one.endswith(innermost))


def _first_words(text: str) -> str:
    """The first line, without the name of the query that Spark puts before it."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    words = lines[0] if lines else ""
    return _without_state(re.sub(r"^\[STREAM_FAILED\] .* terminated with exception: ", "", words))


def _without_state(words: str) -> str:
    """What Spark says without the code of its kind and Java's class; the place in a query stays."""
    return _JAVA_CLASS.sub("", _SQLSTATE.sub("", words)).rstrip(" ;")


def _short(words: str) -> str:
    return words if len(words) <= MESSAGE_CHARACTERS_MAX else f"{words[:MESSAGE_CHARACTERS_MAX]}…"
