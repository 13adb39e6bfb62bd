"""Log: append of fetched batches, byte for byte, where the leader's log has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.model.errors import BrokerError, ErrorCode
from odradek.records.codec import read_headers

Batch = Callable[..., bytearray]


def stored_bytes(log: Any) -> bytes:
    """Return the contents of all log files, in order."""
    files = log.segments[0].context.files
    return b"".join(files.read_whole(segment.path(".log"))[: segment.size] for segment in log.segments)


def epochs_match_batches(log: Any) -> bool:
    headers = [header for segment in log.segments for header in segment.headers()]
    return all(
        log.epochs.epoch_of(header.base_offset) == header.leader_epoch
        for header in headers
        if header.base_offset >= log.log_start_offset
    )


def test_batches_are_stored_byte_for_byte(harness: Any, batch: Batch) -> None:
    log = harness.create()
    data = bytes(batch(3, leader_epoch=2) + batch(2, base_offset=3, leader_epoch=4))
    appended = log.append_as_follower(data, 4, 0)
    assert (appended.first_offset, appended.last_offset, log.log_end_offset) == (0, 4, 5)
    assert stored_bytes(log) == data
    assert log.epochs.entries == ((2, 0), (4, 3))


def test_last_offset_delta_must_not_be_negative(harness: Any, batch: Batch) -> None:
    data = batch(1, base_offset=5)
    header = read_headers(data)[0]
    data[23:27] = (-2).to_bytes(4, "big", signed=True)
    with pytest.raises(BrokerError) as error:
        harness.create().append_as_follower(bytes(data), 0, 0)
    assert error.value.code is ErrorCode.CORRUPT_MESSAGE
    assert header.last_offset_delta == 0


# A first batch below the log end offset.


def test_empty_log_starts_with_the_batch_that_contains_the_leaders_log_start_offset(
    harness: Any, batch: Batch
) -> None:
    log = harness.create()
    log.truncate_fully_and_start_at(5, 0)
    log.append_as_follower(bytes(batch(6, base_offset=3, leader_epoch=1)), 1, 0)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (3, 9, 3)
    assert [segment.base_offset for segment in log.segments] == [3]
    harness.run(log.close())
    again = harness.open(had_clean_shutdown=False)
    assert (again.log_start_offset, again.log_end_offset) == (3, 9)
    assert again.epochs.entries == ((1, 3),)


@pytest.mark.parametrize(("base_offset", "count"), [(0, 5), (3, 2)])
def test_batch_that_ends_before_the_log_end_offset_is_refused(
    harness: Any, batch: Batch, base_offset: int, count: int
) -> None:
    log = harness.create()
    log.truncate_fully_and_start_at(5, 0)
    with pytest.raises(BrokerError) as error:
        log.append_as_follower(bytes(batch(count, base_offset=base_offset)), 0, 0)
    assert error.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)


def test_batch_that_overlaps_another_is_refused(harness: Any, batch: Batch) -> None:
    log = harness.create()
    harness.append(log, 5)
    before = stored_bytes(log)
    with pytest.raises(BrokerError):
        log.append_as_follower(bytes(batch(6, base_offset=3)), 0, 0)
    assert stored_bytes(log) == before
    assert log.log_end_offset == 5


# Truncation inside a batch.


@given(
    counts=st.lists(st.integers(1, 5), min_size=1, max_size=8),
    offset=st.integers(0, 40),
    segment_bytes=st.sampled_from([200, 1 << 20]),
    killed=st.booleans(),
)
def test_log_is_equal_to_the_leaders_after_a_truncation_inside_a_batch(
    new_harness: Callable[[], Any],
    batch: Batch,
    counts: list[int],
    offset: int,
    segment_bytes: int,
    killed: bool,
) -> None:
    leader, follower = new_harness(), new_harness()
    source, log = leader.create(), follower.create(segment_bytes=segment_bytes)
    for count in counts:
        leader.append(source, count)
    log.append_as_follower(source.read(0, 1 << 20).data.read(), 0, 0)
    offset %= source.log_end_offset
    log.truncate_to(offset, 0)
    assert log.log_end_offset == offset
    if killed:
        log = follower.open({"segment_bytes": segment_bytes}, had_clean_shutdown=False)
        assert follower.recovered.problem is None
    log.append_as_follower(source.read(log.log_end_offset, 1 << 20).data.read(), 0, 0)
    assert stored_bytes(log) == stored_bytes(source)
    for position in range(source.log_end_offset):
        assert log.read(position, 1).data.read() == source.read(position, 1).data.read()


@pytest.mark.parametrize("was_flushed", [False, True])
def test_hole_of_a_truncation_is_not_taken_for_a_loss(harness: Any, batch: Batch, was_flushed: bool) -> None:
    """As leader, this replica appends at its log end offset: the hole is never filled."""
    log = harness.create(segment_bytes=300)
    harness.append(log, 3)
    harness.append(log, 6)
    log.truncate_to(5, 0)
    log.roll(harness.now_ms)
    if was_flushed:
        harness.run(log.flush())
    for _ in range(4):
        harness.append(log, 1, leader_epoch=1)
    expected = harness.records(log)
    assert [offset for offset, _, _ in expected] == [0, 1, 2, 5, 6, 7, 8]
    again = harness.open({"segment_bytes": 300}, had_clean_shutdown=False, recovery_point=log.recovery_point)
    assert harness.recovered.problem is None
    assert harness.records(again) == expected
    assert epochs_match_batches(again)


def test_epoch_that_starts_in_a_hole_is_replaced_with_the_batch(harness: Any, batch: Batch) -> None:
    log = harness.create()
    harness.append(log, 3)
    harness.append(log, 4)
    log.truncate_to(5, 0)
    log.assign_leader_epoch(1)
    log.append_as_follower(bytes(batch(4, base_offset=3, leader_epoch=1)), 1, 0)
    assert log.epochs.entries == ((0, 0), (1, 3))


def test_log_that_ends_in_a_hole_ends_at_its_last_batch_after_a_restart(harness: Any) -> None:
    log = harness.create()
    harness.append(log, 3)
    harness.append(log, 6)
    log.truncate_to(5, 0)
    harness.run(log.close())
    again = harness.open(recovery_point=log.recovery_point)
    assert again.log_end_offset == 3
    assert harness.recovered.problem is None


# Gaps in the leader's log.


def test_gap_between_batches_of_the_leader_is_not_taken_for_a_loss(harness: Any, batch: Batch) -> None:
    log = harness.create(segment_bytes=150)
    for number in range(6):
        log.append_as_follower(bytes(batch(1, base_offset=100 * number)), 0, 0)
    assert len(log.segments) > 2
    again = harness.open({"segment_bytes": 150}, had_clean_shutdown=False)
    assert harness.recovered.problem is None
    assert [offset for offset, _, _ in harness.records(again)] == [0, 100, 200, 300, 400, 500]


def test_first_batch_may_be_far_beyond_the_start_of_a_compacted_log(harness: Any, batch: Batch) -> None:
    log = harness.create(cleanup_policy=("compact",))
    far = 3 << 31
    log.append_as_follower(bytes(batch(2, base_offset=far)), 0, 0)
    assert log.log_end_offset == far + 2
    assert log.log_start_offset == 0
    assert [offset for offset, _, _ in harness.records(log)] == [far, far + 1]
    harness.run(log.close())
    again = harness.open({"cleanup_policy": ("compact",)}, had_clean_shutdown=False)
    assert [offset for offset, _, _ in harness.records(again)] == [far, far + 1]


def test_fetched_batches_may_be_further_apart_than_a_segment_reaches(harness: Any, batch: Batch) -> None:
    log = harness.create(cleanup_policy=("compact",), index_interval_bytes=0)
    offsets = [0, 5, 3 << 31, (3 << 31) + 1]
    log.append_as_follower(b"".join(bytes(batch(1, base_offset=offset)) for offset in offsets), 0, 0)
    assert [offset for offset, _, _ in harness.records(log)] == offsets
    harness.run(log.close())
    again = harness.open({"cleanup_policy": ("compact",)}, had_clean_shutdown=False)
    assert [offset for offset, _, _ in harness.records(again)] == offsets
