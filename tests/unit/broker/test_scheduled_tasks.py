"""Work at intervals."""

import asyncio

from odradek.broker.scheduled_tasks import ScheduledTask, TaskScheduler
from odradek.model.errors import StorageError
from odradek.testing.clock import VirtualClock, run_virtually


def run_scenario(work, interval_ms=100, for_s=1.05):
    async def main():
        clock = VirtualClock(asyncio.get_running_loop())
        tasks = TaskScheduler(clock)
        tasks.start([ScheduledTask("test", interval_ms, lambda: work(clock))])
        await asyncio.sleep(for_s)
        await tasks.stop()
        await asyncio.sleep(10)

    run_virtually(main)


def test_task_runs_at_its_interval_until_stopped():
    at = []

    async def work(clock):
        at.append(clock.monotonic_ms())

    run_scenario(work)
    assert at == list(range(100, 1001, 100))


def test_failed_task_runs_again_at_the_next_interval():
    tries = []

    async def work(clock):
        tries.append(1)
        raise [StorageError("disk"), OSError(5, "io"), ZeroDivisionError()][len(tries) % 3]

    run_scenario(work)
    assert len(tries) == 10


def test_stop_cancels_a_running_task():
    ends = []

    async def work(clock):
        try:
            await clock.sleep_ms(3_600_000)
        finally:
            ends.append(clock.monotonic_ms())

    run_scenario(work)
    assert ends == [1050]


def test_repeated_task_failures_are_logged_a_bounded_number_of_times(caplog):
    async def main():
        clock = VirtualClock(asyncio.get_running_loop())
        tasks = TaskScheduler(clock)

        async def fail():
            raise OSError("no room")

        tasks.start([ScheduledTask("failing", 1_000, fail)])
        await clock.sleep_ms(50_500)
        assert (
            len([record for record in caplog.records if "scheduled_task_failed" in record.getMessage()]) == 5
        )
        await clock.sleep_ms(20_000)
        assert "suppressed=" in [record.getMessage() for record in caplog.records][5]
        await tasks.stop()

    run_virtually(main)
