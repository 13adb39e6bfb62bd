"""Moves of a log to another directory: a copy that has left its source is cut, or begun anew."""

from types import SimpleNamespace

import pytest

from odradek.log.log_directory import LogDirectory
from odradek.log.log_manager import LogManager
from odradek.log.segments.segment_format import DirectoryKind
from odradek.model.errors import BrokerError, ErrorCode
from odradek.replication.alter_log_dirs import AlterLogDirs, AlterLogDirsLimits, NoCleaning
from odradek.testing.entropy import SeededEntropy


def moves_on(directories, shed, partition=None):
    return AlterLogDirs(
        directories, lambda *_: partition, lambda *_: None, shed.clock, AlterLogDirsLimits, NoCleaning()
    )


async def parted(shed, told, make_batch, rolled_at):
    """A log of epochs 0 and 3, and a copy of it that went on in epoch 1 from offset 2."""
    partition = await shed.become_leader_or_follower(told(leader_epoch=0))
    target = LogDirectory.open(shed.files, "/other", SeededEntropy())
    await target.load(lambda topic: partition.log.config, 0)
    future = await target.create(
        partition.topic_partition, partition.log.config, partition.topic_id, DirectoryKind.FUTURE
    )
    for offset, (here, there) in enumerate([(0, 0), (0, 0), (3, 1), (3, 1)]):
        if offset == rolled_at:
            future.roll(0)
        partition.log.append_as_leader(make_batch(b"here"), here, 0)
        future.append_as_leader(make_batch(b"there"), there, 0)
    return partition.log, future


def test_a_copy_that_parts_from_its_source_in_the_last_segment_is_cut_there(play, told, make_batch):
    async def scenario(shed):
        current, future = await parted(shed, told, make_batch, rolled_at=2)
        assert moves_on(LogManager([shed.directory]), shed)._align(current, future)
        assert (future.log_end_offset, future.epochs.entries) == (2, ((0, 0),))

    play(scenario)


def test_a_copy_that_parts_from_its_source_before_the_last_segment_begins_anew(play, told, make_batch):
    async def scenario(shed):
        current, future = await parted(shed, told, make_batch, rolled_at=3)
        assert not moves_on(LogManager([shed.directory]), shed)._align(current, future)
        assert future.log_end_offset == 4, "it is dropped as a whole"

    play(scenario)


def test_a_move_of_a_log_whose_directory_has_just_failed_is_refused(play, told):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told())
        directories = SimpleNamespace(
            paths=["/data", "/other"],
            failed={},
            find=lambda _: None,
            find_directory=lambda _: {"log": "elsewhere"},
        )
        with pytest.raises(BrokerError) as refused:
            await moves_on(directories, shed, partition).request(partition.topic_partition, "/other")
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR

    play(scenario)
