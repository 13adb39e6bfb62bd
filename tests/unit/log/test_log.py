"""Log: appends, rolls, reads, lookups by timestamp, disk errors."""

import asyncio
import errno
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.log.segments.log_segment import TimestampOffset
from odradek.log.segments.log_segments import legacy_offsets_before
from odradek.log.segments.results import EMPTY_FETCH
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.model.protocol_enums import Compression
from odradek.ports.files import FileSlice
from odradek.records.batch import BatchBuilder
from odradek.records.codec import decode, read_headers
from odradek.records.control_records import ControlRecordType, EndTransactionMarker
from odradek.records.conversion import down_convert
from odradek.records.validation import AppendOrigin, RecordValidationError

Batch = Callable[..., bytearray]
BATCH_BYTES = 76


def _raises(code: ErrorCode) -> Any:
    class _Expected:
        def __enter__(self) -> None: ...

        def __exit__(self, kind: object, error: object, trace: object) -> bool:
            assert isinstance(error, BrokerError), f"{code.name} was expected"
            assert error.code is code
            return True

    return _Expected()


# Appends.


def test_leader_assigns_offsets_and_epochs(harness: Any, batch: Batch) -> None:
    log = harness.create()
    first = log.append_as_leader(batch(3), 5, harness.now_ms)
    second = log.append_as_leader(batch(2), 5, harness.now_ms)
    assert (first.first_offset, first.last_offset, first.record_count) == (0, 2, 3)
    assert (second.first_offset, second.last_offset, second.append_time_ms) == (3, 4, -1)
    assert log.log_end_offset == 5
    assert [header.leader_epoch for header in read_headers(log.read(0, 1 << 20).data.read())] == [5, 5]
    assert log.epochs.entries == ((5, 0),)


def test_log_append_time_is_assigned(harness: Any, batch: Batch) -> None:
    log = harness.create(message_timestamp_type="LogAppendTime")
    appended = log.append_as_leader(batch(2, timestamp=5), 0, 777)
    assert appended.append_time_ms == 777
    assert harness.records(log) == [(0, 777, b"value"), (1, 777, b"value")]


def test_changed_topic_settings_apply_immediately(harness: Any, batch: Batch) -> None:
    log = harness.create(max_message_bytes=BATCH_BYTES)
    harness.append(log)
    with _raises(ErrorCode.MESSAGE_TOO_LARGE):
        harness.append(log, value=b"longer than before")
    log.configure(type(log.config)(max_message_bytes=1000, cleanup_policy=("compact",)))
    harness.append(log, value=b"longer than before")
    without_key = BatchBuilder()
    without_key.append(1, None, b"x")
    with pytest.raises(RecordValidationError):
        log.append_as_leader(bytearray(without_key.build()), 0, harness.now_ms)


def test_smaller_segment_bytes_applies_to_the_active_segment(harness: Any) -> None:
    log = harness.create()
    for _ in range(3):
        harness.append(log)
    log.configure(type(log.config)(segment_bytes=3 * BATCH_BYTES))
    harness.append(log)
    assert [segment.base_offset for segment in log.segments] == [0, 3]


def test_shorter_segment_ms_applies_to_the_active_segment(harness: Any) -> None:
    log = harness.create(segment_ms=1000)
    harness.append(log, timestamp=5000)
    log.configure(type(log.config)(segment_ms=10))
    harness.append(log, timestamp=5010)
    assert len(log.segments) == 1
    harness.append(log, timestamp=5011)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_duplicate_batch_gets_its_original_offsets(harness: Any, batch: Batch) -> None:
    log = harness.create()
    batches = [
        batch(2, producer_id=9, producer_epoch=0, base_sequence=number * 2, timestamp=1000 + number)
        for number in range(7)
    ]
    for data in batches:
        log.append_as_leader(bytearray(data), 0, harness.now_ms)
    again = log.append_as_leader(bytearray(batches[4]), 0, harness.now_ms)
    assert again.is_duplicate
    assert (again.first_offset, again.last_offset, again.append_time_ms) == (8, 9, 1005)
    assert log.log_end_offset == 14
    with _raises(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        log.append_as_leader(bytearray(batches[0]), 0, harness.now_ms)
    assert log.log_end_offset == 14


def test_duplicates_are_detected_after_a_restart(harness: Any, batch: Batch) -> None:
    log = harness.create(segment_bytes=300)
    batches = [batch(2, producer_id=9, producer_epoch=0, base_sequence=number * 2) for number in range(9)]
    for data in batches:
        log.append_as_leader(bytearray(data), 0, harness.now_ms)
    harness.run(log.close())
    log = harness.open()
    again = log.append_as_leader(bytearray(batches[8]), 0, harness.now_ms)
    assert (again.is_duplicate, again.first_offset) == (True, 16)
    with _raises(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        log.append_as_leader(batch(1, producer_id=9, producer_epoch=0, base_sequence=99), 0, harness.now_ms)


def test_duplicates_of_replicated_batches_are_detected_by_the_new_leader(harness: Any, batch: Batch) -> None:
    log = harness.create()
    assert len(log.producers) == 0
    data = batch(2, producer_id=9, producer_epoch=0, base_sequence=0)
    log.append_as_follower(bytearray(data), 0, harness.now_ms)
    assert log.append_as_leader(data, 1, harness.now_ms).is_duplicate


def test_marker_is_checked_against_the_producer_epoch_only(harness: Any, batch: Batch) -> None:
    log = harness.create()
    log.append_as_leader(batch(1, producer_id=9, producer_epoch=3, base_sequence=0), 0, harness.now_ms)

    marker = EndTransactionMarker(ControlRecordType.COMMIT, 0)
    assert not log.append_end_marker(marker, 9, 3, 0, harness.now_ms).is_duplicate
    with _raises(ErrorCode.INVALID_PRODUCER_EPOCH):
        log.append_end_marker(marker, 9, 2, 0, harness.now_ms)
    invalid = batch(1, producer_id=9, producer_epoch=3, control=True, transactional=True)
    with _raises(ErrorCode.INVALID_RECORD):
        log.append_as_leader(invalid, 0, harness.now_ms, origin=AppendOrigin.COORDINATOR)
    next_batch = batch(1, producer_id=9, producer_epoch=3, base_sequence=1)
    assert log.append_as_leader(next_batch, 0, harness.now_ms).first_offset == 2


def test_produce_v2_without_messages_appends_nothing(harness: Any) -> None:
    log = harness.create()
    appended = log.append_as_leader(b"", 0, harness.now_ms, produce_version=2)
    assert (appended.first_offset, appended.record_count, log.log_end_offset) == (-1, 0, 0)


def test_old_message_formats_are_stored_as_a_batch(harness: Any, batch: Batch) -> None:
    log = harness.create()
    messages = bytearray(down_convert(batch(3), 1, 0))
    appended = log.append_as_leader(messages, 0, harness.now_ms, produce_version=2)
    assert (appended.first_offset, appended.last_offset) == (0, 2)
    assert [header.magic for header in read_headers(log.read(0, 1 << 20).data.read())] == [2]


def test_batch_larger_than_a_segment_is_rejected(harness: Any) -> None:
    log = harness.create(segment_bytes=200)
    with _raises(ErrorCode.RECORD_LIST_TOO_LARGE):
        harness.append(log, value=bytes(300))
    assert log.log_end_offset == 0


def test_follower_keeps_offsets_and_gaps(harness: Any, batch: Batch) -> None:
    log = harness.create()
    data = batch(2, base_offset=5, leader_epoch=1) + batch(1, base_offset=9, leader_epoch=2)
    appended = log.append_as_follower(data, 2, harness.now_ms)
    assert (appended.first_offset, appended.last_offset, log.log_end_offset) == (5, 9, 10)
    assert log.epochs.entries == ((1, 5), (2, 9))
    assert [offset for offset, _, _ in harness.records(log)] == [5, 6, 9]


def test_follower_skips_incomplete_batches_and_newer_leader_epochs(harness: Any, batch: Batch) -> None:
    log = harness.create()
    data = batch(2, leader_epoch=1) + batch(1, base_offset=2, leader_epoch=3)
    log.append_as_follower(data, 2, harness.now_ms)
    assert log.log_end_offset == 2
    log.append_as_follower(batch(2, base_offset=2, leader_epoch=3)[:-1], 3, harness.now_ms)
    assert log.log_end_offset == 2


def test_follower_rejects_decreasing_offsets(harness: Any, batch: Batch) -> None:
    log = harness.create()
    log.append_as_follower(batch(3), 0, harness.now_ms)
    with _raises(ErrorCode.UNKNOWN_SERVER_ERROR):
        log.append_as_follower(batch(3, base_offset=2), 0, harness.now_ms)
    with _raises(ErrorCode.CORRUPT_MESSAGE):
        log.append_as_follower(batch(1, base_offset=8) + batch(1, base_offset=7), 0, harness.now_ms)
    assert log.log_end_offset == 3


def test_follower_append_larger_than_a_segment_is_split(harness: Any, batch: Batch) -> None:
    log = harness.create(segment_bytes=2 * BATCH_BYTES)
    data = bytearray().join(batch(1, base_offset=offset) for offset in range(7))
    log.append_as_follower(data, 0, harness.now_ms)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 6]
    assert len(harness.records(log)) == 7


# Rolls.


def test_roll_when_the_segment_is_full(harness: Any) -> None:
    log = harness.create(segment_bytes=2 * BATCH_BYTES)
    for _ in range(5):
        harness.append(log)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    assert [segment.size for segment in log.segments] == [2 * BATCH_BYTES, 2 * BATCH_BYTES, BATCH_BYTES]
    assert harness.rolled == [log, log]
    assert harness.files.list_names(log.directory)[:3] == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
    ]


def test_roll_by_record_timestamps(harness: Any) -> None:
    log = harness.create(segment_ms=1000)
    for timestamp in (5000, 5500, 6000, 6001, 6500):
        harness.append(log, timestamp=timestamp)
    assert [segment.base_offset for segment in log.segments] == [0, 3]


def test_roll_by_the_clock_without_timestamps(harness: Any) -> None:
    log = harness.create(segment_ms=1000)
    harness.append(log, timestamp=-1)
    harness.now_ms += 1000
    harness.append(log, timestamp=-1)
    harness.now_ms += 1
    harness.append(log, timestamp=-1)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_segment_jitter_shortens_the_roll_time(harness: Any) -> None:
    lengths = set()
    for seed in range(20):
        harness.entropy.random.seed(seed)
        harness.files.make_directories(harness.path(""))
        harness.files.remove_tree(harness.path(""))
        log = harness.create(segment_ms=1000, segment_jitter_ms=500)
        harness.append(log, timestamp=0)
        timestamp = 500
        while len(log.segments) == 1:
            timestamp += 10
            harness.append(log, timestamp=timestamp)
        lengths.add(timestamp)
    assert min(lengths) > 500
    assert max(lengths) <= 1010
    assert len(lengths) > 5


def test_roll_when_an_index_is_full(harness: Any) -> None:
    log = harness.create(segment_index_bytes=30, index_interval_bytes=0)
    for number in range(7):
        harness.append(log, timestamp=1000 + number)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 6]


def test_index_too_small_for_an_entry_does_not_prevent_appends(harness: Any) -> None:
    log = harness.create(segment_index_bytes=4)
    for _ in range(3):
        harness.append(log)
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]
    assert len(harness.records(log)) == 3


def test_roll_on_relative_offset_overflow(harness: Any, batch: Batch) -> None:
    log = harness.create()
    far = 2**31
    log.append_as_follower(batch(1), 0, harness.now_ms)
    log.append_as_follower(batch(1, base_offset=far - 1), 0, harness.now_ms)
    log.append_as_follower(batch(1, base_offset=far), 0, harness.now_ms)
    assert [segment.base_offset for segment in log.segments] == [0, far]
    assert [offset for offset, _, _ in harness.records(log)] == [0, far - 1, far]


# Reads.


@given(data=st.data())
def test_reads_return_complete_batches_from_any_offset(
    data: st.DataObject, new_harness: Callable[[], Any], batch: Batch
) -> None:
    harness = new_harness()
    segment_bytes = data.draw(st.sampled_from([200, 500, 1 << 20]))
    log = harness.create(
        segment_bytes=segment_bytes, index_interval_bytes=data.draw(st.sampled_from([0, 200]))
    )
    steps = data.draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), min_size=1, max_size=25))
    ends: list[tuple[int, int]] = []
    for gap, count in steps:
        start = log.log_end_offset + gap
        log.append_as_follower(batch(count, base_offset=start), 0, harness.now_ms)
        ends.append((start, start + count))
        if data.draw(st.integers(0, 9)) == 0:
            harness.run(log.close())
            log = harness.open({"segment_bytes": segment_bytes})
    end_offset = data.draw(st.sampled_from([None, *(end for _, end in ends)]))
    visible = log.log_end_offset if end_offset is None else end_offset
    for offset in range(log.log_end_offset + 1):
        fetched = log.read(offset, 1 << 20, end_offset).data
        headers = read_headers(fetched if isinstance(fetched, bytes) else fetched.read())
        got = [(header.base_offset, header.next_offset) for header in headers]
        expected = [batch_range for batch_range in ends if offset < batch_range[1] <= visible]
        assert got == expected[: len(got)]
        assert bool(got) == bool(expected)


def test_offsets_outside_the_log_are_out_of_range(harness: Any) -> None:
    log = harness.create()
    for _ in range(4):
        harness.append(log)
    log.high_watermark = 4
    log.advance_log_start_offset(2)
    for offset in (-1, 0, 1, 5):
        with _raises(ErrorCode.OFFSET_OUT_OF_RANGE):
            log.read(offset, 100)
    assert len(log.read(4, 100).data) == 0
    assert log.read(3, 100, 2).data == b""


@pytest.mark.parametrize("is_active", [True, False])
def test_read_size_is_limited(harness: Any, is_active: bool) -> None:
    log = harness.create()
    for _ in range(4):
        harness.append(log)
    if not is_active:
        harness.run(log.close())
        log = harness.open()
    for bytes_max, at_least_one, size, first_entry_incomplete in [
        (1000, True, 4 * BATCH_BYTES, False),
        (2 * BATCH_BYTES + 1, True, 2 * BATCH_BYTES + 1, False),
        (BATCH_BYTES, False, BATCH_BYTES, False),
        (BATCH_BYTES - 1, True, BATCH_BYTES, False),
        (BATCH_BYTES - 1, False, BATCH_BYTES - 1, True),
        (0, True, BATCH_BYTES, False),
        (0, False, 0, True),
    ]:
        fetched = log.read(0, bytes_max, None, at_least_one)
        assert (len(fetched.data), fetched.first_entry_incomplete) == (size, first_entry_incomplete)


def test_read_returns_a_file_slice_that_survives_truncation(harness: Any) -> None:
    log = harness.create(segment_bytes=2 * BATCH_BYTES)
    for _ in range(6):
        harness.append(log)
    slices = [log.read(offset, 1000).data for offset in (0, 5)]
    assert all(isinstance(data, FileSlice) for data in slices)
    log.truncate_fully_and_start_at(100, harness.now_ms)
    assert [record.offset for record in decode(slices[0].read())] == [0, 1]


def test_read_skips_a_gap_at_the_end_of_a_segment(harness: Any, batch: Batch) -> None:
    log = harness.create(segment_bytes=2 * BATCH_BYTES)
    for offset in (0, 1, 10, 11):
        if offset == 10:
            log.skip_to(offset, harness.now_ms)
        log.append_as_follower(batch(1, base_offset=offset), 0, harness.now_ms)
    assert [segment.base_offset for segment in log.segments] == [0, 10]
    assert decode(log.read(5, 1000).data.read())[0].offset == 10
    assert log.read(5, 1000, 9).data == b""


def test_tail_reads_need_no_disk_access(harness: Any, batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    log = harness.create()
    for _ in range(100):
        harness.append(log, 2)

    def fail(*_: object) -> bytes:
        raise AssertionError("a read")

    monkeypatch.setattr("odradek.testing.files.MemoryFile.read_at", fail)
    for offset in range(200):
        assert len(log.read(offset, 1 << 20, 200).data) == (100 - offset // 2) * len(batch(2))
        assert len(log.read(offset, 1 << 20, 100).data) == max(50 - offset // 2, 0) * len(batch(2))


# Lookups by timestamp.


def test_records_are_found_by_timestamp_across_segments(harness: Any) -> None:
    log = harness.create(segment_bytes=400)
    for number in range(20):
        harness.append(log, 2, timestamp=1000 + number * 10)
    assert len(log.segments) > 4
    assert log.segments.find_offset_by_timestamp(0, log.log_start_offset) == TimestampOffset(1000, 0, 0)
    assert log.segments.find_offset_by_timestamp(1101, log.log_start_offset) == TimestampOffset(1101, 21, 0)
    assert log.segments.find_offset_by_timestamp(1102, log.log_start_offset) == TimestampOffset(1110, 22, 0)
    assert log.segments.find_offset_by_timestamp(1191, log.log_start_offset) == TimestampOffset(1191, 39, 0)
    assert log.segments.find_offset_by_timestamp(1192, log.log_start_offset) is None
    log.high_watermark = 30
    log.advance_log_start_offset(25)
    assert log.segments.find_offset_by_timestamp(0, log.log_start_offset) == TimestampOffset(1121, 25, 0)


def test_first_record_with_the_max_timestamp_is_found(harness: Any) -> None:
    log = harness.create(segment_bytes=400)
    assert log.segments.find_max_timestamp() is None
    for timestamp in (1000, 3000, 2000, 3000, 1500, 1600, 1700, 1800):
        harness.append(log, timestamp=timestamp)
    assert log.segments.find_max_timestamp() == TimestampOffset(3000, 1, 0)
    harness.append(log, 3, timestamp=2999, leader_epoch=4)
    assert log.segments.find_max_timestamp() == TimestampOffset(3001, 10, 4)


def test_timestamp_is_found_inside_compressed_batches(harness: Any) -> None:
    log = harness.create()
    harness.append(log, 50, timestamp=1000, compression=Compression.LZ4)
    assert log.segments.find_offset_by_timestamp(1033, log.log_start_offset) == TimestampOffset(1033, 33, 0)


def legacy_offsets(log, timestamp, count_max, now_ms):
    return legacy_offsets_before(
        log.segments, timestamp, count_max, log.log_start_offset, log.log_end_offset, now_ms
    )


def test_legacy_offsets_before(harness: Any) -> None:
    log = harness.create(segment_bytes=2 * BATCH_BYTES)
    assert legacy_offsets(log, -1, 10, harness.now_ms) == [0]
    for number in range(5):
        harness.now_ms = 2000 + number
        harness.append(log)
    assert legacy_offsets(log, -1, 10, harness.now_ms) == [5, 4, 2, 0]
    assert legacy_offsets(log, -1, 2, harness.now_ms) == [5, 4]
    assert legacy_offsets(log, -1, 0, harness.now_ms) == []
    assert legacy_offsets(log, -2, 10, harness.now_ms) == [0]
    assert legacy_offsets(log, 2003, 10, harness.now_ms) == [2, 0]
    assert legacy_offsets(log, 2001, 10, harness.now_ms) == [0]
    assert legacy_offsets(log, 2000, 10, harness.now_ms) == []
    log.high_watermark = 5
    log.advance_log_start_offset(3)
    assert legacy_offsets(log, -2, 10, harness.now_ms) == [3]
    assert legacy_offsets(log, -1, 10, harness.now_ms) == [5, 4, 3, 3]


# Disk errors.


def test_full_disk_fails_only_the_append(harness: Any) -> None:
    log = harness.create()
    harness.append(log)
    harness.files.fail_next_write(errno.ENOSPC, written=30, name_end=".log")
    with _raises(ErrorCode.KAFKA_STORAGE_ERROR):
        harness.append(log)
    assert log.failure is None
    assert harness.append(log) == 1
    assert [offset for offset, _, _ in harness.records(log)] == [0, 1]


def test_full_disk_during_a_roll_fails_only_the_append(harness: Any) -> None:
    log = harness.create(segment_bytes=2 * BATCH_BYTES)
    harness.append(log), harness.append(log)
    harness.files.fail_next_write(errno.ENOSPC, name_end="index")
    with _raises(ErrorCode.KAFKA_STORAGE_ERROR):
        harness.append(log)
    assert len(log.segments) == 1
    assert harness.append(log) == 2
    assert len(log.segments) == 2


def test_fd_limit_fails_only_the_read(harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    log = harness.create(segment_bytes=2 * BATCH_BYTES)
    for _ in range(5):
        harness.append(log)

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(harness.files, "open", fail)
        with _raises(ErrorCode.KAFKA_STORAGE_ERROR):
            log.read(0, 100)
        assert len(log.read(4, 100).data) == BATCH_BYTES
    assert log.failure is None
    assert len(log.read(0, 1000).data) == 2 * BATCH_BYTES


def test_disk_error_fails_the_log(harness: Any) -> None:
    log = harness.create()
    harness.append(log)
    harness.files.fail_next_write(errno.EIO, name_end=".log")
    with pytest.raises(StorageError, match="Input/output error"):
        harness.append(log)
    assert harness.failures == [log.failure]
    with pytest.raises(StorageError, match="/data/orders-0"):
        harness.append(log)


def test_failed_sync_fails_the_log(harness: Any) -> None:
    log = harness.create()
    harness.append(log)
    harness.files.fail_next_sync(errno.EIO)
    with pytest.raises(StorageError):
        harness.run(log.flush())
    assert log.recovery_point == 0
    assert harness.failures == [log.failure]
    with pytest.raises(StorageError):
        harness.run(log.close())


def test_idle_producers_expire(harness: Any, batch: Batch) -> None:
    log = harness.create()
    assert log.expire_producers(10_000, 1000) == 0
    log.append_as_leader(
        batch(1, producer_id=9, producer_epoch=0, base_sequence=0, timestamp=1000), 0, harness.now_ms
    )
    log.append_as_leader(
        batch(1, producer_id=8, producer_epoch=0, base_sequence=0, timestamp=9500), 0, harness.now_ms
    )
    assert log.expire_producers(10_000, 1000) == 1
    assert {producer.producer_id for producer in log.producers} == {8}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE])
def test_flush_that_failed_on_a_full_disk_is_completed_later(harness: Any, code: int) -> None:
    log = harness.create()
    harness.append(log, 3)
    harness.files.fail_next_write(code, name_end="leader-epoch-checkpoint.tmp")
    with pytest.raises(StorageError, match=r"cannot flush /data/orders-0 yet: .*leader-epoch-checkpoint"):
        harness.run(log.flush())
    assert (log.failure, log.recovery_point) == (None, 0)
    harness.append(log, 2)
    harness.run(log.flush())
    assert log.recovery_point == 5
    assert harness.files.read_whole(harness.path("leader-epoch-checkpoint")) == b"0\n1\n0 0\n"


def test_close_after_a_cancelled_flush_writes_the_leader_epochs(harness: Any) -> None:
    log = harness.create()
    harness.append(log, 3)

    async def cancel_then_close() -> None:
        harness.files.draw_delay_s = lambda: 0.001
        flush = asyncio.ensure_future(log.flush())
        await asyncio.sleep(0)
        flush.cancel()
        with pytest.raises(asyncio.CancelledError):
            await flush
        await log.close()

    harness.run(cancel_then_close())
    assert harness.files.read_whole(harness.path("leader-epoch-checkpoint")) == b"0\n1\n0 0\n"


def test_last_batch_is_read_completely_or_marked_incomplete(harness: Any) -> None:
    log = harness.create()
    harness.append(log, 1)
    harness.append(log, 3)
    assert [record.offset for record in decode(log.read(2, 1).data.read())] == [1, 2, 3]
    assert log.read(2, 1, at_least_one=False).first_entry_incomplete


def test_batch_that_crosses_the_end_offset_is_not_read(harness: Any) -> None:
    log = harness.create()
    harness.append(log, 3)
    assert log.read(0, 1 << 20, 1) == EMPTY_FETCH
    assert log.read(0, 1 << 20, 3).data.read()


def test_log_may_end_after_its_last_batch(harness: Any) -> None:
    log = harness.create()
    harness.append(log, 2)
    log.skip_to(10, harness.now_ms)
    log.skip_to(5, harness.now_ms)
    assert log.log_end_offset == 10
    harness.run(log.close())
    again = harness.open()
    assert (again.log_end_offset, harness.append(again)) == (10, 10)
    assert [offset for offset, _, _ in harness.records(again)] == [0, 1, 10]


def test_follower_append_of_no_bytes_appends_nothing(harness: Any) -> None:
    log = harness.create()
    appended = log.append_as_follower(b"", 0, harness.now_ms)
    assert (appended.first_offset, appended.last_offset, log.log_end_offset) == (-1, -1, 0)


def test_directory_is_synced_only_after_name_changes(harness: Any) -> None:
    synced: list[str] = []
    written: list[str] = []
    sync_dir, write_whole = harness.files.sync_dir, harness.files.write_whole

    def record_sync(path: str) -> None:
        synced.append(path)
        sync_dir(path)

    def record_write(path: str, content: bytes) -> None:
        written.append(path)
        write_whole(path, content)

    harness.files.sync_dir, harness.files.write_whole = record_sync, record_write
    log = harness.create()
    for _ in range(3):
        harness.append(log)
        harness.run(log.flush())
    assert synced == [log.directory, log.directory, "/data"], "for the epochs, the segment and the log"
    assert written == [f"{log.directory}/leader-epoch-checkpoint"]
    log.roll(harness.now_ms)
    harness.run(log.flush())
    assert synced[3:] == [log.directory]
    harness.append(log)
    harness.run(log.flush())
    assert synced[3:] == [log.directory], "a snapshot is not written twice"


def test_directory_sync_that_was_skipped_on_a_full_disk_happens_with_the_next_flush(harness: Any) -> None:
    log = harness.create()
    harness.append(log)
    harness.run(log.flush())
    log.roll(harness.now_ms)
    harness.files.fail_next_write(errno.ENOSPC, name_end=".snapshot")
    with pytest.raises(StorageError, match="yet"):
        harness.run(log.flush())
    synced: list[str] = []
    sync_dir = harness.files.sync_dir

    def record_sync(path: str) -> None:
        synced.append(path)
        sync_dir(path)

    harness.files.sync_dir = record_sync
    harness.run(log.flush())
    assert synced == [log.directory]
