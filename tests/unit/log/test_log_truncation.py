"""Log: truncation, log start offset, flush, close, deletion, topic id."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.log.leader_epoch_cache import EpochEnd
from odradek.model.errors import BrokerError, ErrorCode, StorageError

Batch = Callable[..., bytearray]


@given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=25),
    end_offset=st.integers(0, 60),
    segment_bytes=st.sampled_from([200, 600, 1 << 20]),
    reopened=st.booleans(),
)
def test_truncated_log_continues_at_the_truncation_offset(
    new_harness: Callable[[], Any], counts: list[int], end_offset: int, segment_bytes: int, reopened: bool
) -> None:
    harness = new_harness()
    config = {"segment_bytes": segment_bytes, "index_interval_bytes": 100}
    log = harness.create(**config)
    first_offsets = [
        harness.append(log, count, timestamp=1000 + number) for number, count in enumerate(counts)
    ]
    if reopened:
        harness.run(log.close())
        log = harness.open(config)
    end = log.log_end_offset
    log.high_watermark = end
    before = harness.records(log)
    assert log.truncate_to(end_offset, harness.now_ms) == (end_offset < end)
    assert log.log_end_offset == min(end_offset, end)
    assert log.high_watermark == min(end_offset, end)
    last = max((start for start in [*first_offsets, end] if start <= end_offset), default=0)
    kept = [record for record in before if record[0] < last]
    assert harness.records(log) == kept
    assert harness.append(log, 2, timestamp=9000) == min(end_offset, end)
    assert harness.records(log)[: len(kept)] == kept
    assert [offset for offset, _, _ in harness.records(log)[len(kept) :]] == [
        min(end_offset, end),
        min(end_offset, end) + 1,
    ]
    after = harness.records(log)
    harness.run(log.close())
    again = harness.open(config, had_clean_shutdown=False)
    assert harness.recovered.problem is None
    assert harness.records(again) == after


def test_truncation_removes_later_epochs_and_producer_state(harness: Any, batch: Batch) -> None:
    log = harness.create()
    first = batch(2, producer_id=1, producer_epoch=0, base_sequence=0)
    second = batch(2, producer_id=1, producer_epoch=0, base_sequence=2)
    log.append_as_leader(bytearray(first), 1, 0)
    log.append_as_leader(bytearray(second), 2, 0)
    assert log.epochs.entries == ((1, 0), (2, 2))
    log.truncate_to(2, 0)
    assert log.epochs.entries == ((1, 0),)
    assert not log.append_as_leader(bytearray(second), 3, 0).is_duplicate
    assert log.append_as_leader(bytearray(first), 3, 0).is_duplicate
    assert log.epochs.entries == ((1, 0), (3, 2))


def test_truncation_beyond_the_end_removes_only_empty_epochs(harness: Any) -> None:
    log = harness.create()
    harness.append(log, 2, leader_epoch=1)
    log.assign_leader_epoch(4)
    assert log.epochs.entries == ((1, 0), (4, 2))
    assert not log.truncate_to(2, 0)
    assert log.epochs.entries == ((1, 0),)


def test_truncation_below_the_first_segment_resets_the_log(harness: Any) -> None:
    log = harness.create()
    log.truncate_fully_and_start_at(50, 0)
    harness.append(log)
    assert log.truncate_to(20, 0)
    assert (log.log_start_offset, log.log_end_offset) == (20, 20)
    assert harness.append(log) == 20


def test_full_truncation_removes_everything(harness: Any, batch: Batch) -> None:
    log = harness.create(segment_bytes=200)
    for _ in range(6):
        harness.append(log, leader_epoch=3)
    log.truncate_fully_and_start_at(1000, harness.now_ms)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark, log.recovery_point) == (1000,) * 4
    assert log.epochs.entries == ()
    assert [segment.base_offset for segment in log.segments] == [1000]
    assert sorted(harness.files.list_files(log.directory)) == [
        "00000000000000001000.index",
        "00000000000000001000.log",
        "00000000000000001000.timeindex",
    ]
    assert harness.append(log) == 1000
    log.truncate_fully_and_start_at(1000, harness.now_ms)
    assert harness.append(log) == 1000


def test_log_start_offset_advances_up_to_the_high_watermark(harness: Any) -> None:
    log = harness.create()
    harness.append(log, 4, leader_epoch=1)
    harness.append(log, 4, leader_epoch=2)
    log.high_watermark = 6
    with pytest.raises(BrokerError) as error:
        log.advance_log_start_offset(7)
    assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.advance_log_start_offset(5)
    assert not log.advance_log_start_offset(5)
    assert not log.advance_log_start_offset(3)
    assert log.log_start_offset == 5
    assert log.epochs.entries == ((2, 5),)
    assert [offset for offset, _, _ in harness.records(log)] == [5, 6, 7]


def test_epoch_ends_where_the_next_starts(harness: Any) -> None:
    log = harness.create()
    harness.append(log, 4, leader_epoch=1)
    harness.append(log, 4, leader_epoch=3)
    assert log.end_offset_for_epoch(1) == EpochEnd(1, 4)
    assert log.end_offset_for_epoch(2) == EpochEnd(1, 4)
    assert log.end_offset_for_epoch(3) == EpochEnd(3, 8)
    assert log.end_offset_for_epoch(4) == EpochEnd(-1, -1)


# Durability.


def test_flush_advances_the_recovery_point(harness: Any) -> None:
    log = harness.create(flush_messages=3)
    harness.append(log, 2)
    assert (log.recovery_point, log.is_flush_due) == (0, False)
    harness.append(log, 1)
    assert log.is_flush_due
    harness.run(log.flush())
    assert (log.recovery_point, log.is_flush_due) == (3, False)
    harness.run(log.flush())
    log.truncate_to(2, 0)
    assert log.recovery_point == 2


def test_flushed_records_survive_a_crash(harness: Any, new_entropy: Callable[[int], Any]) -> None:
    log = harness.create(segment_bytes=300)
    for number in range(10):
        harness.append(log, 2, leader_epoch=number // 4)
    records, epochs = harness.records(log), log.epochs.entries
    harness.run(log.flush())
    point = log.recovery_point
    harness.files.crash(new_entropy(1))
    again = harness.open(had_clean_shutdown=False, recovery_point=point)
    assert harness.records(again) == records
    assert again.epochs.entries == epochs


def test_truncation_during_a_flush_does_not_advance_the_recovery_point(harness: Any) -> None:
    log = harness.create()
    harness.append(log, 2)
    harness.append(log, 2)
    jobs: list[Callable[[], None]] = []

    class TruncatingAwaitable:
        def __await__(self) -> Any:
            jobs.pop()()
            log.truncate_to(2, 0)
            harness.append(log, 1)
            yield from ()

    def offload(job: Callable[[], None]) -> TruncatingAwaitable:
        jobs.append(job)
        return TruncatingAwaitable()

    harness.files.offload = offload
    harness.run(log.flush())
    assert (log.log_end_offset, log.recovery_point) == (3, 0)


def test_deletion_during_a_flush_does_not_fail(harness: Any) -> None:
    log = harness.create(segment_bytes=200)
    for _ in range(5):
        harness.append(log, 2)
    original = harness.files.offload

    def offload(job: Callable[[], None]) -> Any:
        log.rename_for_deletion()
        return original(job)

    harness.files.offload = offload
    harness.run(log.flush())
    assert log.failure is None


@pytest.mark.parametrize("seed", range(8))
def test_closed_log_survives_a_crash_without_a_scan(
    harness: Any, new_entropy: Callable[[int], Any], seed: int
) -> None:
    log = harness.create(segment_bytes=300, index_interval_bytes=0)
    for number in range(10):
        harness.append(log, 2, timestamp=1000 + number)
    records = harness.records(log)
    harness.run(log.close())
    assert log.recovery_point == 20
    names = harness.files.list_files(log.directory)
    harness.files.crash(new_entropy(seed))
    assert harness.files.list_files(log.directory) == names
    again = harness.open()
    assert harness.recovered.scanned_segments == 0
    assert (again.recovery_point, harness.records(again)) == (20, records)
    assert again.segments[-1].max_timestamp_and_offset()[:2] == (1010, 19)


def test_close_of_an_unused_log_does_nothing(harness: Any) -> None:
    log = harness.create()
    harness.append(log)
    harness.run(log.close())
    again = harness.open()
    assert again.plan_close() is None


def test_deleted_log_directory_is_renamed(harness: Any) -> None:
    log = harness.create()
    harness.append(log)
    reading = log.read(0, 100).data
    path = log.rename_for_deletion()
    assert path.startswith("/data/orders-0.")
    assert path.endswith("-delete")
    assert len(path) == len("/data/orders-0.-delete") + 32
    assert harness.files.list_names("/data") == [path.removeprefix("/data/")]
    assert reading.read()


# Topic id.


def test_topic_id_is_persistent(harness: Any) -> None:
    log = harness.create()
    assert log.topic_id is None
    log.assign_topic_id(b"0123456789abcdef")
    log.assign_topic_id(b"0123456789abcdef")
    with pytest.raises(BrokerError) as error:
        log.assign_topic_id(b"another topic...")
    assert error.value.code is ErrorCode.INCONSISTENT_TOPIC_ID
    harness.run(log.close())
    assert harness.open().topic_id == b"0123456789abcdef"


def test_malformed_topic_id_is_reported(harness: Any) -> None:
    log = harness.create()
    harness.files.write_whole(harness.path("partition.metadata"), b"version: 0\ntopic_id: short")
    with pytest.raises(StorageError, match=r"partition\.metadata"):
        _ = log.topic_id
