"""Moves of a log to another directory."""

from types import SimpleNamespace

import pytest

from odradek.log.directory.log_directory import LogDirectory
from odradek.log.log_manager import LogManager
from odradek.log.segments.segment_format import DirectoryKind
from odradek.model.errors import BrokerError, ErrorCode
from odradek.replication.log_dirs.alter_log_dirs import AlterLogDirs, NoCleaning
from odradek.replication.log_dirs.alter_log_dirs_throttle import AlterLogDirsLimits
from odradek.testing.entropy import SeededEntropy


def alter_log_dirs(log_manager, fixture, partition=None):
    missing = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return AlterLogDirs(
        log_manager, lambda *_: partition, lambda *_: missing, fixture.clock, AlterLogDirsLimits, NoCleaning()
    )


async def diverged_logs(fixture, leader_and_isr, make_batch, rolled_at):
    """Return a log with epochs 0 and 3, and a future log that continued with epoch 1 at offset 2."""
    partition = await fixture.make_leader_or_follower(leader_and_isr(leader_epoch=0))
    target = LogDirectory.open(fixture.files, "/other", SeededEntropy())
    await target.load(lambda topic: partition.log.config, 0)
    future = await target.create(
        partition.topic_partition, partition.log.config, partition.topic_id, DirectoryKind.FUTURE
    )
    for offset, (current_epoch, future_epoch) in enumerate([(0, 0), (0, 0), (3, 1), (3, 1)]):
        if offset == rolled_at:
            future.roll(0)
        partition.log.append_as_leader(make_batch(b"here"), current_epoch, 0)
        future.append_as_leader(make_batch(b"there"), future_epoch, 0)
    return partition.log, future


def test_future_log_diverging_in_last_segment_is_truncated(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        current, future = await diverged_logs(fixture, leader_and_isr, make_batch, rolled_at=2)
        assert alter_log_dirs(LogManager([fixture.directory]), fixture)._truncate_future(current, future)
        assert (future.log_end_offset, future.epochs.entries) == (2, ((0, 0),))

    run_scenario(scenario)


def test_future_log_diverging_before_last_segment_is_recreated(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        current, future = await diverged_logs(fixture, leader_and_isr, make_batch, rolled_at=3)
        assert not alter_log_dirs(LogManager([fixture.directory]), fixture)._truncate_future(current, future)
        assert future.log_end_offset == 4, "it is deleted as a whole"

    run_scenario(scenario)


def test_move_fails_if_current_directory_has_just_failed(run_scenario, leader_and_isr):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr())
        log_manager = SimpleNamespace(
            paths=["/data", "/other"],
            failed={},
            find=lambda _: None,
            find_directory=lambda _: {"log": "elsewhere"},
        )
        with pytest.raises(BrokerError) as raised:
            await alter_log_dirs(log_manager, fixture, partition).request(partition.topic_partition, "/other")
        assert raised.value.code == ErrorCode.KAFKA_STORAGE_ERROR

    run_scenario(scenario)
