"""Work at intervals."""

import asyncio

from odradek.broker.scheduled_tasks import Chore, Chores
from odradek.model.errors import StorageError
from odradek.testing.clock import VirtualClock, run_virtually


def play(work, interval_ms=100, for_s=1.05):
    async def main():
        clock = VirtualClock(asyncio.get_running_loop())
        chores = Chores(clock)
        chores.start([Chore("test", interval_ms, lambda: work(clock))])
        await asyncio.sleep(for_s)
        await chores.stop()
        await asyncio.sleep(10)

    run_virtually(main)


def test_work_is_done_at_its_interval_until_the_stop():
    at = []

    async def work(clock):
        at.append(clock.monotonic_ms())

    play(work)
    assert at == list(range(100, 1001, 100))


def test_work_that_fails_is_tried_again_at_the_next_interval():
    tries = []

    async def work(clock):
        tries.append(1)
        raise [StorageError("disk"), OSError(5, "io"), ZeroDivisionError()][len(tries) % 3]

    play(work)
    assert len(tries) == 10


def test_work_under_way_is_cancelled_by_the_stop():
    ends = []

    async def work(clock):
        try:
            await clock.sleep_ms(3_600_000)
        finally:
            ends.append(clock.monotonic_ms())

    play(work)
    assert ends == [1050]


def test_a_chore_that_keeps_failing_leaves_a_few_lines(caplog):
    async def main():
        clock = VirtualClock(asyncio.get_running_loop())
        chores = Chores(clock)

        async def fail():
            raise OSError("no room")

        chores.start([Chore("failing", 1_000, fail)])
        await clock.sleep_ms(50_500)
        assert len([one for one in caplog.records if "scheduled_task_failed" in one.getMessage()]) == 5
        await clock.sleep_ms(20_000)
        assert "suppressed=" in [one.getMessage() for one in caplog.records][5]
        await chores.stop()

    run_virtually(main)
