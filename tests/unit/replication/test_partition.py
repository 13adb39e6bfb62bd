"""One partition: roles, fences, appends, reads, offsets."""

import errno

import pytest

from odradek.log.log_config import LogConfig
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import ACKS_ALL, ACKS_LEADER
from odradek.ports.files import FileSlice
from odradek.records import codec
from odradek.replication.fetch_session import FetchPartition
from odradek.replication.partition import (
    CONSUMER_REPLICA_ID,
    DEBUGGING_CONSUMER_ID,
    NOT_FOUND,
    TimestampAndOffset,
)

NOW_MS = 1_000_000


def asked(offset=0, *, epoch=-1, last_epoch=-1):
    return FetchPartition("orders", bytes(16), 0, offset, 0, 1 << 20, epoch, last_epoch)


def read(partition, offset=0, *, bytes_max=1 << 20, at_least_one=True, isolation=0, replica_id=-1, **how):
    return partition.read(asked(offset, **how), bytes_max, at_least_one, isolation, replica_id)


def values(result):
    data = result.records
    data = data.read() if isinstance(data, FileSlice) else bytes(data or b"")
    return [record.value for record in codec.decode(data)]


def refusal(call, *args, **how):
    with pytest.raises(BrokerError) as refused:
        call(*args, **how)
    return refused.value.code


def append(partition, *batches, acks=ACKS_LEADER):
    for one in batches:
        appended = partition.append(one, acks, 11, NOW_MS)
    return appended


def test_a_lone_leader_commits_what_it_appends(play, told, make_batch):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told())
        appended = append(partition, make_batch(b"a", b"b"), acks=ACKS_ALL)
        assert (appended.first_offset, appended.last_offset) == (0, 1)
        assert partition.log.high_watermark == 2
        assert partition.check_enough_replicas_reach_offset(2, 0) == ErrorCode.NONE

    play(scenario)


def test_a_follower_neither_appends_nor_answers(play, told, make_batch):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told(leader=2, isr=(1, 2)))
        expected = ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert refusal(append, partition, make_batch(b"x")) == expected
        assert refusal(read, partition) == expected
        assert refusal(partition.find_special_offset, -1, 0, -1, CONSUMER_REPLICA_ID) == expected
        assert refusal(partition.legacy_offsets_for_timestamp, -1, 1, CONSUMER_REPLICA_ID, NOW_MS) == expected
        assert refusal(partition.last_offset_for_leader_epoch, 0, -1) == expected
        assert refusal(partition.delete_records_on_leader, 0) == expected
        assert partition.find_special_offset(-1, 0, -1, DEBUGGING_CONSUMER_ID).offset == 0, (
            "a debugger may ask any replica"
        )

    play(scenario)


def test_readers_are_fenced_by_the_leader_epoch(play, told):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told(leader_epoch=5))
        assert refusal(read, partition, epoch=4) == ErrorCode.FENCED_LEADER_EPOCH
        assert refusal(read, partition, epoch=6) == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert read(partition, epoch=5).error == ErrorCode.NONE
        assert read(partition, epoch=-1).error == ErrorCode.NONE
        for replica_id in (CONSUMER_REPLICA_ID, DEBUGGING_CONSUMER_ID):
            find = partition.find_special_offset
            assert refusal(find, -1, 0, 4, replica_id) == ErrorCode.FENCED_LEADER_EPOCH
            assert refusal(find, -1, 0, 6, replica_id) == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert refusal(partition.last_offset_for_leader_epoch, 0, 4) == ErrorCode.FENCED_LEADER_EPOCH

    play(scenario)


def test_stale_orders_are_passed_over(play, told, make_batch):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told(leader_epoch=5, partition_epoch=9))
        await shed.become_leader_or_follower(told(leader_epoch=4, isr=(1, 2), partition_epoch=10))
        await shed.become_leader_or_follower(told(leader_epoch=5, isr=(1, 2), partition_epoch=8))
        await shed.become_leader_or_follower(told(leader=2, leader_epoch=4, isr=(1, 2), partition_epoch=10))
        assert partition.is_leader
        assert (partition.leader_epoch, partition.partition_epoch) == (5, 9)
        append(partition, make_batch(b"x"))
        assert partition.log.high_watermark == 1, "it still has one replica"

    play(scenario)


def test_with_followers_the_high_watermark_waits_for_the_slowest_in_sync(play, told, make_batch):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told(isr=(1, 2, 3)))
        append(partition, make_batch(b"a"), make_batch(b"b"))
        assert partition.log.high_watermark == 0
        shed.follow(partition, 2, 2)
        assert partition.log.high_watermark == 0
        shed.follow(partition, 3, 1)
        assert partition.log.high_watermark == 1
        shed.follow(partition, 3, 2)
        assert partition.log.high_watermark == 2

    play(scenario)


def test_consumers_see_what_is_committed_and_replicas_all(play, told, make_batch):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told(isr=(1, 2)))
        append(partition, make_batch(b"a"), make_batch(b"b"), make_batch(b"c"))
        shed.follow(partition, 2, 1)
        assert values(read(partition)) == [b"a"]
        assert values(read(partition, isolation=1)) == [b"a"]
        assert values(read(partition, replica_id=2)) == [b"a", b"b", b"c"]
        assert values(read(partition, 1)) == []
        assert partition.find_special_offset(-1, 0, -1, CONSUMER_REPLICA_ID).offset == 1
        assert partition.find_special_offset(-1, 0, -1, DEBUGGING_CONSUMER_ID).offset == 3
        assert partition.find_special_offset(-1, 0, -1, 2).offset == 3

    play(scenario)


def test_a_consumer_may_stand_between_the_high_watermark_and_the_end(play, told, make_batch):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told(isr=(1, 2)))
        append(partition, make_batch(b"a"), make_batch(b"b"))
        assert values(read(partition, 2)) == []
        assert refusal(read, partition, 3) == ErrorCode.OFFSET_OUT_OF_RANGE
        assert refusal(read, partition, -1) == ErrorCode.OFFSET_OUT_OF_RANGE

    play(scenario)


def test_reads_keep_to_their_limit_but_for_the_first_batch(play, told, make_batch):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told())
        one = make_batch(b"x" * 100)
        size = len(one)
        append(partition, one, make_batch(b"y" * 100), make_batch(b"z" * 100))
        assert len(values(read(partition, bytes_max=3 * size))) == 3
        assert len(values(read(partition, bytes_max=2 * size))) == 2
        assert len(values(read(partition, bytes_max=1))) == 1
        assert read(partition, bytes_max=1, at_least_one=False).records_bytes == 0

    play(scenario)


def test_acks_all_needs_enough_in_sync(play, told, make_batch):
    async def scenario(shed):
        shed.config["orders"] = (LogConfig(), 2)
        partition = await shed.become_leader_or_follower(told(isr=(1,), replicas=(1, 2, 3)))
        code = refusal(append, partition, make_batch(b"x"), acks=ACKS_ALL)
        assert code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert partition.log.log_end_offset == 0
        append(partition, make_batch(b"x"), acks=ACKS_LEADER)
        assert partition.log.high_watermark == 0, "under the minimum nothing is committed"

    play(scenario)


def test_an_in_sync_set_that_shrank_after_the_append_is_told(play, told, make_batch):
    async def scenario(shed):
        shed.config["orders"] = (LogConfig(), 2)
        partition = await shed.become_leader_or_follower(told(isr=(1, 2)))
        append(partition, make_batch(b"x"), acks=ACKS_ALL)
        assert partition.check_enough_replicas_reach_offset(1, 0) is None
        shed.follow(partition, 2, 1)
        assert partition.check_enough_replicas_reach_offset(1, 0) == ErrorCode.NONE
        await shed.become_leader_or_follower(told(isr=(1,), replicas=(1, 2), partition_epoch=1))
        assert (
            partition.check_enough_replicas_reach_offset(1, 0) == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        )

    play(scenario)


def test_an_append_of_another_epoch_is_not_vouched_for(play, told, make_batch):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told(isr=(1, 2)))
        append(partition, make_batch(b"x"), acks=ACKS_ALL)
        await shed.become_leader_or_follower(told(leader_epoch=1, isr=(1, 2), partition_epoch=1))
        assert partition.check_enough_replicas_reach_offset(1, 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert partition.check_enough_replicas_reach_offset(1, 1) is None
        await shed.become_leader_or_follower(told(leader=2, leader_epoch=2, isr=(1, 2), partition_epoch=2))
        assert partition.check_enough_replicas_reach_offset(1, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER

    play(scenario)


def test_an_append_that_the_disk_refuses_is_a_storage_error(play, told, make_batch):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told())
        append(partition, make_batch(b"x"))
        shed.files.fail_next_write(errno.EIO, name_end=".log")
        assert refusal(append, partition, make_batch(b"y")) == ErrorCode.KAFKA_STORAGE_ERROR

    play(scenario)


def test_no_records_at_all_are_refused(play, told):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told())
        assert refusal(append, partition, None) in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)

    play(scenario)


def test_offsets_are_found_by_place(play, told, make_batch):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told(leader_epoch=3))
        append(partition, make_batch(b"a", timestamp=5000), make_batch(b"b", b"c", timestamp=2000))
        find = partition.find_special_offset
        assert find(-1, 0, -1, CONSUMER_REPLICA_ID) == TimestampAndOffset(-1, 3, 3), "latest"
        assert find(-2, 0, -1, CONSUMER_REPLICA_ID) == TimestampAndOffset(-1, 0, 3), "earliest"
        assert await partition.find_time(-3, 0, -1, CONSUMER_REPLICA_ID) == TimestampAndOffset(5000, 0, 3), (
            "largest timestamp"
        )
        assert find(-4, 0, -1, CONSUMER_REPLICA_ID) == TimestampAndOffset(-1, 0, 3), "earliest local"
        assert find(-5, 0, -1, CONSUMER_REPLICA_ID) == NOT_FOUND, "latest tiered"
        assert refusal(find, -6, 0, -1, CONSUMER_REPLICA_ID) == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
        partition.delete_records_on_leader(2)
        assert find(-2, 0, -1, CONSUMER_REPLICA_ID) == TimestampAndOffset(-1, 2, 3)

    play(scenario)


def test_offsets_are_found_by_time(play, told, make_batch):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told())
        append(partition, make_batch(b"a", b"b", timestamp=1000), make_batch(b"c", timestamp=3000))
        find = partition.find_time
        assert await find(0, 0, -1, CONSUMER_REPLICA_ID) == TimestampAndOffset(1000, 0, 0)
        assert await find(1001, 0, -1, CONSUMER_REPLICA_ID) == TimestampAndOffset(1001, 1, 0)
        assert await find(1002, 0, -1, CONSUMER_REPLICA_ID) == TimestampAndOffset(3000, 2, 0)
        assert await find(3001, 0, -1, CONSUMER_REPLICA_ID) == NOT_FOUND

    play(scenario)


def test_offsets_of_an_empty_log(play, told):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told())
        assert await partition.find_time(-3, 0, -1, CONSUMER_REPLICA_ID) == NOT_FOUND
        assert await partition.find_time(500, 0, -1, CONSUMER_REPLICA_ID) == NOT_FOUND
        assert partition.find_special_offset(-1, 0, -1, CONSUMER_REPLICA_ID).offset == 0
        assert partition.find_special_offset(-2, 0, -1, CONSUMER_REPLICA_ID).offset == 0

    play(scenario)


def test_times_beyond_what_a_consumer_may_see_are_not_found(play, told, make_batch):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told(isr=(1, 2)))
        append(partition, make_batch(b"a", timestamp=1000), make_batch(b"b", timestamp=2000))
        shed.follow(partition, 2, 1)
        assert await partition.find_time(2000, 0, -1, CONSUMER_REPLICA_ID) == NOT_FOUND
        assert (await partition.find_time(2000, 0, -1, DEBUGGING_CONSUMER_ID)).offset == 1

    play(scenario)


def test_old_style_offsets_are_capped_at_the_high_watermark(play, told, make_batch):
    async def scenario(shed):
        shed.config["orders"] = (LogConfig(segment_bytes=160), 1)
        partition = await shed.become_leader_or_follower(told(isr=(1, 2)))
        for _ in range(4):
            append(partition, make_batch(b"x" * 80))
        assert partition.legacy_offsets_for_timestamp(-1, 10, DEBUGGING_CONSUMER_ID, NOW_MS) == [
            4,
            3,
            2,
            1,
            0,
        ]
        shed.follow(partition, 2, 2)
        assert partition.legacy_offsets_for_timestamp(-1, 10, CONSUMER_REPLICA_ID, NOW_MS) == [2, 1, 0]
        assert partition.legacy_offsets_for_timestamp(-1, 1, CONSUMER_REPLICA_ID, NOW_MS) == [2]
        assert partition.legacy_offsets_for_timestamp(-2, 10, CONSUMER_REPLICA_ID, NOW_MS) == [0]

    play(scenario)


def test_a_reader_whose_last_epoch_diverged_is_told_where(play, told, make_batch):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told(leader_epoch=0))
        append(partition, make_batch(b"a"), make_batch(b"b"))
        await shed.become_leader_or_follower(told(leader_epoch=3, partition_epoch=1))
        append(partition, make_batch(b"c"))
        same = read(partition, 2, last_epoch=0)
        assert same.diverging_epoch == -1
        assert values(same) == [b"c"]
        ahead = read(partition, 3, last_epoch=0)
        assert (ahead.diverging_epoch, ahead.diverging_end_offset) == (0, 2)
        assert ahead.records_bytes == 0
        between = read(partition, 2, last_epoch=2)
        assert (between.diverging_epoch, between.diverging_end_offset) == (0, 2)
        assert values(read(partition, 2, last_epoch=3)) == [b"c"]
        assert refusal(read, partition, 2, last_epoch=4) == ErrorCode.OFFSET_OUT_OF_RANGE

    play(scenario)


def test_epochs_end_where_the_next_begins(play, told, make_batch):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told(leader_epoch=0))
        append(partition, make_batch(b"a"), make_batch(b"b"))
        await shed.become_leader_or_follower(told(leader_epoch=3, partition_epoch=1))
        append(partition, make_batch(b"c"))
        assert tuple(partition.last_offset_for_leader_epoch(0, -1)) == (0, 2)
        assert tuple(partition.last_offset_for_leader_epoch(2, -1)) == (0, 2)
        assert tuple(partition.last_offset_for_leader_epoch(3, -1)) == (3, 3)
        assert tuple(partition.last_offset_for_leader_epoch(4, -1)) == (-1, -1)

    play(scenario)


def test_records_are_deleted_up_to_the_high_watermark(play, told, make_batch):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told(isr=(1, 2)))
        append(partition, make_batch(b"a"), make_batch(b"b"), make_batch(b"c"))
        shed.follow(partition, 2, 2)
        assert partition.delete_records_on_leader(1) == 1
        assert partition.delete_records_on_leader(0) == 1, "it does not go back"
        assert refusal(partition.delete_records_on_leader, 3) == ErrorCode.OFFSET_OUT_OF_RANGE
        assert refusal(partition.delete_records_on_leader, -2) == ErrorCode.OFFSET_OUT_OF_RANGE
        assert partition.delete_records_on_leader(-1) == 2
        assert refusal(read, partition, 1) == ErrorCode.OFFSET_OUT_OF_RANGE

    play(scenario)


def test_records_of_a_compacted_topic_are_not_deleted(play, told, make_batch):
    async def scenario(shed):
        shed.config["orders"] = (LogConfig(cleanup_policy=("compact",)), 1)
        partition = await shed.become_leader_or_follower(told())
        assert refusal(partition.delete_records_on_leader, 0) == ErrorCode.POLICY_VIOLATION
        shed.config["orders"] = (LogConfig(cleanup_policy=("compact", "delete")), 1)
        shed.replicas.reconfigure(["orders"])
        assert partition.delete_records_on_leader(0) == 0

    play(scenario)


def test_what_may_have_changed_for_a_reader(play, told, make_batch):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told())
        before = read(partition)
        assert not partition.has_changed_since(before)
        append(partition, make_batch(b"a"))
        assert partition.has_changed_since(before)
        now = read(partition)
        assert not partition.has_changed_since(now)
        partition.delete_records_on_leader(1)
        assert partition.has_changed_since(now)
        now = read(partition, 1)
        partition.retire()
        assert partition.has_changed_since(now)

    play(scenario)
