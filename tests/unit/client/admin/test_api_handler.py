"""What an answer means for the keys of a call."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.admin.api_handler import (
    CONTROLLER_MOVED,
    COORDINATOR_MOVED,
    LEADER_MOVED,
    UNKNOWN_TOPIC_TRIES_MAX,
    AdminApiHandler,
    ApiError,
    CallProgress,
)
from odradek.client.admin.lookup_strategies import anywhere
from odradek.model.client_errors import ClientClosed, ConnectionFailed, PartialFailure, TimedOut, UnknownTopic
from odradek.model.errors import ErrorCode


def work(again: frozenset[ErrorCode] = frozenset()) -> AdminApiHandler[str, Any]:
    return AdminApiHandler(
        what="do things",
        name=lambda key: f"thing {key}",
        route=anywhere,
        request=lambda keys, timeout_ms: None,
        read=lambda keys, answer: [],
        again=again,
    )


def progress(*keys: str, again: frozenset[ErrorCode] = frozenset()) -> CallProgress[str, Any]:
    return CallProgress(work(again), keys)


def test_values_are_given_once_all_keys_have_one() -> None:
    call = progress("a", "b")
    call.answered(["a"], [("a", 1)])
    assert call.open == ["b"]
    call.answered(["b"], [("b", None)])
    assert call.open == []
    assert call.result() == {"a": 1, "b": None}


def test_a_code_ends_its_key_and_no_other() -> None:
    call = progress("a", "b")
    call.answered(["a", "b"], [("a", ApiError(ErrorCode.INVALID_CONFIG, "no such")), ("b", 2)])
    with pytest.raises(
        PartialFailure, match="do things: 1 of 2 failed: thing a: INVALID_CONFIG: no such"
    ) as raised:
        call.result()
    assert raised.value.results == {"b": 2}
    assert raised.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("again", "code"),
    [
        (CONTROLLER_MOVED, ErrorCode.NOT_CONTROLLER),
        (COORDINATOR_MOVED, ErrorCode.NOT_COORDINATOR),
        (COORDINATOR_MOVED, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (LEADER_MOVED, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_a_key_asked_at_the_wrong_place_stays_open(again: frozenset[ErrorCode], code: ErrorCode) -> None:
    call = progress("a", again=again)
    for _ in range(100):
        call.answered(["a"], [("a", ApiError(code))])
        assert call.open == ["a"]


def test_an_unknown_topic_gets_a_few_more_tries() -> None:
    call = progress("a", again=LEADER_MOVED)
    for _ in range(UNKNOWN_TOPIC_TRIES_MAX - 1):
        call.refused({"a": ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)})
        assert call.open == ["a"]
    call.refused({"a": ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)})
    with pytest.raises(PartialFailure) as raised:
        call.result()
    assert isinstance(raised.value.errors["a"], UnknownTopic)


def test_a_key_the_answer_does_not_name_has_failed() -> None:
    call = progress("a")
    call.answered(["a"], [])
    with pytest.raises(PartialFailure, match="does not name it"):
        call.result()


def test_a_lost_connection_leaves_keys_open_and_a_closed_client_does_not() -> None:
    call = progress("a", "b")
    call.failed(["a", "b"], ConnectionFailed("gone"))
    assert call.open == ["a", "b"]
    call.failed(["a", "b"], ClientClosed("closed"))
    assert call.open == []
    with pytest.raises(ClientClosed):
        call.result()


def test_when_time_is_over_the_last_trouble_is_told() -> None:
    call = progress("a", again=CONTROLLER_MOVED)
    call.answered(["a"], [("a", ApiError(ErrorCode.NOT_CONTROLLER))])
    call.give_up(5000)
    with pytest.raises(
        PartialFailure, match=r"thing a: not done within 5000 ms; the last try: .*NOT_CONTROLLER"
    ):
        call.result()


def test_if_nobody_ever_answered_that_is_what_is_raised() -> None:
    call = progress("a", "b")
    call.failed(["a", "b"], ConnectionFailed("no broker"))
    call.give_up(5000)
    with pytest.raises(TimedOut, match="no broker"):
        call.result()


def ended(call: CallProgress[str, Any]) -> tuple[set[str], set[str]]:
    """The keys with a value, and those with an error."""
    try:
        return set(call.result()), set()
    except PartialFailure as failed:
        return set(failed.results), set(failed.errors)
    except TimedOut:
        return set(), set("abcd")


outcomes = st.one_of(
    st.integers(), st.sampled_from([ErrorCode.NOT_CONTROLLER, ErrorCode.INVALID_CONFIG]).map(ApiError)
)


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), outcomes), max_size=8))
def test_every_key_ends_with_a_value_or_an_error_and_never_both(rounds: list[dict[str, Any]]) -> None:
    call = progress(*"abcd", again=CONTROLLER_MOVED)
    answered = False
    for told in rounds:
        asked = [key for key in told if key in call.open]
        answered |= bool(asked)
        call.answered(asked, [(key, told[key]) for key in asked])
    call.give_up(1)
    assert call.open == []
    values, errors = ended(call)
    assert values | errors == set("abcd")
    assert not values & errors
    assert answered or not values
