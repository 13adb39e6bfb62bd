"""Answers that are not there yet."""

import pytest

from odradek.broker.requests.pending_response import Pending


def test_a_listener_that_is_there_first_is_told_when_the_value_comes():
    pending, told = Pending(), []
    pending.then(told.append)
    assert told == []
    pending.complete("value")
    assert told == ["value"]


def test_a_listener_that_comes_later_is_told_at_once():
    pending, told = Pending(), []
    pending.complete(None)
    pending.then(told.append)
    assert told == [None]


def test_a_value_is_given_once():
    pending = Pending()
    pending.complete(1)
    with pytest.raises(AssertionError):
        pending.complete(2)
