"""Limit on bytes per second."""

from hypothesis import given
from hypothesis import strategies as st

from odradek.log.cleaning.throttler import PERIOD_MS, Throttler


def test_no_delay_within_the_limit() -> None:
    throttler = Throttler()
    assert throttler.spend(0, 1000, 5000) == 0
    assert throttler.spend(10**12, float("inf"), 5000) == 0


def test_delay_above_the_limit() -> None:
    throttler = Throttler()
    assert throttler.spend(500, 1000, 5000) == 500
    assert throttler.spend(500, 1000, 5500) == 500


def test_unused_budget_expires() -> None:
    throttler = Throttler()
    throttler.spend(1, 1000, 0)
    assert throttler.spend(1000, 1000, 100 * PERIOD_MS) == 1000


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 3000)), max_size=40), st.integers(1, 10_000))
def test_delays_enforce_the_limit(io: list[tuple[int, int]], rate: int) -> None:
    throttler, now_ms, total_bytes = Throttler(), 10_000, 0
    for size_bytes, pause_ms in io:
        now_ms += pause_ms + throttler.spend(size_bytes, rate, now_ms + pause_ms)
        total_bytes += size_bytes
        assert total_bytes <= rate * (now_ms - 10_000 + PERIOD_MS + len(io)) / 1000
