"""No file descriptors are left for a while: nothing fails for good, and all goes on once there are some."""

import errno
import os

import pytest

from odradek.model.errors import ErrorCode

PARTITIONS = 3
SMALL_SEGMENTS = {"segment.bytes": "200", "retention.bytes": "300", "file.delete.delay.ms": "1000"}


class Descriptors:
    """Lets nothing be opened while they are gone."""

    def __init__(self, files):
        self.are_gone = False
        for name in ("open", "read_whole", "sync_dir", "remove_tree", "list_names", "list_files"):
            setattr(files, name, self._guarded(getattr(files, name)))

    def _guarded(self, opening):
        def guarded(path, *args, **how):
            if self.are_gone:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
            return opening(path, *args, **how)

        return guarded


def test_a_topic_made_meanwhile_comes_online(play):
    async def scenario(town):
        descriptors = Descriptors(town.cluster.files)
        descriptors.are_gone = True
        await town.create("orders", PARTITIONS)
        await town.cluster.clock.sleep_ms(60_000)
        assert (await town.produce("orders", b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        descriptors.are_gone = False
        await town.cluster.clock.sleep_ms(10_000)
        for number in range(PARTITIONS):
            assert (await town.produce("orders", b"x", partition=number)).error_code == 0

    play(scenario)


def test_a_partition_that_is_told_to_lead_meanwhile_leads_later(play):
    async def scenario(town):
        descriptors = Descriptors(town.cluster.files)
        replicas = town.broker._replicas
        retry = replicas.retry_offline_partitions

        async def retry_then_run_out():
            placed = await retry()
            descriptors.are_gone = descriptors.are_gone or bool(placed)
            return placed

        replicas.retry_offline_partitions = retry_then_run_out
        descriptors.are_gone = True
        await town.create("orders", PARTITIONS)
        descriptors.are_gone = False
        await town.cluster.clock.sleep_ms(20_000)
        assert descriptors.are_gone
        replicas.retry_offline_partitions = retry
        descriptors.are_gone = False
        await town.cluster.clock.sleep_ms(20_000)
        for number in range(PARTITIONS):
            assert (await town.produce("orders", b"x", partition=number)).error_code == 0

    play(scenario)


@pytest.mark.parametrize(
    "settings", [{}, {"flush.messages": "1"}, {"flush.ms": "1000"}], ids=["rolls", "messages", "ms"]
)
def test_flushes_and_retention_do_not_take_the_directory_offline(play, settings):
    async def scenario(town):
        assert await town.create("orders", settings=SMALL_SEGMENTS | settings) == ErrorCode.NONE
        for _ in range(10):
            assert (await town.produce("orders", bytes(100))).error_code == 0
        descriptors = Descriptors(town.cluster.files)
        descriptors.are_gone = True
        await town.produce("orders", b"x")
        await town.cluster.clock.sleep_ms(600_000)
        descriptors.are_gone = False
        await town.cluster.clock.sleep_ms(10_000)
        assert town.broker.failures == []
        assert (await town.produce("orders", b"last")).error_code == 0
        start = (await town.fetch("orders")).log_start_offset
        assert (await town.values("orders", max(start, 0)))[-1] == b"last"

    play(scenario)
