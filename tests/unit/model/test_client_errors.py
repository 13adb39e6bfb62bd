"""Failures say what was tried, whether to try again, and are of the class a program can tell apart."""

from __future__ import annotations

import pytest

from odradek.model.client_errors import (
    AuthorizationFailed,
    ClientError,
    ConnectionFailed,
    RequestRefused,
    SomeFailed,
    UnknownTopic,
    refusal,
)
from odradek.model.errors import ErrorCode


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UnknownTopic),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, AuthorizationFailed),
        (ErrorCode.TOPIC_ALREADY_EXISTS, RequestRefused),
    ],
)
def test_a_code_has_its_class(code: ErrorCode, kind: type[ClientError]) -> None:
    error = refusal(code, "topic a")
    assert type(error) is kind
    assert error.code is code
    assert error.retriable is code.retriable


def test_a_refusal_names_what_was_asked_the_code_and_the_brokers_words() -> None:
    error = refusal(ErrorCode.INVALID_CONFIG, "topic a", "no such setting", broker="1 (host:9092)")
    assert str(error) == "topic a: INVALID_CONFIG: no such setting (broker 1 (host:9092))"


def test_one_failure_of_one_is_told_without_counting() -> None:
    error = SomeFailed("create topics", {"a": refusal(ErrorCode.TOPIC_ALREADY_EXISTS, "topic a")})
    assert str(error) == "create topics: topic a: TOPIC_ALREADY_EXISTS"
    assert error.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert not error.retriable


def test_failures_among_successes_are_counted_and_both_are_kept() -> None:
    failures = {
        "a": refusal(ErrorCode.TOPIC_ALREADY_EXISTS, "topic a"),
        "b": ConnectionFailed("topic b: gone"),
    }
    error = SomeFailed("create topics", failures, {"c": 3})
    assert str(error) == ("create topics: 2 of 3 failed: topic a: TOPIC_ALREADY_EXISTS; topic b: gone")
    assert error.errors == failures
    assert error.results == {"c": 3}
    assert error.code is None


def test_a_thousand_failures_make_a_readable_sentence() -> None:
    failures = {index: refusal(ErrorCode.NOT_CONTROLLER, f"topic {index}") for index in range(1000)}
    error = SomeFailed("create topics", failures)
    assert "and 990 more" in str(error)
    assert len(str(error)) < 1000
    assert error.retriable
