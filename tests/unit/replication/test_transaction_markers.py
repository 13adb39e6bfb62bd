"""Ends of transactions in a partition: who may write them, and when readers of committed records go on."""

import pytest

from odradek.log.log_config import LogConfig
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import ACKS_LEADER
from odradek.records.control_records import ControlRecordType, EndTransactionMarker
from odradek.replication.fetch_session import FetchPartition

NOW_MS = 1_000_000
COMMIT, ABORT = (
    EndTransactionMarker(ControlRecordType.COMMIT, 0),
    EndTransactionMarker(ControlRecordType.ABORT, 0),
)


def read_committed(partition, offset=0, replica_id=-1):
    asked = FetchPartition("orders", bytes(16), 0, offset, 0, 1 << 20)
    return partition.read(asked, 1 << 20, True, 1, replica_id)


def append(partition, batch):
    return partition.append(batch, ACKS_LEADER, 11, NOW_MS)


def in_transaction(make_batch, sequence=0):
    return make_batch(
        b"x", producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True, timestamp=1
    )


def refusal(partition, marker=COMMIT):
    with pytest.raises(BrokerError) as refused:
        partition.append_end_marker(marker, 7, 0, NOW_MS)
    return refused.value.code


def test_only_a_leader_with_enough_in_sync_ends_a_transaction(play, told, make_batch):
    async def scenario(shed):
        shed.config["orders"] = (LogConfig(), 2)
        partition = await shed.become_leader_or_follower(told(isr=(1,), replicas=(1, 2, 3)))
        assert refusal(partition) == ErrorCode.NOT_ENOUGH_REPLICAS
        partition = await shed.become_leader_or_follower(
            told(leader=2, isr=(1, 2), leader_epoch=1, partition_epoch=1)
        )
        assert refusal(partition) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert partition.log.log_end_offset == 0

    play(scenario)


@pytest.mark.parametrize("marker", [COMMIT, ABORT])
def test_readers_go_on_once_the_marker_is_on_all_replicas_in_sync(play, told, make_batch, marker):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told(isr=(1, 2)))
        append(partition, in_transaction(make_batch))
        shed.follow(partition, 2, 1)
        partition.append_end_marker(marker, 7, 0, NOW_MS)
        waiting = read_committed(partition)
        assert (waiting.high_watermark, waiting.last_stable_offset, waiting.records_bytes) == (1, 0, 0)
        assert not partition.has_changed_since(waiting)
        shed.follow(partition, 2, 2)
        assert partition.has_changed_since(waiting)
        told_now = read_committed(partition)
        assert (told_now.high_watermark, told_now.last_stable_offset) == (2, 2)
        assert told_now.records_bytes
        assert told_now.aborted == (None if marker is COMMIT else [(7, 0)])

    play(scenario)


def test_replicas_are_given_all_and_told_of_no_aborts(play, told, make_batch):
    async def scenario(shed):
        partition = await shed.become_leader_or_follower(told(isr=(1, 2)))
        append(partition, in_transaction(make_batch))
        partition.append_end_marker(ABORT, 7, 0, NOW_MS)
        copied = read_committed(partition, replica_id=2)
        assert copied.records_bytes == partition.log.size_bytes
        assert copied.aborted is None

    play(scenario)
