"""Progress of an admin call: results, errors and open keys."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.admin.api_handler import (
    CONTROLLER_MOVED,
    COORDINATOR_MOVED,
    LEADER_MOVED,
    UNKNOWN_TOPIC_ATTEMPTS_MAX,
    AdminApiHandler,
    ApiError,
    CallProgress,
)
from odradek.client.admin.lookup_strategies import at_any_broker
from odradek.model.client_errors import ClientClosed, ConnectionFailed, PartialFailure, TimedOut, UnknownTopic
from odradek.model.errors import ErrorCode


def handler(retry_codes: frozenset[ErrorCode] = frozenset()) -> AdminApiHandler[str, Any]:
    return AdminApiHandler(
        call="do things",
        key_name=lambda key: f"thing {key}",
        lookup=at_any_broker,
        build_request=lambda keys, timeout_ms: None,
        read_response=lambda keys, response: [],
        retry_codes=retry_codes,
    )


def progress(*keys: str, retry_codes: frozenset[ErrorCode] = frozenset()) -> CallProgress[str, Any]:
    return CallProgress(handler(retry_codes), keys)


def test_result_when_all_keys_have_a_value() -> None:
    call = progress("a", "b")
    call.on_response(["a"], [("a", 1)])
    assert call.open == ["b"]
    call.on_response(["b"], [("b", None)])
    assert call.open == []
    assert call.result() == {"a": 1, "b": None}


def test_error_completes_only_its_key() -> None:
    call = progress("a", "b")
    call.on_response(["a", "b"], [("a", ApiError(ErrorCode.INVALID_CONFIG, "no such")), ("b", 2)])
    with pytest.raises(
        PartialFailure, match="do things: 1 of 2 failed: thing a: INVALID_CONFIG: no such"
    ) as raised:
        call.result()
    assert raised.value.results == {"b": 2}
    assert raised.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("retry_codes", "code"),
    [
        (CONTROLLER_MOVED, ErrorCode.NOT_CONTROLLER),
        (COORDINATOR_MOVED, ErrorCode.NOT_COORDINATOR),
        (COORDINATOR_MOVED, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (LEADER_MOVED, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_key_sent_to_the_wrong_broker_stays_open(retry_codes: frozenset[ErrorCode], code: ErrorCode) -> None:
    call = progress("a", retry_codes=retry_codes)
    for _ in range(100):
        call.on_response(["a"], [("a", ApiError(code))])
        assert call.open == ["a"]


def test_unknown_topic_is_retried_a_few_times() -> None:
    call = progress("a", retry_codes=LEADER_MOVED)
    for _ in range(UNKNOWN_TOPIC_ATTEMPTS_MAX - 1):
        call.on_lookup_errors({"a": ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)})
        assert call.open == ["a"]
    call.on_lookup_errors({"a": ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)})
    with pytest.raises(PartialFailure) as raised:
        call.result()
    assert isinstance(raised.value.errors["a"], UnknownTopic)


def test_key_missing_in_the_response_fails() -> None:
    call = progress("a")
    call.on_response(["a"], [])
    with pytest.raises(PartialFailure, match="the response has no entry for it"):
        call.result()


def test_lost_connection_leaves_keys_open_and_a_closed_client_does_not() -> None:
    call = progress("a", "b")
    call.on_failure(["a", "b"], ConnectionFailed("gone"))
    assert call.open == ["a", "b"]
    call.on_failure(["a", "b"], ClientClosed("closed"))
    assert call.open == []
    with pytest.raises(ClientClosed):
        call.result()


def test_timeout_reports_the_last_error() -> None:
    call = progress("a", retry_codes=CONTROLLER_MOVED)
    call.on_response(["a"], [("a", ApiError(ErrorCode.NOT_CONTROLLER))])
    call.time_out(5000)
    with pytest.raises(
        PartialFailure, match=r"thing a: not completed within 5000 ms; last error: .*NOT_CONTROLLER"
    ):
        call.result()


def test_common_error_is_raised_when_no_broker_responded() -> None:
    call = progress("a", "b")
    call.on_failure(["a", "b"], ConnectionFailed("no broker"))
    call.time_out(5000)
    with pytest.raises(TimedOut, match="no broker"):
        call.result()


def completed(call: CallProgress[str, Any]) -> tuple[set[str], set[str]]:
    """Return the keys with a result, and those with an error."""
    try:
        return set(call.result()), set()
    except PartialFailure as failed:
        return set(failed.results), set(failed.errors)
    except TimedOut:
        return set(), set("abcd")


results_strategy = st.one_of(
    st.integers(), st.sampled_from([ErrorCode.NOT_CONTROLLER, ErrorCode.INVALID_CONFIG]).map(ApiError)
)


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), results_strategy), max_size=8))
def test_every_key_ends_with_either_a_value_or_an_error(rounds: list[dict[str, Any]]) -> None:
    call = progress(*"abcd", retry_codes=CONTROLLER_MOVED)
    has_response = False
    for results in rounds:
        keys = [key for key in results if key in call.open]
        has_response |= bool(keys)
        call.on_response(keys, [(key, results[key]) for key in keys])
    call.time_out(1)
    assert call.open == []
    values, errors = completed(call)
    assert values | errors == set("abcd")
    assert not values & errors
    assert has_response or not values
