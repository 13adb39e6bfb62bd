"""A partition's log: appends, rolls, reads, searches by time."""

import errno
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.log.segments.log_segment import TimestampOffset
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


def _refusal(code: ErrorCode) -> Any:
    class _Refused:
        def __enter__(self) -> None: ...

        def __exit__(self, kind: object, error: object, trace: object) -> bool:
            assert isinstance(error, BrokerError), f"{code.name} was expected"
            assert error.code is code
            return True

    return _Refused()


# Appends.


def test_a_leader_gives_offsets_and_epochs(bench: Any, batch: Batch) -> None:
    log = bench.create()
    first = log.append_as_leader(batch(3), 5, bench.now_ms)
    second = log.append_as_leader(batch(2), 5, bench.now_ms)
    assert (first.first_offset, first.last_offset, first.record_count) == (0, 2, 3)
    assert (second.first_offset, second.last_offset, second.append_time_ms) == (3, 4, -1)
    assert log.log_end_offset == 5
    assert [header.leader_epoch for header in read_headers(log.read(0, 1 << 20).data.read())] == [5, 5]
    assert log.epochs.entries == ((5, 0),)


def test_append_time_is_given_where_the_topic_wants_it(bench: Any, batch: Batch) -> None:
    log = bench.create(message_timestamp_type="LogAppendTime")
    appended = log.append_as_leader(batch(2, timestamp=5), 0, 777)
    assert appended.append_time_ms == 777
    assert bench.records(log) == [(0, 777, b"value"), (1, 777, b"value")]


def test_topic_settings_hold_from_the_moment_they_change(bench: Any, batch: Batch) -> None:
    log = bench.create(max_message_bytes=BATCH_BYTES)
    bench.append(log)
    with _refusal(ErrorCode.MESSAGE_TOO_LARGE):
        bench.append(log, value=b"longer than before")
    log.configure(type(log.config)(max_message_bytes=1000, cleanup_policy=("compact",)))
    bench.append(log, value=b"longer than before")
    keyless = BatchBuilder()
    keyless.append(1, None, b"x")
    with pytest.raises(RecordValidationError):
        log.append_as_leader(bytearray(keyless.build()), 0, bench.now_ms)


def test_a_smaller_segment_size_holds_for_the_segment_that_is_being_written(bench: Any) -> None:
    log = bench.create()
    for _ in range(3):
        bench.append(log)
    log.configure(type(log.config)(segment_bytes=3 * BATCH_BYTES))
    bench.append(log)
    assert [segment.base_offset for segment in log.segments] == [0, 3]


def test_a_shorter_segment_age_holds_for_the_segment_that_is_being_written(bench: Any) -> None:
    log = bench.create(segment_ms=1000)
    bench.append(log, timestamp=5000)
    log.configure(type(log.config)(segment_ms=10))
    bench.append(log, timestamp=5010)
    assert len(log.segments) == 1
    bench.append(log, timestamp=5011)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_repeated_batch_is_answered_with_its_first_offsets(bench: Any, batch: Batch) -> None:
    log = bench.create()
    made = [
        batch(2, producer_id=9, producer_epoch=0, base_sequence=number * 2, timestamp=1000 + number)
        for number in range(7)
    ]
    for data in made:
        log.append_as_leader(bytearray(data), 0, bench.now_ms)
    again = log.append_as_leader(bytearray(made[4]), 0, bench.now_ms)
    assert again.is_duplicate
    assert (again.first_offset, again.last_offset, again.append_time_ms) == (8, 9, 1005)
    assert log.log_end_offset == 14
    with _refusal(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        log.append_as_leader(bytearray(made[0]), 0, bench.now_ms)
    assert log.log_end_offset == 14


def test_repetitions_are_known_after_a_restart(bench: Any, batch: Batch) -> None:
    log = bench.create(segment_bytes=300)
    made = [batch(2, producer_id=9, producer_epoch=0, base_sequence=number * 2) for number in range(9)]
    for data in made:
        log.append_as_leader(bytearray(data), 0, bench.now_ms)
    bench.run(log.close())
    log = bench.open()
    again = log.append_as_leader(bytearray(made[8]), 0, bench.now_ms)
    assert (again.is_duplicate, again.first_offset) == (True, 16)
    with _refusal(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        log.append_as_leader(batch(1, producer_id=9, producer_epoch=0, base_sequence=99), 0, bench.now_ms)


def test_what_a_follower_copied_is_known_when_it_leads(bench: Any, batch: Batch) -> None:
    log = bench.create()
    assert len(log.producers) == 0
    data = batch(2, producer_id=9, producer_epoch=0, base_sequence=0)
    log.append_as_follower(bytearray(data), 0, bench.now_ms)
    assert log.append_as_leader(data, 1, bench.now_ms).is_duplicate


def test_a_coordinators_marker_is_held_to_the_producers_epoch_only(bench: Any, batch: Batch) -> None:
    log = bench.create()
    log.append_as_leader(batch(1, producer_id=9, producer_epoch=3, base_sequence=0), 0, bench.now_ms)

    marker = EndTransactionMarker(ControlRecordType.COMMIT, 0)
    assert not log.append_end_marker(marker, 9, 3, 0, bench.now_ms).is_duplicate
    with _refusal(ErrorCode.INVALID_PRODUCER_EPOCH):
        log.append_end_marker(marker, 9, 2, 0, bench.now_ms)
    nonsense = batch(1, producer_id=9, producer_epoch=3, control=True, transactional=True)
    with _refusal(ErrorCode.INVALID_RECORD):
        log.append_as_leader(nonsense, 0, bench.now_ms, origin=AppendOrigin.COORDINATOR)
    follow = batch(1, producer_id=9, producer_epoch=3, base_sequence=1)
    assert log.append_as_leader(follow, 0, bench.now_ms).first_offset == 2


def test_an_old_produce_request_without_messages_appends_nothing(bench: Any) -> None:
    log = bench.create()
    appended = log.append_as_leader(b"", 0, bench.now_ms, produce_version=2)
    assert (appended.first_offset, appended.record_count, log.log_end_offset) == (-1, 0, 0)


def test_old_messages_are_stored_as_a_batch(bench: Any, batch: Batch) -> None:
    log = bench.create()
    messages = bytearray(down_convert(batch(3), 1, 0))
    appended = log.append_as_leader(messages, 0, bench.now_ms, produce_version=2)
    assert (appended.first_offset, appended.last_offset) == (0, 2)
    assert [header.magic for header in read_headers(log.read(0, 1 << 20).data.read())] == [2]


def test_a_batch_larger_than_a_segment_is_refused(bench: Any) -> None:
    log = bench.create(segment_bytes=200)
    with _refusal(ErrorCode.RECORD_LIST_TOO_LARGE):
        bench.append(log, value=bytes(300))
    assert log.log_end_offset == 0


def test_a_follower_keeps_offsets_and_holes(bench: Any, batch: Batch) -> None:
    log = bench.create()
    data = batch(2, base_offset=5, leader_epoch=1) + batch(1, base_offset=9, leader_epoch=2)
    appended = log.append_as_follower(data, 2, bench.now_ms)
    assert (appended.first_offset, appended.last_offset, log.log_end_offset) == (5, 9, 10)
    assert log.epochs.entries == ((1, 5), (2, 9))
    assert [offset for offset, _, _ in bench.records(log)] == [5, 6, 9]


def test_a_follower_leaves_out_what_is_incomplete_or_from_a_later_leader(bench: Any, batch: Batch) -> None:
    log = bench.create()
    data = batch(2, leader_epoch=1) + batch(1, base_offset=2, leader_epoch=3)
    log.append_as_follower(data, 2, bench.now_ms)
    assert log.log_end_offset == 2
    log.append_as_follower(batch(2, base_offset=2, leader_epoch=3)[:-1], 3, bench.now_ms)
    assert log.log_end_offset == 2


def test_a_follower_refuses_offsets_that_go_back(bench: Any, batch: Batch) -> None:
    log = bench.create()
    log.append_as_follower(batch(3), 0, bench.now_ms)
    with _refusal(ErrorCode.UNKNOWN_SERVER_ERROR):
        log.append_as_follower(batch(3, base_offset=2), 0, bench.now_ms)
    with _refusal(ErrorCode.CORRUPT_MESSAGE):
        log.append_as_follower(batch(1, base_offset=8) + batch(1, base_offset=7), 0, bench.now_ms)
    assert log.log_end_offset == 3


def test_a_follower_takes_more_than_one_segments_worth_at_once(bench: Any, batch: Batch) -> None:
    log = bench.create(segment_bytes=2 * BATCH_BYTES)
    data = bytearray().join(batch(1, base_offset=offset) for offset in range(7))
    log.append_as_follower(data, 0, bench.now_ms)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 6]
    assert len(bench.records(log)) == 7


# Rolls.


def test_a_full_segment_is_followed_by_the_next(bench: Any) -> None:
    log = bench.create(segment_bytes=2 * BATCH_BYTES)
    for _ in range(5):
        bench.append(log)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    assert [segment.size for segment in log.segments] == [2 * BATCH_BYTES, 2 * BATCH_BYTES, BATCH_BYTES]
    assert bench.rolled == [log, log]
    assert bench.files.list_names(log.directory)[:3] == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
    ]


def test_a_segment_ends_with_its_time_by_the_records_clock(bench: Any) -> None:
    log = bench.create(segment_ms=1000)
    for timestamp in (5000, 5500, 6000, 6001, 6500):
        bench.append(log, timestamp=timestamp)
    assert [segment.base_offset for segment in log.segments] == [0, 3]


def test_a_segment_of_records_without_time_ends_by_the_brokers_clock(bench: Any) -> None:
    log = bench.create(segment_ms=1000)
    bench.append(log, timestamp=-1)
    bench.now_ms += 1000
    bench.append(log, timestamp=-1)
    bench.now_ms += 1
    bench.append(log, timestamp=-1)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_jitter_shortens_a_segments_time(bench: Any) -> None:
    lengths = set()
    for seed in range(20):
        bench.chance.random.seed(seed)
        bench.files.make_directories(bench.path(""))
        bench.files.remove_tree(bench.path(""))
        log = bench.create(segment_ms=1000, segment_jitter_ms=500)
        bench.append(log, timestamp=0)
        timestamp = 500
        while len(log.segments) == 1:
            timestamp += 10
            bench.append(log, timestamp=timestamp)
        lengths.add(timestamp)
    assert min(lengths) > 500
    assert max(lengths) <= 1010
    assert len(lengths) > 5


def test_a_full_index_ends_a_segment(bench: Any) -> None:
    log = bench.create(segment_index_bytes=30, index_interval_bytes=0)
    for number in range(7):
        bench.append(log, timestamp=1000 + number)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 6]


def test_an_index_too_small_for_any_entry_does_not_stop_appends(bench: Any) -> None:
    log = bench.create(segment_index_bytes=4)
    for _ in range(3):
        bench.append(log)
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]
    assert len(bench.records(log)) == 3


def test_an_offset_too_far_from_the_base_offset_begins_a_segment(bench: Any, batch: Batch) -> None:
    log = bench.create()
    far = 2**31
    log.append_as_follower(batch(1), 0, bench.now_ms)
    log.append_as_follower(batch(1, base_offset=far - 1), 0, bench.now_ms)
    log.append_as_follower(batch(1, base_offset=far), 0, bench.now_ms)
    assert [segment.base_offset for segment in log.segments] == [0, far]
    assert [offset for offset, _, _ in bench.records(log)] == [0, far - 1, far]


# Reads.


@given(data=st.data())
def test_reads_give_whole_batches_from_any_offset(
    data: st.DataObject, new_bench: Callable[[], Any], batch: Batch
) -> None:
    bench = new_bench()
    segment_bytes = data.draw(st.sampled_from([200, 500, 1 << 20]))
    log = bench.create(segment_bytes=segment_bytes, index_interval_bytes=data.draw(st.sampled_from([0, 200])))
    steps = data.draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), min_size=1, max_size=25))
    ends: list[tuple[int, int]] = []
    for gap, count in steps:
        start = log.log_end_offset + gap
        log.append_as_follower(batch(count, base_offset=start), 0, bench.now_ms)
        ends.append((start, start + count))
        if data.draw(st.integers(0, 9)) == 0:
            bench.run(log.close())
            log = bench.open({"segment_bytes": segment_bytes})
    end_offset = data.draw(st.sampled_from([None, *(end for _, end in ends)]))
    visible = log.log_end_offset if end_offset is None else end_offset
    for offset in range(log.log_end_offset + 1):
        fetched = log.read(offset, 1 << 20, end_offset).data
        headers = read_headers(fetched if isinstance(fetched, bytes) else fetched.read())
        got = [(header.base_offset, header.next_offset) for header in headers]
        expected = [one for one in ends if one[1] > offset and one[1] <= visible]
        assert got == expected[: len(got)]
        assert bool(got) == bool(expected)


def test_offsets_outside_the_log_are_out_of_range(bench: Any) -> None:
    log = bench.create()
    for _ in range(4):
        bench.append(log)
    log.high_watermark = 4
    log.advance_log_start_offset(2)
    for offset in (-1, 0, 1, 5):
        with _refusal(ErrorCode.OFFSET_OUT_OF_RANGE):
            log.read(offset, 100)
    assert len(log.read(4, 100).data) == 0
    assert log.read(3, 100, 2).data == b""


@pytest.mark.parametrize("is_active", [True, False])
def test_the_size_of_a_read_is_bounded(bench: Any, is_active: bool) -> None:
    log = bench.create()
    for _ in range(4):
        bench.append(log)
    if not is_active:
        bench.run(log.close())
        log = bench.open()
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


def test_a_read_is_a_slice_of_the_file_and_stays_good(bench: Any) -> None:
    log = bench.create(segment_bytes=2 * BATCH_BYTES)
    for _ in range(6):
        bench.append(log)
    slices = [log.read(offset, 1000).data for offset in (0, 5)]
    assert all(isinstance(data, FileSlice) for data in slices)
    log.truncate_fully_and_start_at(100, bench.now_ms)
    assert [record.offset for record in decode(slices[0].read())] == [0, 1]


def test_reads_jump_over_a_segment_that_has_nothing_left(bench: Any, batch: Batch) -> None:
    log = bench.create(segment_bytes=2 * BATCH_BYTES)
    for offset in (0, 1, 10, 11):
        log.append_as_follower(batch(1, base_offset=offset), 0, bench.now_ms)
    assert [segment.base_offset for segment in log.segments] == [0, 10]
    assert decode(log.read(5, 1000).data.read())[0].offset == 10
    assert log.read(5, 1000, 9).data == b""


def test_tail_readers_ask_nothing_of_the_disk(
    bench: Any, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = bench.create()
    for _ in range(100):
        bench.append(log, 2)

    def refuse(*_: object) -> bytes:
        raise AssertionError("a read")

    monkeypatch.setattr("odradek.testing.files.MemoryFile.read_at", refuse)
    for offset in range(200):
        assert len(log.read(offset, 1 << 20, 200).data) == (100 - offset // 2) * len(batch(2))
        assert len(log.read(offset, 1 << 20, 100).data) == max(50 - offset // 2, 0) * len(batch(2))


# Searches by time.


def test_records_are_found_by_time_across_segments(bench: Any) -> None:
    log = bench.create(segment_bytes=400)
    for number in range(20):
        bench.append(log, 2, timestamp=1000 + number * 10)
    assert len(log.segments) > 4
    assert log.offset_for_timestamp(0) == TimestampOffset(1000, 0, 0)
    assert log.offset_for_timestamp(1101) == TimestampOffset(1101, 21, 0)
    assert log.offset_for_timestamp(1102) == TimestampOffset(1110, 22, 0)
    assert log.offset_for_timestamp(1191) == TimestampOffset(1191, 39, 0)
    assert log.offset_for_timestamp(1192) is None
    log.high_watermark = 30
    log.advance_log_start_offset(25)
    assert log.offset_for_timestamp(0) == TimestampOffset(1121, 25, 0)


def test_the_first_record_with_the_largest_timestamp_is_found(bench: Any) -> None:
    log = bench.create(segment_bytes=400)
    assert log.offset_of_max_timestamp() is None
    for timestamp in (1000, 3000, 2000, 3000, 1500, 1600, 1700, 1800):
        bench.append(log, timestamp=timestamp)
    assert log.offset_of_max_timestamp() == TimestampOffset(3000, 1, 0)
    bench.append(log, 3, timestamp=2999, leader_epoch=4)
    assert log.offset_of_max_timestamp() == TimestampOffset(3001, 10, 4)


def test_time_is_found_inside_compressed_batches(bench: Any) -> None:
    log = bench.create()
    bench.append(log, 50, timestamp=1000, compression=Compression.LZ4)
    assert log.offset_for_timestamp(1033) == TimestampOffset(1033, 33, 0)


def test_the_old_way_to_ask_for_offsets(bench: Any) -> None:
    log = bench.create(segment_bytes=2 * BATCH_BYTES)
    assert log.legacy_offsets_before(-1, 10, bench.now_ms) == [0]
    for number in range(5):
        bench.now_ms = 2000 + number
        bench.append(log)
    assert log.legacy_offsets_before(-1, 10, bench.now_ms) == [5, 4, 2, 0]
    assert log.legacy_offsets_before(-1, 2, bench.now_ms) == [5, 4]
    assert log.legacy_offsets_before(-1, 0, bench.now_ms) == []
    assert log.legacy_offsets_before(-2, 10, bench.now_ms) == [0]
    assert log.legacy_offsets_before(2003, 10, bench.now_ms) == [2, 0]
    assert log.legacy_offsets_before(2001, 10, bench.now_ms) == [0]
    assert log.legacy_offsets_before(2000, 10, bench.now_ms) == []
    log.high_watermark = 5
    log.advance_log_start_offset(3)
    assert log.legacy_offsets_before(-2, 10, bench.now_ms) == [3]
    assert log.legacy_offsets_before(-1, 10, bench.now_ms) == [5, 4, 3, 3]


# Failures of the disk.


def test_a_full_disk_refuses_the_append_and_no_more(bench: Any) -> None:
    log = bench.create()
    bench.append(log)
    bench.files.fail_next_write(errno.ENOSPC, written=30, name_end=".log")
    with _refusal(ErrorCode.KAFKA_STORAGE_ERROR):
        bench.append(log)
    assert log.failure is None
    assert bench.append(log) == 1
    assert [offset for offset, _, _ in bench.records(log)] == [0, 1]


def test_a_full_disk_at_a_roll_refuses_the_append_and_no_more(bench: Any) -> None:
    log = bench.create(segment_bytes=2 * BATCH_BYTES)
    bench.append(log), bench.append(log)
    bench.files.fail_next_write(errno.ENOSPC, name_end="index")
    with _refusal(ErrorCode.KAFKA_STORAGE_ERROR):
        bench.append(log)
    assert len(log.segments) == 1
    assert bench.append(log) == 2
    assert len(log.segments) == 2


def test_running_out_of_descriptors_refuses_the_read_and_no_more(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = bench.create(segment_bytes=2 * BATCH_BYTES)
    for _ in range(5):
        bench.append(log)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as scarce:
        scarce.setattr(bench.files, "open", refuse)
        with _refusal(ErrorCode.KAFKA_STORAGE_ERROR):
            log.read(0, 100)
        assert len(log.read(4, 100).data) == BATCH_BYTES
    assert log.failure is None
    assert len(log.read(0, 1000).data) == 2 * BATCH_BYTES


def test_a_failing_disk_fails_the_log(bench: Any) -> None:
    log = bench.create()
    bench.append(log)
    bench.files.fail_next_write(errno.EIO, name_end=".log")
    with pytest.raises(StorageError, match="Input/output error"):
        bench.append(log)
    assert bench.failures == [log.failure]
    with pytest.raises(StorageError, match="/data/orders-0"):
        bench.append(log)


def test_a_failed_sync_fails_the_log(bench: Any) -> None:
    log = bench.create()
    bench.append(log)
    bench.files.fail_next_sync(errno.EIO)
    with pytest.raises(StorageError):
        bench.run(log.flush())
    assert log.recovery_point == 0
    assert bench.failures == [log.failure]
    with pytest.raises(StorageError):
        bench.run(log.close())


def test_producers_silent_for_too_long_are_forgotten(bench: Any, batch: Batch) -> None:
    log = bench.create()
    assert log.expire_producers(10_000, 1000) == 0
    log.append_as_leader(
        batch(1, producer_id=9, producer_epoch=0, base_sequence=0, timestamp=1000), 0, bench.now_ms
    )
    log.append_as_leader(
        batch(1, producer_id=8, producer_epoch=0, base_sequence=0, timestamp=9500), 0, bench.now_ms
    )
    assert log.expire_producers(10_000, 1000) == 1
    assert {producer.producer_id for producer in log.producers} == {8}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE])
def test_a_flush_that_finds_no_room_for_the_epochs_is_made_up_for_later(bench: Any, code: int) -> None:
    log = bench.create()
    bench.append(log, 3)
    bench.files.fail_next_write(code, name_end="leader-epoch-checkpoint.tmp")
    with pytest.raises(StorageError, match=r"cannot flush /data/orders-0 yet: .*leader-epoch-checkpoint"):
        bench.run(log.flush())
    assert (log.failure, log.recovery_point) == (None, 0)
    bench.append(log, 2)
    bench.run(log.flush())
    assert log.recovery_point == 5
    assert bench.files.read_whole(bench.path("leader-epoch-checkpoint")) == b"0\n1\n0 0\n"


def test_the_last_batch_is_read_whole_or_not_at_all(bench: Any) -> None:
    log = bench.create()
    bench.append(log, 1)
    bench.append(log, 3)
    assert [one.offset for one in decode(log.read(2, 1).data.read())] == [1, 2, 3]
    assert log.read(2, 1, at_least_one=False).first_entry_incomplete


def test_a_batch_that_ends_behind_the_bound_of_a_read_is_not_read(bench: Any) -> None:
    log = bench.create()
    bench.append(log, 3)
    assert log.read(0, 1 << 20, 1) == EMPTY_FETCH
    assert log.read(0, 1 << 20, 3).data.read()


def test_a_log_may_end_behind_its_last_batch(bench: Any) -> None:
    log = bench.create()
    bench.append(log, 2)
    log.skip_to(10, bench.now_ms)
    log.skip_to(5, bench.now_ms)
    assert log.log_end_offset == 10
    bench.run(log.close())
    again = bench.open()
    assert (again.log_end_offset, bench.append(again)) == (10, 10)
    assert [one[0] for one in bench.records(again)] == [0, 1, 10]


def test_a_follower_that_is_sent_nothing_appends_nothing(bench: Any) -> None:
    log = bench.create()
    appended = log.append_as_follower(b"", 0, bench.now_ms)
    assert (appended.first_offset, appended.last_offset, log.log_end_offset) == (-1, -1, 0)


def test_names_are_synced_when_they_have_changed_and_not_with_every_flush(bench: Any) -> None:
    synced: list[str] = []
    written: list[str] = []
    sync_dir, write_whole = bench.files.sync_dir, bench.files.write_whole
    bench.files.sync_dir = lambda path: (synced.append(path), sync_dir(path))
    bench.files.write_whole = lambda path, content: (written.append(path), write_whole(path, content))
    log = bench.create()
    for _ in range(3):
        bench.append(log)
        bench.run(log.flush())
    assert synced == [log.directory, log.directory, "/data"], "of the epochs, of the segment, of the log"
    assert written == [f"{log.directory}/leader-epoch-checkpoint"]
    log.roll(bench.now_ms)
    bench.run(log.flush())
    assert synced[3:] == [log.directory]
    bench.append(log)
    bench.run(log.flush())
    assert synced[3:] == [log.directory], "nor is a snapshot written twice"


def test_names_that_a_full_disk_kept_from_the_disk_get_there_with_the_next_flush(bench: Any) -> None:
    log = bench.create()
    bench.append(log)
    bench.run(log.flush())
    log.roll(bench.now_ms)
    bench.files.fail_next_write(errno.ENOSPC, name_end=".snapshot")
    with pytest.raises(StorageError, match="yet"):
        bench.run(log.flush())
    synced: list[str] = []
    sync_dir = bench.files.sync_dir
    bench.files.sync_dir = lambda path: (synced.append(path), sync_dir(path))
    bench.run(log.flush())
    assert synced == [log.directory]
