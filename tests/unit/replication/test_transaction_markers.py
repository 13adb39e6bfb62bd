"""Transaction markers in a partition, and the last stable offset."""

import pytest

from odradek.log.log_config import LogConfig
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import ACKS_LEADER
from odradek.records.control_records import ControlRecordType, EndTransactionMarker
from odradek.replication.fetch_sessions.fetch_partition import FetchPartition

NOW_MS = 1_000_000
COMMIT, ABORT = (
    EndTransactionMarker(ControlRecordType.COMMIT, 0),
    EndTransactionMarker(ControlRecordType.ABORT, 0),
)


def read_committed(partition, offset=0, replica_id=-1):
    request = FetchPartition("orders", bytes(16), 0, offset, 0, 1 << 20)
    return partition.read(request, 1 << 20, True, 1, replica_id)


def append(partition, batch):
    return partition.append(batch, ACKS_LEADER, 11, NOW_MS)


def in_transaction(make_batch, sequence=0):
    return make_batch(
        b"x", producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True, timestamp=1
    )


def error_code(partition, marker=COMMIT):
    with pytest.raises(BrokerError) as raised:
        partition.append_end_marker(marker, 7, 0, NOW_MS)
    return raised.value.code


def test_marker_requires_leader_and_min_isr(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        fixture.config["orders"] = (LogConfig(), 2)
        partition = await fixture.make_leader_or_follower(leader_and_isr(isr=(1,), replicas=(1, 2, 3)))
        assert error_code(partition) == ErrorCode.NOT_ENOUGH_REPLICAS
        partition = await fixture.make_leader_or_follower(
            leader_and_isr(leader=2, isr=(1, 2), leader_epoch=1, partition_epoch=1)
        )
        assert error_code(partition) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert partition.log.log_end_offset == 0

    run_scenario(scenario)


@pytest.mark.parametrize("marker", [COMMIT, ABORT])
def test_last_stable_offset_advances_once_marker_is_committed(
    run_scenario, leader_and_isr, make_batch, marker
):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(isr=(1, 2)))
        append(partition, in_transaction(make_batch))
        fixture.fetch_as_follower(partition, 2, 1)
        partition.append_end_marker(marker, 7, 0, NOW_MS)
        before = read_committed(partition)
        assert (before.high_watermark, before.last_stable_offset, before.records_bytes) == (1, 0, 0)
        assert not partition.has_changed_since(before)
        fixture.fetch_as_follower(partition, 2, 2)
        assert partition.has_changed_since(before)
        after = read_committed(partition)
        assert (after.high_watermark, after.last_stable_offset) == (2, 2)
        assert after.records_bytes
        assert after.aborted == (None if marker is COMMIT else [(7, 0)])

    run_scenario(scenario)


def test_followers_read_everything_without_aborted_transactions(run_scenario, leader_and_isr, make_batch):
    async def scenario(fixture):
        partition = await fixture.make_leader_or_follower(leader_and_isr(isr=(1, 2)))
        append(partition, in_transaction(make_batch))
        partition.append_end_marker(ABORT, 7, 0, NOW_MS)
        fetched_by_follower = read_committed(partition, replica_id=2)
        assert fetched_by_follower.records_bytes == partition.log.size_bytes
        assert fetched_by_follower.aborted is None

    run_scenario(scenario)
