"""A log cut short, started later, flushed, closed, deleted."""

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
    cut=st.integers(0, 60),
    segment_bytes=st.sampled_from([200, 600, 1 << 20]),
    reopened=st.booleans(),
)
def test_a_cut_log_ends_at_the_cut_and_goes_on_from_there(
    new_bench: Callable[[], Any], counts: list[int], cut: int, segment_bytes: int, reopened: bool
) -> None:
    bench = new_bench()
    config = {"segment_bytes": segment_bytes, "index_interval_bytes": 100}
    log = bench.create(**config)
    starts = [bench.append(log, count, timestamp=1000 + number) for number, count in enumerate(counts)]
    if reopened:
        bench.run(log.close())
        log = bench.open(config)
    end = log.log_end_offset
    log.high_watermark = end
    before = bench.records(log)
    assert log.truncate_to(cut, bench.now_ms) == (cut < end)
    assert log.log_end_offset == min(cut, end)
    assert log.high_watermark == min(cut, end)
    last = max((start for start in [*starts, end] if start <= cut), default=0)
    kept = [one for one in before if one[0] < last]
    assert bench.records(log) == kept
    assert bench.append(log, 2, timestamp=9000) == min(cut, end)
    assert bench.records(log)[: len(kept)] == kept
    assert [one[0] for one in bench.records(log)[len(kept) :]] == [min(cut, end), min(cut, end) + 1]
    after = bench.records(log)
    bench.run(log.close())
    again = bench.open(config, had_clean_shutdown=False)
    assert bench.recovered.problem is None
    assert bench.records(again) == after


def test_a_cut_forgets_epochs_and_producers_after_it(bench: Any, batch: Batch) -> None:
    log = bench.create()
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


def test_a_cut_beyond_the_end_only_forgets_epochs_that_wrote_nothing(bench: Any) -> None:
    log = bench.create()
    bench.append(log, 2, leader_epoch=1)
    log.assign_leader_epoch(4)
    assert log.epochs.entries == ((1, 0), (4, 2))
    assert not log.truncate_to(2, 0)
    assert log.epochs.entries == ((1, 0),)


def test_a_cut_below_the_first_segment_starts_the_log_anew(bench: Any) -> None:
    log = bench.create()
    log.truncate_fully_and_start_at(50, 0)
    bench.append(log)
    assert log.truncate_to(20, 0)
    assert (log.log_start_offset, log.log_end_offset) == (20, 20)
    assert bench.append(log) == 20


def test_starting_anew_drops_everything(bench: Any, batch: Batch) -> None:
    log = bench.create(segment_bytes=200)
    for _ in range(6):
        bench.append(log, leader_epoch=3)
    log.truncate_fully_and_start_at(1000, bench.now_ms)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark, log.recovery_point) == (1000,) * 4
    assert log.epochs.entries == ()
    assert [segment.base_offset for segment in log.segments] == [1000]
    assert sorted(bench.files.list_files(log.directory)) == [
        "00000000000000001000.index",
        "00000000000000001000.log",
        "00000000000000001000.timeindex",
    ]
    assert bench.append(log) == 1000
    log.truncate_fully_and_start_at(1000, bench.now_ms)
    assert bench.append(log) == 1000


def test_a_log_starts_later_but_not_beyond_the_high_watermark(bench: Any) -> None:
    log = bench.create()
    bench.append(log, 4, leader_epoch=1)
    bench.append(log, 4, leader_epoch=2)
    log.high_watermark = 6
    with pytest.raises(BrokerError) as refusal:
        log.advance_log_start_offset(7)
    assert refusal.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.advance_log_start_offset(5)
    assert not log.advance_log_start_offset(5)
    assert not log.advance_log_start_offset(3)
    assert log.log_start_offset == 5
    assert log.epochs.entries == ((2, 5),)
    assert [offset for offset, _, _ in bench.records(log)] == [5, 6, 7]


def test_the_end_of_an_epoch_is_where_the_next_begins(bench: Any) -> None:
    log = bench.create()
    bench.append(log, 4, leader_epoch=1)
    bench.append(log, 4, leader_epoch=3)
    assert log.end_offset_for_epoch(1) == EpochEnd(1, 4)
    assert log.end_offset_for_epoch(2) == EpochEnd(1, 4)
    assert log.end_offset_for_epoch(3) == EpochEnd(3, 8)
    assert log.end_offset_for_epoch(4) == EpochEnd(-1, -1)


# Durability.


def test_a_flush_moves_the_recovery_point(bench: Any) -> None:
    log = bench.create(flush_messages=3)
    bench.append(log, 2)
    assert (log.recovery_point, log.is_flush_due) == (0, False)
    bench.append(log, 1)
    assert log.is_flush_due
    bench.run(log.flush())
    assert (log.recovery_point, log.is_flush_due) == (3, False)
    bench.run(log.flush())
    log.truncate_to(2, 0)
    assert log.recovery_point == 2


def test_what_was_flushed_is_there_after_a_crash(bench: Any, new_chance: Callable[[int], Any]) -> None:
    log = bench.create(segment_bytes=300)
    for number in range(10):
        bench.append(log, 2, leader_epoch=number // 4)
    records, epochs = bench.records(log), log.epochs.entries
    bench.run(log.flush())
    point = log.recovery_point
    bench.files.crash(new_chance(1))
    again = bench.open(had_clean_shutdown=False, recovery_point=point)
    assert bench.records(again) == records
    assert again.epochs.entries == epochs


def test_a_cut_during_a_flush_keeps_the_recovery_point_down(bench: Any) -> None:
    log = bench.create()
    bench.append(log, 2)
    bench.append(log, 2)
    work: list[Callable[[], None]] = []

    class Later:
        def __await__(self) -> Any:
            work.pop()()
            log.truncate_to(2, 0)
            bench.append(log, 1)
            yield from ()

    def offload(job: Callable[[], None]) -> Later:
        work.append(job)
        return Later()

    bench.files.offload = offload
    bench.run(log.flush())
    assert (log.log_end_offset, log.recovery_point) == (3, 0)


def test_a_deletion_during_a_flush_is_no_failure(bench: Any) -> None:
    log = bench.create(segment_bytes=200)
    for _ in range(5):
        bench.append(log, 2)
    at_once = bench.files.offload

    def offload(job: Callable[[], None]) -> Any:
        log.rename_for_deletion()
        return at_once(job)

    bench.files.offload = offload
    bench.run(log.flush())
    assert log.failure is None


@pytest.mark.parametrize("seed", range(8))
def test_a_closed_log_is_whole_after_a_crash_without_any_scan(
    bench: Any, new_chance: Callable[[int], Any], seed: int
) -> None:
    log = bench.create(segment_bytes=300, index_interval_bytes=0)
    for number in range(10):
        bench.append(log, 2, timestamp=1000 + number)
    records = bench.records(log)
    bench.run(log.close())
    assert log.recovery_point == 20
    names = bench.files.list_files(log.directory)
    bench.files.crash(new_chance(seed))
    assert bench.files.list_files(log.directory) == names
    again = bench.open()
    assert bench.recovered.scanned_segments == 0
    assert (again.recovery_point, bench.records(again)) == (20, records)
    assert again.segments[-1].largest()[:2] == (1010, 19)


def test_a_log_that_nobody_touched_needs_nothing_to_close(bench: Any) -> None:
    log = bench.create()
    bench.append(log)
    bench.run(log.close())
    again = bench.open()
    assert again.plan_close() is None


def test_a_deleted_log_has_a_name_that_says_so(bench: Any) -> None:
    log = bench.create()
    bench.append(log)
    reading = log.read(0, 100).data
    path = log.rename_for_deletion()
    assert path.startswith("/data/orders-0.")
    assert path.endswith("-delete")
    assert len(path) == len("/data/orders-0.-delete") + 32
    assert bench.files.list_names("/data") == [path.removeprefix("/data/")]
    assert reading.read()


# Whose log it is.


def test_a_log_keeps_its_topics_id(bench: Any) -> None:
    log = bench.create()
    assert log.topic_id is None
    log.assign_topic_id(b"0123456789abcdef")
    log.assign_topic_id(b"0123456789abcdef")
    with pytest.raises(BrokerError) as refusal:
        log.assign_topic_id(b"another topic...")
    assert refusal.value.code is ErrorCode.INCONSISTENT_TOPIC_ID
    bench.run(log.close())
    assert bench.open().topic_id == b"0123456789abcdef"


def test_a_topic_id_that_cannot_be_read_is_told(bench: Any) -> None:
    log = bench.create()
    bench.files.write_whole(bench.path("partition.metadata"), b"version: 0\ntopic_id: short")
    with pytest.raises(StorageError, match=r"partition\.metadata"):
        _ = log.topic_id
