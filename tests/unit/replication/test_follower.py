"""The local replica while another broker leads."""

from __future__ import annotations

import pytest
from tests.unit.replication.fetchers.scripted_leader import ORDERS, append, new_log, stored_bytes

from odradek.log.log import Log
from odradek.model.errors import BrokerError, ErrorCode
from odradek.replication.follower import Follower


def read_all(log: Log, offset: int = 0) -> bytes:
    data = log.read(offset, 1 << 20).data
    return data if isinstance(data, bytes) else data.read()


def follower_of(log: Log, leader_epoch: int = 3) -> Follower:
    return Follower(ORDERS, log, 1, leader_epoch)


def leader_log(batches: int = 3, leader_epoch: int = 3) -> Log:
    log = new_log()
    for _ in range(batches):
        append(log, leader_epoch, 2)
    return log


def test_batches_of_the_leader_are_appended_unchanged() -> None:
    leader, log = leader_log(), new_log()
    follower = follower_of(log)
    assert follower.append(read_all(leader), 4, 0, 0) == 6
    assert stored_bytes(log) == stored_bytes(leader)
    assert (follower.log_end_offset, follower.high_watermark, follower.latest_epoch) == (6, 4, 3)
    assert follower.end_offset_for_epoch(3) == (3, 6)


def test_high_watermark_is_at_most_the_own_log_end_offset() -> None:
    follower = follower_of(new_log())
    follower.append(read_all(leader_log(1)), 6, 0, 0)
    assert follower.high_watermark == 2


def test_high_watermark_does_not_go_back() -> None:
    follower = follower_of(new_log())
    follower.append(read_all(leader_log()), 6, 0, 0)
    follower.append(b"", 2, 0, 0)
    assert follower.high_watermark == 6


def test_response_without_records_advances_the_high_watermark() -> None:
    follower = follower_of(new_log())
    follower.append(read_all(leader_log()), 2, 0, 0)
    follower.append(b"", 6, 0, 0)
    assert follower.high_watermark == 6


def test_log_start_offset_follows_the_leaders() -> None:
    follower = follower_of(new_log())
    follower.append(read_all(leader_log()), 6, 3, 0)
    assert follower.log_start_offset == 3
    follower.append(b"", 6, 1, 0)
    assert follower.log_start_offset == 3


def test_log_start_offset_is_at_most_the_high_watermark() -> None:
    follower = follower_of(new_log())
    follower.append(read_all(leader_log()), 2, 5, 0)
    assert (follower.high_watermark, follower.log_start_offset) == (2, 2)


def test_batches_of_a_later_epoch_are_not_appended() -> None:
    follower = follower_of(new_log(), leader_epoch=2)
    assert follower.append(read_all(leader_log()), 6, 0, 0) == 0
    assert follower.high_watermark == 0


def test_replaced_follower_changes_nothing() -> None:
    log = new_log()
    follower = follower_of(log)
    follower.append(read_all(leader_log(1)), 2, 0, 0)
    follower.is_active = False
    for change in (
        lambda: follower.append(b"", 2, 1, 0),
        lambda: follower.truncate_to(0, 0),
        lambda: follower.truncate_fully_and_start_at(9, 0),
    ):
        with pytest.raises(BrokerError) as error:
            change()
        assert error.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, 2, 2)


def test_truncation_lowers_the_high_watermark() -> None:
    follower = follower_of(new_log())
    follower.append(read_all(leader_log()), 6, 0, 0)
    follower.truncate_to(4, 0)
    assert (follower.log_end_offset, follower.high_watermark) == (4, 4)
    follower.truncate_fully_and_start_at(50, 0)
    assert (follower.log_start_offset, follower.log_end_offset, follower.high_watermark) == (50, 50, 50)
