"""Timer driver: advancing a timing wheel from the event loop."""

import asyncio
from functools import partial

from odradek.broker.timer_driver import TimerDriver
from odradek.testing.clock import VirtualClock, run_virtually
from odradek.testing.entropy import SeededEntropy


async def make() -> tuple[TimerDriver, VirtualClock]:
    clock = VirtualClock(asyncio.get_running_loop())
    return TimerDriver(clock), clock


def test_timers_fire_at_their_deadline_in_any_insertion_order():
    async def main():
        timer_driver, clock = await make()
        fired: list[tuple[int, int]] = []

        def fire(deadline_ms: int) -> None:
            fired.append((deadline_ms, clock.monotonic_ms()))

        for deadline_ms in (500, 20, 70_000, 3, 500, 1_000_000):
            timer_driver.wheel.add(deadline_ms, partial(fire, deadline_ms))
            timer_driver.arm(deadline_ms)
        await asyncio.sleep(2000)
        assert [deadline for deadline, _ in fired] == [3, 20, 500, 500, 70_000, 1_000_000]
        assert all(deadline == at for deadline, at in fired), "neither early nor late"

    run_virtually(main)


def test_random_timers_fire_once_and_never_early():
    async def main():
        timer_driver, clock = await make()
        randomness = SeededEntropy(5)
        fired: dict[int, int] = {}

        def fire(number: int, deadline_ms: int) -> None:
            fired.setdefault(number, clock.monotonic_ms() - deadline_ms)

        for number in range(300):
            deadline_ms = clock.monotonic_ms() + randomness.below(5000)
            timer_driver.wheel.add(deadline_ms, partial(fire, number, deadline_ms))
            timer_driver.arm(deadline_ms)
            await asyncio.sleep(randomness.below(30) / 1000)
        await asyncio.sleep(10)
        assert len(fired) == 300
        assert all(0 <= late <= 1 for late in fired.values())

    run_virtually(main)


def test_timer_that_raises_does_not_stop_the_driver():
    async def main():
        timer_driver, _ = await make()
        complaints, fired = [], []
        asyncio.get_running_loop().set_exception_handler(lambda loop, about: complaints.append(about))
        timer_driver.wheel.add(10, lambda: 1 / 0)
        timer_driver.wheel.add(20, lambda: fired.append(20))
        timer_driver.arm(10)
        await asyncio.sleep(1)
        assert len(complaints) == 1
        assert fired == [20]

    run_virtually(main)


def test_stopped_driver_fires_no_timers():
    async def main():
        timer_driver, _ = await make()
        fired = []
        timer_driver.wheel.add(10, lambda: fired.append(10))
        timer_driver.arm(10)
        timer_driver.stop()
        timer_driver.stop()
        await asyncio.sleep(1)
        assert fired == []

    run_virtually(main)
