"""Answers that are not there yet."""

import pytest

from odradek.broker.requests.pending_response import PendingResponse


def test_callback_set_before_completion_is_called_on_completion():
    pending, reported = PendingResponse(), []
    pending.then(reported.append)
    assert reported == []
    pending.complete("value")
    assert reported == ["value"]


def test_callback_set_after_completion_is_called_at_once():
    pending, reported = PendingResponse(), []
    pending.complete(None)
    pending.then(reported.append)
    assert reported == [None]


def test_completing_twice_is_an_error():
    pending = PendingResponse()
    pending.complete(1)
    with pytest.raises(AssertionError):
        pending.complete(2)
