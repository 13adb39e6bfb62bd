"""Workers of the log cleaner: backoff, concurrency, throttling."""

from collections.abc import Callable

import pytest

from odradek.log.cleaning.cleaner import STEPS
from odradek.log.log_config import CleanerConfig
from odradek.model.ids import TopicPartition

from .cleaner_harness import CleanerHarness

HOUR_MS = 3_600_000
A = b"a"


def test_workers_check_again_after_the_backoff_and_stop(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        harness.cleaner_config = CleanerConfig(backoff_ms=1000)
        harness.cleaner.start()
        await harness.clock.sleep_ms(1)
        await harness.write((A, b"1"), (A, b"2"))
        await harness.clock.sleep_ms(998)
        assert len(harness.values()) == 2
        await harness.clock.sleep_ms(2)
        assert len(harness.values()) == 1
        assert harness.steps == list(STEPS)
        harness.cleaner_config = CleanerConfig(backoff_ms=1000, threads=3)
        await harness.clock.sleep_ms(2000)
        assert len(harness.cleaner._workers._tasks) == 3
        harness.cleaner_config = CleanerConfig(backoff_ms=1000, threads=1)
        await harness.clock.sleep_ms(2000)
        assert [worker.done() for worker in harness.cleaner._workers._tasks].count(False) == 1
        await harness.cleaner.stop()
        await harness.write((A, b"3"))
        await harness.clock.sleep_ms(5000)
        assert len(harness.values()) == 2

    run(scenario)


def test_logs_are_cleaned_concurrently_by_one_worker_each(
    run: Callable[..., None], batch: Callable[..., bytearray]
) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        harness.cleaner_config = CleanerConfig(threads=3, bytes_per_second=5000)
        for number in range(6):
            log = await harness.directory.create(TopicPartition("many", number), harness.config, None)
            for _ in range(20):
                log.append_as_leader(batch(), 0, 0)
            log.roll(0)
            await log.flush()
            log.high_watermark = 20
        harness.cleaner.start()
        concurrent_max = 0
        for _ in range(100):
            await harness.clock.sleep_ms(20)
            concurrent_max = max(concurrent_max, len(harness.cleaner._in_progress))
        await harness.clock.sleep_ms(HOUR_MS)
        assert concurrent_max == 3
        assert harness.directory.cleaned_offsets == {
            TopicPartition("many", number): 20 for number in range(6)
        }
        assert harness.steps.count("checkpointed") == 6
        await harness.cleaner.stop()

    run(scenario)


@pytest.mark.parametrize("disabled", [CleanerConfig(is_enabled=False), CleanerConfig(threads=0)])
def test_cleaner_can_be_disabled(run: Callable[..., None], disabled: CleanerConfig) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        harness.cleaner_config = disabled
        harness.cleaner.start()
        await harness.write((A, b"1"), (A, b"2"))
        await harness.clock.sleep_ms(HOUR_MS)
        assert len(harness.values()) == 2
        harness.cleaner_config = CleanerConfig()
        await harness.clock.sleep_ms(disabled.backoff_ms)
        assert len(harness.values()) == 1
        await harness.cleaner.stop()

    run(scenario)


def test_cleaning_respects_io_max_bytes_per_second(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write(*((b"%d" % number, b"x" * 1000) for number in range(100)))
        size_bytes = harness.log.size_bytes
        harness.cleaner_config = CleanerConfig(bytes_per_second=10_000)
        start_ms = harness.clock.monotonic_ms()
        assert await harness.clean()
        took_ms = harness.clock.monotonic_ms() - start_ms
        # Read twice and written once.
        assert 3 * size_bytes / 10 * 0.9 <= took_ms <= 3 * size_bytes / 10 * 1.1

    run(scenario)
