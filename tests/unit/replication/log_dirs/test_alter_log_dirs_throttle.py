"""The throttle of log moves."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from odradek.replication.log_dirs.alter_log_dirs_throttle import AlterLogDirsThrottle, remaining_debt
from odradek.testing.clock import VirtualClock, run_virtually


def copy(chunks, rate):
    """Return the milliseconds it takes to copy chunks of these sizes."""

    async def main():
        clock = VirtualClock(asyncio.get_running_loop())
        throttle = AlterLogDirsThrottle(clock, lambda: rate)
        begun_ms = clock.monotonic_ms()
        for size in chunks:
            await throttle.throttle(size)
        return clock.monotonic_ms() - begun_ms

    return run_virtually(main)


@given(st.lists(st.integers(1, 1 << 20), min_size=1, max_size=20), st.integers(1_000, 10**9))
def test_copying_keeps_the_rate(chunks, rate):
    due_ms = sum(chunks) * 1000 / rate
    assert due_ms - len(chunks) - 1 <= copy(chunks, rate) <= due_ms + len(chunks) + 1


def test_unbounded_rate_does_not_throttle():
    assert copy([1 << 20] * 1000, 2**63 - 1) == 0


def test_raised_rate_applies_to_waiting_moves():
    async def main():
        clock = VirtualClock(asyncio.get_running_loop())
        rates = [1]
        throttle = AlterLogDirsThrottle(clock, lambda: rates[-1])
        waiting = asyncio.ensure_future(throttle.throttle(1 << 20))
        await clock.sleep_ms(10_000)
        assert not waiting.done()
        rates.append(1 << 30)
        await clock.sleep_ms(1_000)
        assert waiting.done()

    run_virtually(main)


def test_time_without_debt_earns_no_credit():
    assert remaining_debt(0, 1_000_000, 1000) == 0
    assert remaining_debt(5000, 2000, 1000) == 3000


def test_idle_time_earns_no_credit():
    async def main():
        clock = VirtualClock(asyncio.get_running_loop())
        throttle = AlterLogDirsThrottle(clock, lambda: 1000)
        await throttle.throttle(1)
        await clock.sleep_ms(60_000)
        begun_ms = clock.monotonic_ms()
        await throttle.throttle(5000)
        assert clock.monotonic_ms() - begun_ms >= 4_999

    run_virtually(main)
