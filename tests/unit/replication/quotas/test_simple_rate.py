"""Rates over samples."""

from __future__ import annotations

import pytest

from odradek.replication.quotas.simple_rate import SimpleRate


def rate_of(*records: tuple[int, int], now_ms: int, samples: int = 10, window_ms: int = 1000) -> float:
    rate = SimpleRate(samples, window_ms)
    for value, at_ms in records:
        rate.record(value, at_ms)
    return rate.per_second(now_ms)


@pytest.mark.parametrize(
    ("records", "now_ms", "expected"),
    [
        ([], 5000, 0),
        # At least one window, however little time has passed.
        ([(500, 0)], 0, 500),
        ([(500, 0)], 999, 500),
        ([(500, 0)], 2000, 250),
        ([(500, 0), (500, 100)], 500, 1000),
        ([(500, 0), (500, 1000)], 2000, 500),
        # A pause counts as long as a sample before it is kept.
        ([(1000, 0), (1000, 8000)], 8000, 250),
        ([(1000, 0), (1000, 8000)], 9999, 2000 * 1000 / 9999),
        # The first sample is dropped when it began ten windows ago.
        ([(1000, 0), (1000, 8000)], 10_000, 500),
        ([(1000, 0)], 10_000, 0),
    ],
)
def test_rate_is_the_sum_over_the_time_since_the_oldest_sample(
    records: list[tuple[int, int]], now_ms: int, expected: float
) -> None:
    assert rate_of(*records, now_ms=now_ms) == pytest.approx(expected)


def test_samples_are_bounded() -> None:
    rate = SimpleRate(11, 1000)
    for now_ms in range(0, 3_600_000, 7):
        rate.record(7, now_ms)
    assert len(rate._samples) <= 11
    assert rate.per_second(3_600_000) == pytest.approx(1000, rel=0.01)
