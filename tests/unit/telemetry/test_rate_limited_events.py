"""Rate-limited log events."""

from __future__ import annotations

import logging

import pytest

from odradek.telemetry import events
from odradek.telemetry.rate_limited_events import RateLimitedEvents


class Clock:
    def __init__(self) -> None:
        self.now_ms = 5_000

    def monotonic_ms(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bounded(clock: Clock) -> RateLimitedEvents:
    return RateLimitedEvents(
        events.logger("test"), clock.monotonic_ms, count_max=2, window_ms=1_000, kinds_max=3
    )


def _lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_events_are_limited_per_window(
    bounded: RateLimitedEvents, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "odradek"):
        for number in range(100):
            bounded.warning("batch_rejected", "CORRUPT_MESSAGE", number=number)
    assert _lines(caplog) == ["test.batch_rejected number=0", "test.batch_rejected number=1"]


def test_suppressed_count_is_reported(
    bounded: RateLimitedEvents, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "odradek"):
        for _ in range(10):
            bounded.warning("batch_rejected", "CORRUPT_MESSAGE")
        clock.now_ms += 1_000
        for _ in range(3):
            bounded.warning("batch_rejected", "CORRUPT_MESSAGE")
    assert _lines(caplog) == [
        "test.batch_rejected",
        "test.batch_rejected",
        "test.batch_rejected suppressed=8",
        "test.batch_rejected",
    ]


def test_kinds_are_limited_separately(bounded: RateLimitedEvents, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "odradek"):
        for kind in "aabbb":
            bounded.warning("batch_rejected", kind, kind=kind)
    assert [line[-1] for line in _lines(caplog)] == ["a", "a", "b", "b"]


def test_number_of_kinds_is_bounded(
    bounded: RateLimitedEvents, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "odradek"):
        for number in range(50):
            bounded.warning("batch_rejected", str(number))
    assert len(_lines(caplog)) == 3 + 2  # one each, and of all others together as many as of one kind
    clock.now_ms += 1_000
    with caplog.at_level(logging.WARNING, "odradek"):
        bounded.warning("batch_rejected", "49")
    assert len(_lines(caplog)) == 6
