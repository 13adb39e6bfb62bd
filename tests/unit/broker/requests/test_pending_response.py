"""Answers that are not there yet."""

from typing import Any

import pytest

from odradek.broker.requests.pending_response import PendingResponse


def test_callback_set_before_completion_is_called_on_completion():
    pending: PendingResponse[Any] = PendingResponse()
    reported: list[Any] = []
    pending.then(reported.append)
    assert reported == []
    pending.complete("value")
    assert reported == ["value"]


def test_callback_set_after_completion_is_called_at_once():
    pending: PendingResponse[Any] = PendingResponse()
    reported: list[Any] = []
    pending.complete(None)
    pending.then(reported.append)
    assert reported == [None]


def test_completing_twice_is_an_error():
    pending: PendingResponse[int] = PendingResponse()
    pending.complete(1)
    with pytest.raises(AssertionError):
        pending.complete(2)
