"""Legal topic names, and names too alike."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.cluster.topic_names import check_topic_name, colliding_topic, is_legal_topic_name
from odradek.model.errors import BrokerError, ErrorCode


@pytest.mark.parametrize(
    "name", ["a", "A9", "valid_TOPIC.NAME-9", "...", "_", "-", "a" * 249, "__consumer_offsets"]
)
def test_legal_topic_names(name: str) -> None:
    assert is_legal_topic_name(name)
    check_topic_name(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("a" * 250, "250 characters"),
        ("a b", "other than"),
        ("a/b", "other than"),
        ("grün", "other than"),
        ("a\n", "other than"),
        ("a\0", "other than"),
        ("٣", "other than"),
    ],
)
def test_illegal_topic_names_are_rejected(name: str, reason: str) -> None:
    assert not is_legal_topic_name(name)
    with pytest.raises(BrokerError, match=reason) as raised:
        check_topic_name(name)
    assert raised.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("name", "other"), [("a.b", "a_b"), ("a_b", "a.b"), ("a.b_c", "a_b.c"), ("x", None), ("a.b", None)]
)
def test_names_that_differ_in_dot_and_underscore_collide(name: str, other: str | None) -> None:
    topics = ["x", "ab", "a-b", name, "a.bc", *([other] if other else [])]
    assert colliding_topic(name, topics) == other


names = st.text("ab._", min_size=1, max_size=5)


@given(names, names)
def test_collision_is_symmetric(name: str, other: str) -> None:
    assert (colliding_topic(name, [other]) is None) == (colliding_topic(other, [name]) is None)
    assert colliding_topic(name, [name]) is None
