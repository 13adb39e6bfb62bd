"""Times at which access tokens are replaced."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.security.sasl.token_refresh import RefreshSettings, refresh_at_ms, retry_wait_ms

MINUTE = 60_000
NOW = 10_000_000


@pytest.mark.parametrize(
    ("issued", "expires", "random", "expected"),
    [
        (NOW, NOW + 100 * MINUTE, 0.0, NOW + 80 * MINUTE),
        (NOW, NOW + 100 * MINUTE, 1.0, NOW + 85 * MINUTE),
        (None, NOW + 100 * MINUTE, 0.0, NOW + 80 * MINUTE),
        (NOW - 50 * MINUTE, NOW + 50 * MINUTE, 0.0, NOW + 30 * MINUTE),
        (NOW, NOW + 20 * MINUTE, 0.0, NOW + 15 * MINUTE),  # the buffer before expiry
        (NOW - 1000 * MINUTE, NOW + 10 * MINUTE, 0.0, NOW + MINUTE),  # the minimum period
        (NOW, NOW + 6 * MINUTE, 0.0, NOW + MINUTE),  # just room for both
        (NOW, NOW + 5 * MINUTE, 0.0, NOW + 4 * MINUTE),  # too short for both
        (NOW, NOW, 0.0, NOW),
        (NOW - MINUTE, NOW - 1, 0.0, NOW + 10_000),
    ],
)
def test_refresh(issued: int | None, expires: int, random: float, expected: int) -> None:
    assert refresh_at_ms(NOW, issued, expires, RefreshSettings(), random) == expected


@given(
    st.one_of(st.none(), st.integers(0, NOW)),
    st.integers(0, 2 * NOW),
    st.floats(0.5, 1),
    st.floats(0, 0.25),
    st.integers(0, 900),
    st.integers(0, 3600),
    st.floats(0, 1),
)
def test_refresh_is_neither_past_nor_needlessly_late(
    issued: int | None, expires: int, factor: float, jitter: float, period: int, buffer: int, random: float
) -> None:
    at = refresh_at_ms(NOW, issued, expires, RefreshSettings(factor, jitter, period, buffer), random)
    assert at >= NOW
    if expires >= NOW + 1000 * (period + buffer):
        assert NOW + 1000 * period <= at <= expires - 1000 * buffer
    elif expires < NOW:
        assert at == NOW + 10_000


def test_limits_are_allowed() -> None:
    RefreshSettings(0.5, 0.0, 0, 0).check()
    RefreshSettings(1.0, 0.25, 900, 3600).check()


@pytest.mark.parametrize(
    "change",
    [
        {"window_factor": 0.49},
        {"window_factor": 1.01},
        {"window_jitter": -0.01},
        {"window_jitter": 0.26},
        {"min_period_s": -1},
        {"min_period_s": 901},
        {"buffer_s": -1},
        {"buffer_s": 3601},
    ],
)
def test_limits_of_settings(change: dict[str, Any]) -> None:
    RefreshSettings().check()
    with pytest.raises(ValueError, match=next(iter(change))):
        RefreshSettings()._replace(**change).check()


def test_retries_back_off_within_the_time_left() -> None:
    assert [retry_wait_ms(attempt, 100, 10_000) for attempt in (1, 2, 3, 8, 100)] == [
        100,
        200,
        400,
        10_000,
        10_000,
    ]
    assert retry_wait_ms(3, 100, 250) == 250
    assert retry_wait_ms(1, 100, 1) == 1
    assert retry_wait_ms(1, 100, 0) is None
    assert retry_wait_ms(1, 100, -5) is None
