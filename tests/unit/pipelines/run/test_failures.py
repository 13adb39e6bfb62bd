"""Messages of query failures, and whether they are retried."""

from __future__ import annotations

import pytest

from odradek.pipelines.run.failures import MESSAGE_CHARACTERS_MAX, explain

BEGIN = "[STREAM_FAILED] Query [id = 4fc5, runId = cb72] terminated with exception: "
PLAN = (
    " SQLSTATE: 38000 SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: orders\nLogical Plan:\n+- Project"
)
WORKER = (
    "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):\n"
)


def stream_failed(message: str) -> tuple[str, str]:
    return "StreamingQueryException", f"{BEGIN}{message}\n{PLAN}"


def trace(*errors: str) -> str:
    between = (
        "\n\nThe above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\n"
    )
    return WORKER + between.join(
        f'  File "/lib/a.py", line 5, in write\n    raise it\n{error}' for error in errors
    )


def test_unparsable_record_is_a_permanent_failure() -> None:
    message = "the value of a record is not JSON of the schema: topic bad, partition 0, offset 1: x"
    text = (
        f"{BEGIN}[USER_RAISED_EXCEPTION] {message} SQLSTATE: P0001 SQLSTATE: XXKST\n=== Streaming Query ==="
    )
    assert explain("StreamingQueryException", text) == (message, False)


@pytest.mark.parametrize(
    ("error", "retry"),
    [
        ("odradek.model.client_errors.ConnectionFailed: no connection", True),
        ("odradek.model.client_errors.TimedOut: not done within 3 s", True),
        ("odradek.model.client_errors.ProducerFenced: another one", True),
        ("odradek.model.client_errors.UnknownTopic: nowhere does not exist", False),
        ("odradek.model.client_errors.AuthenticationFailed: no", False),
        ("odradek.model.errors.ConfigError: minpartition is not an option", False),
        ("odradek.spark.delta.errors.SchemaMismatch: other columns", False),
        ("odradek.spark.sink.exactly_once_settings.ExactlyOnceUnsupported: speculation", False),
    ],
)
def test_our_errors_keep_their_message_and_are_retried_by_class(error: str, retry: bool) -> None:
    assert explain(*stream_failed(trace(error))) == (error.partition(": ")[2], retry)


def test_last_error_of_a_chain_gives_the_message() -> None:
    sink = "odradek.spark.sink.errors.SinkFailed: a record is too large; raise max.request.size"
    failure = explain(*stream_failed(trace("odradek.model.client_errors.RecordTooLarge: too large", sink)))
    assert failure == ("a record is too large; raise max.request.size", False)
    failure = explain(*stream_failed(trace("odradek.model.client_errors.TimedOut: late", sink)))
    assert failure.retry


def test_user_code_error_has_its_line_and_is_not_retried() -> None:
    failure = explain(*stream_failed(trace("ValueError: no such thing")))
    assert failure == ("/lib/a.py:5: ValueError: no such thing", False)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Py4JNetworkError", "Answer from Java side is empty"),
        ("ConnectionRefusedError", "[Errno 111] Connection refused"),
        ("Py4JError", "An error occurred while calling o1.x: Answer from Java side is empty"),
    ],
)
def test_dead_java_process_is_retried(name: str, text: str) -> None:
    assert explain(name, text) == ("Spark's Java process died", True)


def test_analysis_error_is_shown_without_the_plan() -> None:
    text = (
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `x` cannot be resolved. SQLSTATE: 42703;\n'Project ['x]"
    )
    failure = explain("AnalysisException", text)
    assert failure == ("[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `x` cannot be resolved.", False)


def test_machine_errors_are_retried_and_query_errors_are_not() -> None:
    disk = "Job aborted due to stage failure: lost task: java.io.IOException: No space left on device"
    message, retry = explain(*stream_failed(disk))
    assert message.startswith("No space left on device (free space for the checkpoint")
    assert retry
    divided = "org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"
    assert explain(*stream_failed(divided)) == ("[DIVIDE_BY_ZERO] Division by zero.", False)


def test_prefix_of_an_outer_error_is_kept() -> None:
    text = (
        "java.lang.RuntimeException: it failed\n\tat a.b(C.scala:1)\n"
        'Caused by: java.io.IOException: Cannot run program "chmod": error=2, No such file or directory\n'
        "Caused by: java.io.IOException: error=2, No such file or directory"
    )
    assert explain("Py4JJavaError", text).message.startswith('Cannot run program "chmod"')


def test_message_is_bounded_and_not_empty() -> None:
    assert len(explain("Odd", "x" * 10_000).message) == MESSAGE_CHARACTERS_MAX + 1
    assert explain("Odd", "").message == "Odd"


def test_position_in_a_query_is_kept() -> None:
    text = "q.sql: [PARSE_SYNTAX_ERROR] Syntax error at or near 'selec'. SQLSTATE: 42601 (line 1, pos 0)"
    assert explain("TransformFailed", text).message.endswith("near 'selec'. (line 1, pos 0)")


def test_data_loss_has_advice_for_the_pipeline_file() -> None:
    message, retry = explain(
        *stream_failed(trace("odradek.spark.source.data_loss.DataLoss: 5 to 9 are gone"))
    )
    assert message.startswith("5 to 9 are gone (in the pipeline file: [source] options")
    assert not retry


def test_unsupported_operation_is_not_retried() -> None:
    failure = explain(*stream_failed("requirement failed: odradek does not support Update mode."))
    assert failure == ("requirement failed: odradek does not support Update mode.", False)


def test_damaged_checkpoint_is_not_retried_and_has_advice() -> None:
    error = "Failed to read log file file:/ck/commits/1. Incomplete log file in the offset commit log"
    message, retry = explain(*stream_failed(error))
    assert message.startswith(f"{error} (restore the file from a copy")
    assert not retry


def test_error_with_advice_gets_no_more() -> None:
    message = "the storage of the table at /lake is full (No space left on device): free space"
    failure = explain(*stream_failed(trace(f"odradek.spark.delta.errors.StorageFailed: {message}")))
    assert failure == (message, True)


def test_killed_python_worker_is_reported() -> None:
    message, retry = explain(
        "StreamingQueryException", f"{BEGIN} SQLSTATE: XXKST\nCaused by: java.io.EOFException"
    )
    assert message.startswith("a Python worker of Spark exited unexpectedly")
    assert retry


def test_lost_markers_have_advice_for_the_pipeline_file() -> None:
    text = "Traceback (most recent call last):\nodradek.spark.sink.markers.MarkersLost: no marker is left"
    failure = explain("StreamingQueryException", text)
    assert failure.message.startswith("no marker is left (in the pipeline file: [sink] options")
    assert not failure.retry
