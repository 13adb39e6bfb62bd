"""What is told when a query ends, and whether it is worth another try."""

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


def stream_failed(words: str) -> tuple[str, str]:
    return "StreamingQueryException", f"{BEGIN}{words}\n{PLAN}"


def trace(*errors: str) -> str:
    between = (
        "\n\nThe above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\n"
    )
    return WORKER + between.join(
        f'  File "/lib/a.py", line 5, in write\n    raise it\n{one}' for one in errors
    )


def test_a_row_that_cannot_be_read_stops_for_good_with_its_own_words() -> None:
    words = "the value of a record is no JSON of the schema: topic bad, partition 0, offset 1: x"
    text = f"{BEGIN}[USER_RAISED_EXCEPTION] {words} SQLSTATE: P0001 SQLSTATE: XXKST\n=== Streaming Query ==="
    assert explain("StreamingQueryException", text) == (words, False)


@pytest.mark.parametrize(
    ("error", "retry"),
    [
        ("odradek.model.client_errors.ConnectionFailed: no connection", True),
        ("odradek.model.client_errors.TimedOut: not done within 3 s", True),
        ("odradek.model.client_errors.ProducerFenced: another one", True),
        ("odradek.model.client_errors.UnknownTopic: nowhere does not exist", False),
        ("odradek.model.client_errors.AuthenticationFailed: no", False),
        ("odradek.model.errors.ConfigError: minpartition is not an option", False),
        ("odradek.spark.delta.errors.SchemaRefused: other columns", False),
        ("odradek.spark.sink.exactly_once_settings.ExactlyOnceUnsupported: speculation", False),
    ],
)
def test_our_own_errors_are_told_by_their_words_and_tried_again_by_their_kind(
    error: str, retry: bool
) -> None:
    assert explain(*stream_failed(trace(error))) == (error.partition(": ")[2], retry)


def test_the_last_error_of_a_chain_is_told_and_any_may_say_its_kind() -> None:
    sink = "odradek.spark.sink.errors.SinkFailed: a record is too large; raise max.request.size"
    found = explain(*stream_failed(trace("odradek.model.client_errors.RecordTooLarge: too large", sink)))
    assert found == ("a record is too large; raise max.request.size", False)
    found = explain(*stream_failed(trace("odradek.model.client_errors.TimedOut: late", sink)))
    assert found.retry


def test_an_error_of_user_code_is_told_with_its_line_and_not_tried_again() -> None:
    found = explain(*stream_failed(trace("ValueError: no such thing")))
    assert found == ("/lib/a.py:5: ValueError: no such thing", False)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Py4JNetworkError", "Answer from Java side is empty"),
        ("ConnectionRefusedError", "[Errno 111] Connection refused"),
        ("Py4JError", "An error occurred while calling o1.x: Answer from Java side is empty"),
    ],
)
def test_a_java_that_died_is_started_again(name: str, text: str) -> None:
    assert explain(name, text) == ("Spark's Java process died", True)


def test_an_error_of_analysis_is_its_first_line_without_the_plan() -> None:
    text = (
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `x` cannot be resolved. SQLSTATE: 42703;\n'Project ['x]"
    )
    found = explain("AnalysisException", text)
    assert found == ("[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `x` cannot be resolved.", False)


def test_errors_of_the_machine_may_pass_and_those_of_the_query_do_not() -> None:
    disk = "Job aborted due to stage failure: lost task: java.io.IOException: No space left on device"
    message, retry = explain(*stream_failed(disk))
    assert message.startswith("No space left on device (make room where the checkpoint")
    assert retry
    divided = "org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"
    assert explain(*stream_failed(divided)) == ("[DIVIDE_BY_ZERO] Division by zero.", False)


def test_words_that_an_outer_error_put_before_the_innermost_are_kept() -> None:
    text = (
        "java.lang.RuntimeException: it failed\n\tat a.b(C.scala:1)\n"
        'Caused by: java.io.IOException: Cannot run program "chmod": error=2, No such file or directory\n'
        "Caused by: java.io.IOException: error=2, No such file or directory"
    )
    assert explain("Py4JJavaError", text).message.startswith('Cannot run program "chmod"')


def test_a_message_is_bounded_and_never_empty() -> None:
    assert len(explain("Odd", "x" * 10_000).message) == MESSAGE_CHARACTERS_MAX + 1
    assert explain("Odd", "").message == "Odd"


def test_the_place_of_an_error_in_a_query_is_told() -> None:
    text = "q.sql: [PARSE_SYNTAX_ERROR] Syntax error at or near 'selec'. SQLSTATE: 42601 (line 1, pos 0)"
    assert explain("TransformFailed", text).message.endswith("near 'selec'. (line 1, pos 0)")


def test_a_loss_is_told_with_the_words_of_a_pipelines_file() -> None:
    message, retry = explain(
        *stream_failed(trace("odradek.spark.source.data_loss.DataLoss: 5 to 9 are gone"))
    )
    assert message.startswith("5 to 9 are gone (in a pipeline's file: [source] options")
    assert not retry


def test_what_spark_never_does_is_not_asked_of_it_twice() -> None:
    found = explain(*stream_failed("requirement failed: odradek does not support Update mode."))
    assert found == ("requirement failed: odradek does not support Update mode.", False)


def test_a_damaged_checkpoint_is_not_read_again_and_told_with_a_way_out() -> None:
    words = "Failed to read log file file:/ck/commits/1. Incomplete log file in the offset commit log"
    message, retry = explain(*stream_failed(words))
    assert message.startswith(f"{words} (put the file back from a copy")
    assert not retry


def test_an_error_that_says_what_to_do_is_told_nothing_more() -> None:
    words = "the storage of the table at /lake is full (No space left on device): free space"
    found = explain(*stream_failed(trace(f"odradek.spark.delta.errors.StorageFailed: {words}")))
    assert found == (words, True)


def test_a_process_that_ended_in_the_midst_of_an_answer_is_told_as_such() -> None:
    message, retry = explain(
        "StreamingQueryException", f"{BEGIN} SQLSTATE: XXKST\nCaused by: java.io.EOFException"
    )
    assert message.startswith("a Python process of Spark ended")
    assert retry


def test_markers_that_are_gone_are_told_with_what_to_write_into_the_file() -> None:
    text = "Traceback (most recent call last):\nodradek.spark.markers.MarkersLost: no marker is left"
    failure = explain("StreamingQueryException", text)
    assert failure.message.startswith("no marker is left (in a pipeline's file: [sink] options")
    assert not failure.retry
