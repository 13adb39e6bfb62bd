"""A bound on bytes a second."""

from hypothesis import given
from hypothesis import strategies as st

from odradek.log.cleaning.throttler import PERIOD_MS, Throttler


def test_what_is_within_the_bound_waits_for_nothing() -> None:
    throttle = Throttler()
    assert throttle.spend(0, 1000, 5000) == 0
    assert throttle.spend(10**12, float("inf"), 5000) == 0


def test_what_is_above_the_bound_waits_until_it_is_not() -> None:
    throttle = Throttler()
    assert throttle.spend(500, 1000, 5000) == 500
    assert throttle.spend(500, 1000, 5500) == 500


def test_silence_is_not_saved_up() -> None:
    throttle = Throttler()
    throttle.spend(1, 1000, 0)
    assert throttle.spend(1000, 1000, 100 * PERIOD_MS) == 1000


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 3000)), max_size=40), st.integers(1, 10_000))
def test_whoever_waits_as_told_keeps_the_bound(spendings: list[tuple[int, int]], rate: int) -> None:
    throttle, now_ms, spent = Throttler(), 10_000, 0
    for size_bytes, pause_ms in spendings:
        now_ms += pause_ms + throttle.spend(size_bytes, rate, now_ms + pause_ms)
        spent += size_bytes
        assert spent <= rate * (now_ms - 10_000 + PERIOD_MS + len(spendings)) / 1000
