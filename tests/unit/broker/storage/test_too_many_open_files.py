"""EMFILE for a while: nothing fails permanently, and everything recovers."""

import errno
import os

import pytest

from odradek.model.errors import ErrorCode

PARTITIONS = 3
SMALL_SEGMENTS = {"segment.bytes": "200", "retention.bytes": "300", "file.delete.delay.ms": "1000"}


class Descriptors:
    """Fails every open with EMFILE while exhausted."""

    def __init__(self, files):
        self.are_gone = False
        for name in ("open", "read_whole", "sync_dir", "remove_tree", "list_names", "list_files"):
            setattr(files, name, self._guarded(getattr(files, name)))

    def _guarded(self, opening):
        def guarded(path, *args, **options):
            if self.are_gone:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
            return opening(path, *args, **options)

        return guarded


def test_topic_created_without_descriptors_comes_online_later(run_scenario):
    async def scenario(harness):
        descriptors = Descriptors(harness.cluster.files)
        descriptors.are_gone = True
        await harness.create("orders", PARTITIONS)
        await harness.cluster.clock.sleep_ms(60_000)
        assert (await harness.produce("orders", b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        descriptors.are_gone = False
        await harness.cluster.clock.sleep_ms(10_000)
        for number in range(PARTITIONS):
            assert (await harness.produce("orders", b"x", partition=number)).error_code == 0

    run_scenario(scenario)


@pytest.mark.sources
def test_partition_that_becomes_leader_without_descriptors_leads_later(run_scenario):
    async def scenario(harness):
        descriptors = Descriptors(harness.cluster.files)
        replicas = harness.broker._replica_manager
        retry = replicas.retry_offline_partitions

        async def retry_then_run_out():
            placed = await retry()
            descriptors.are_gone = descriptors.are_gone or bool(placed)
            return placed

        replicas.retry_offline_partitions = retry_then_run_out
        descriptors.are_gone = True
        await harness.create("orders", PARTITIONS)
        descriptors.are_gone = False
        await harness.cluster.clock.sleep_ms(20_000)
        assert descriptors.are_gone
        replicas.retry_offline_partitions = retry
        descriptors.are_gone = False
        await harness.cluster.clock.sleep_ms(20_000)
        for number in range(PARTITIONS):
            assert (await harness.produce("orders", b"x", partition=number)).error_code == 0

    run_scenario(scenario)


@pytest.mark.parametrize(
    "settings", [{}, {"flush.messages": "1"}, {"flush.ms": "1000"}], ids=["rolls", "messages", "ms"]
)
def test_emfile_in_flush_and_retention_keeps_the_log_dir_online(run_scenario, settings):
    async def scenario(harness):
        assert await harness.create("orders", settings=SMALL_SEGMENTS | settings) == ErrorCode.NONE
        for _ in range(10):
            assert (await harness.produce("orders", bytes(100))).error_code == 0
        descriptors = Descriptors(harness.cluster.files)
        descriptors.are_gone = True
        await harness.produce("orders", b"x")
        await harness.cluster.clock.sleep_ms(600_000)
        descriptors.are_gone = False
        await harness.cluster.clock.sleep_ms(10_000)
        assert harness.broker.failures == []
        assert (await harness.produce("orders", b"last")).error_code == 0
        start = (await harness.fetch("orders")).log_start_offset
        assert (await harness.values("orders", max(start, 0)))[-1] == b"last"

    run_scenario(scenario)
