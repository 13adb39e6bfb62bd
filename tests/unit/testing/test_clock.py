"""Virtual time and simulated processes."""

import asyncio
import time

import pytest

from odradek.testing.clock import WALL_START_MS, Deadlock, Process, VirtualClock, run_virtually


def test_virtual_day_takes_no_real_time():
    async def main():
        clock = VirtualClock(asyncio.get_running_loop())
        await clock.sleep_ms(86_400_000)
        return clock.monotonic_ms(), clock.wall_ms()

    began = time.monotonic()
    assert run_virtually(main) == (86_400_000, WALL_START_MS + 86_400_000)
    assert time.monotonic() - began < 5


def test_sleepers_wake_in_the_order_of_their_deadlines():
    async def main():
        woken = []

        async def sleep(ms):
            await asyncio.sleep(ms / 1000)
            woken.append(ms)

        await asyncio.gather(*(sleep(ms) for ms in (30, 10, 20, 10_000, 0)))
        return woken

    assert run_virtually(main) == [0, 10, 20, 30, 10_000]


def test_deadlock_is_reported():
    async def main():
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        run_virtually(main)


def test_threads_are_not_available():
    async def main():
        await asyncio.to_thread(time.time)

    with pytest.raises(RuntimeError, match="threads"):
        run_virtually(main)


def test_wall_clock_can_jump_but_monotonic_clock_cannot():
    async def main():
        clock = VirtualClock(asyncio.get_running_loop())
        clock.move_wall(-5000)
        return clock.wall_ms() - WALL_START_MS, clock.monotonic_ms()

    assert run_virtually(main) == (-5000, 0)


def test_killed_process_stops_and_others_continue():
    async def main():
        done = []

        async def tick(name):
            while True:
                await asyncio.sleep(1)
                done.append(name)

        async def start(name):
            loop = asyncio.get_running_loop()
            loop.call_later(2.5, done.append, f"{name} alarm")
            return loop.create_task(tick(name))

        first, other = Process("one"), Process("other")
        await first.run(start("one"))
        survivor = await other.run(start("other"))
        await asyncio.sleep(1.5)
        await first.kill()
        await asyncio.sleep(2)
        survivor.cancel()
        return done

    assert run_virtually(main) == ["one", "other", "other", "other alarm", "other"]


def test_tasks_started_by_a_process_belong_to_it():
    async def main():
        done = []

        async def child():
            await asyncio.sleep(10)
            done.append("child")

        async def parent():
            await asyncio.sleep(1)
            asyncio.get_running_loop().create_task(child())
            asyncio.get_running_loop().call_soon(
                lambda: asyncio.get_running_loop().call_later(5, done.append, "alarm")
            )
            await asyncio.sleep(100)

        process = Process("p")
        running = asyncio.ensure_future(process.run(parent()))
        await asyncio.sleep(2)
        await process.kill()
        await asyncio.sleep(100)
        return done, running.cancelled()

    assert run_virtually(main) == ([], True)


def test_paused_process_does_nothing_until_it_is_resumed():
    async def main():
        events = []
        process = Process("paused")

        async def tick():
            while True:
                await asyncio.sleep(0.01)
                events.append(asyncio.get_running_loop().time())

        task = asyncio.ensure_future(process.run(tick()))
        await asyncio.sleep(0.035)
        process.pause()
        await asyncio.sleep(1)
        count_while_paused = len(events)
        process.resume()
        await asyncio.sleep(0.005)
        count_after_resume = len(events)
        await process.kill()
        task.cancel()
        return count_while_paused, count_after_resume, events[-1]

    while_paused, after_resume, last = run_virtually(main)
    assert (while_paused, after_resume) == (3, 4)
    assert last >= 1.03, "the tick that was due during the pause runs after it"


def test_paused_process_can_be_killed():
    async def main():
        process, cleaned_up = Process("paused"), []

        async def wait():
            try:
                await asyncio.sleep(1)
            finally:
                cleaned_up.append(True)

        task = asyncio.ensure_future(process.run(wait()))
        await asyncio.sleep(0.1)
        process.pause()
        await asyncio.sleep(2)
        await process.kill()
        await asyncio.gather(task, return_exceptions=True)
        return cleaned_up, task.cancelled()

    assert run_virtually(main) == ([True], True)
