"""The rate of moves: kept over time, for all together, and changed at once."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from odradek.replication.alter_log_dirs_throttle import AlterLogDirsThrottle, left_to_pay
from odradek.testing.clock import VirtualClock, run_virtually


def copy(pieces, rate):
    """How long it takes, in milliseconds, to copy pieces of these sizes."""

    async def main():
        clock = VirtualClock(asyncio.get_running_loop())
        pace = AlterLogDirsThrottle(clock, lambda: rate)
        begun_ms = clock.monotonic_ms()
        for size in pieces:
            await pace.keep(size)
        return clock.monotonic_ms() - begun_ms

    return run_virtually(main)


@given(st.lists(st.integers(1, 1 << 20), min_size=1, max_size=20), st.integers(1_000, 10**9))
def test_all_that_is_copied_takes_as_long_as_the_rate_says(pieces, rate):
    due_ms = sum(pieces) * 1000 / rate
    assert due_ms - len(pieces) - 1 <= copy(pieces, rate) <= due_ms + len(pieces) + 1


def test_without_a_bound_nobody_waits():
    assert copy([1 << 20] * 1000, 2**63 - 1) == 0


def test_a_rate_that_is_raised_holds_for_those_who_wait_already():
    async def main():
        clock = VirtualClock(asyncio.get_running_loop())
        rates = [1]
        pace = AlterLogDirsThrottle(clock, lambda: rates[-1])
        waiting = asyncio.ensure_future(pace.keep(1 << 20))
        await clock.sleep_ms(10_000)
        assert not waiting.done()
        rates.append(1 << 30)
        await clock.sleep_ms(1_000)
        assert waiting.done()

    run_virtually(main)


def test_time_in_which_nothing_was_owed_earns_nothing():
    assert left_to_pay(0, 1_000_000, 1000) == 0
    assert left_to_pay(5000, 2000, 1000) == 3000


def test_time_in_which_nothing_was_copied_is_not_made_up_for():
    async def main():
        clock = VirtualClock(asyncio.get_running_loop())
        pace = AlterLogDirsThrottle(clock, lambda: 1000)
        await pace.keep(1)
        await clock.sleep_ms(60_000)
        begun_ms = clock.monotonic_ms()
        await pace.keep(5000)
        assert clock.monotonic_ms() - begun_ms >= 4_999

    run_virtually(main)
