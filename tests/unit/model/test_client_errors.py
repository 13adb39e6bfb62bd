"""Exceptions that carry more than a message."""

from __future__ import annotations

import pickle

from odradek.model.client_errors import (
    ConnectionFailed,
    LogTruncation,
    PartialFailure,
    RequestRefused,
)
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition


def request_refused(code: ErrorCode, what: str) -> RequestRefused:
    return RequestRefused(f"{what}: {code.name}", code=code)


def test_single_failure_is_reported_without_count() -> None:
    error = PartialFailure("create topics", {"a": request_refused(ErrorCode.TOPIC_ALREADY_EXISTS, "topic a")})
    assert str(error) == "create topics: topic a: TOPIC_ALREADY_EXISTS"
    assert error.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert not error.retriable


def test_partial_failure_keeps_errors_and_results() -> None:
    failures = {
        "a": request_refused(ErrorCode.TOPIC_ALREADY_EXISTS, "topic a"),
        "b": ConnectionFailed("topic b: gone"),
    }
    error = PartialFailure("create topics", failures, {"c": 3})
    assert str(error) == ("create topics: 2 of 3 failed: topic a: TOPIC_ALREADY_EXISTS; topic b: gone")
    assert error.errors == failures
    assert error.results == {"c": 3}
    assert error.code is None


def test_many_failures_are_summarised() -> None:
    failures = {index: request_refused(ErrorCode.NOT_CONTROLLER, f"topic {index}") for index in range(1000)}
    error = PartialFailure("create topics", failures)
    assert "and 990 more" in str(error)
    assert len(str(error)) < 1000
    assert error.retriable


def test_divergent_offsets_survive_the_way_to_another_process() -> None:
    error = pickle.loads(pickle.dumps(LogTruncation("truncated", {TopicPartition("a", 0): 7})))
    assert error.divergent_offsets == {TopicPartition("a", 0): 7}
    assert str(error) == "truncated"
