"""Retention: selection and deletion of segments."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.log.log_config import LogConfig
from odradek.log.old_segments import delete_old_segments, delete_pending_segments
from odradek.log.retention import DeletionReason, LogStats, SegmentStats, find_deletable_segments

HOUR = 3_600_000
DAY = 24 * HOUR
BOTH = ("compact", "delete")


def segments_of(*segments: tuple[int, int]) -> list[SegmentStats]:
    """Build segments of ten offsets each from size and largest timestamp."""
    last = len(segments) - 1
    return [
        SegmentStats(number * 10, number * 10 + 10 if size else number * 10, size, timestamp, number == last)
        for number, (size, timestamp) in enumerate(segments)
    ]


def deletable(
    segments: list[SegmentStats], now_ms: int = 0, *, start: int = 0, high: int = 10**9, **config: Any
) -> list[tuple[int, DeletionReason]]:
    log_stats = LogStats(start, high, sum(segment.size_bytes for segment in segments))
    config = {"retention_ms": -1, **config}
    return [
        (segment.base_offset, segment.reason)
        for segment in find_deletable_segments(segments, log_stats, LogConfig(**config), now_ms)
    ]


# By time.


def test_segment_is_deleted_after_retention_ms() -> None:
    segments = segments_of((100, 1000), (100, 2000), (100, 3000))
    assert deletable(segments, 6000, retention_ms=5000) == []
    assert deletable(segments, 6001, retention_ms=5000) == [(0, DeletionReason.TIME)]
    assert deletable(segments, 7001, retention_ms=5000) == [
        (0, DeletionReason.TIME),
        (10, DeletionReason.TIME),
    ]


def test_active_segment_is_deletable_unless_it_is_empty() -> None:
    assert len(deletable(segments_of((100, 1), (100, 2)), 5000, retention_ms=0)) == 2
    assert len(deletable(segments_of((100, 1), (0, 2)), 5000, retention_ms=0)) == 1
    assert deletable(segments_of((0, 1)), 5000, retention_ms=0) == []


def test_nothing_is_deleted_without_a_limit() -> None:
    assert deletable(segments_of((100, 0), (100, 0)), 10**15, retention_ms=-1, retention_bytes=-1) == []


def test_a_clock_set_back_deletes_nothing() -> None:
    segments = segments_of((100, 50 * DAY), (100, 51 * DAY))
    assert deletable(segments, 2 * DAY, retention_ms=0) == []


def test_future_timestamp_keeps_its_segment_and_all_after_it() -> None:
    segments = segments_of((100, 1 * DAY), (100, 90 * DAY), (100, 2 * DAY), (100, 3 * DAY))
    assert deletable(segments, 30 * DAY, retention_ms=7 * DAY) == [(0, DeletionReason.TIME)]
    assert len(deletable(segments, 97 * DAY + 1, retention_ms=7 * DAY)) == 4


# By size.


def test_segments_are_deleted_by_retention_bytes() -> None:
    segments = segments_of((100, 0), (100, 0), (100, 0))
    assert deletable(segments, retention_bytes=201) == []
    assert deletable(segments, retention_bytes=200) == [(0, DeletionReason.SIZE)]
    assert deletable(segments, retention_bytes=101) == [(0, DeletionReason.SIZE)]
    assert len(deletable(segments, retention_bytes=0)) == 3


def test_segments_deleted_by_time_count_for_the_size() -> None:
    segments = segments_of((300, 0), (100, 9000), (100, 9000))
    assert deletable(segments, 9000, retention_ms=5000, retention_bytes=250) == [(0, DeletionReason.TIME)]


# By the start of the log.


def test_segments_before_the_log_start_offset_are_deleted_under_every_policy() -> None:
    segments = segments_of((100, 0), (100, 0), (100, 0))
    for policy in [("delete",), ("compact",), BOTH]:
        assert deletable(segments, start=9, cleanup_policy=policy) == []
        assert deletable(segments, start=10, cleanup_policy=policy) == [(0, DeletionReason.START)]
        assert len(deletable(segments, start=30, cleanup_policy=policy)) == 2


def test_time_and_size_apply_only_with_the_delete_policy() -> None:
    segments = segments_of((100, 0), (100, 0))
    limits: dict[str, Any] = {"retention_ms": 0, "retention_bytes": 0}
    assert deletable(segments, 5000, cleanup_policy=("compact",), **limits) == []
    assert len(deletable(segments, 5000, cleanup_policy=BOTH, **limits)) == 2


def test_segments_above_the_high_watermark_are_not_deletable() -> None:
    segments = segments_of((100, 0), (100, 0), (100, 0))
    for high, count in [(0, 0), (9, 0), (10, 1), (29, 2), (30, 3)]:
        assert len(deletable(segments, 5000, high=high, retention_ms=0)) == count


# Equivalence: one pass selects what Kafka selects in three.


def kafka_deletable(
    segments: list[SegmentStats], log_stats: LogStats, config: LogConfig, now_ms: int
) -> list[int]:
    left = list(segments)

    def remove_while(is_deletable: Callable[[SegmentStats], bool]) -> None:
        while left and left[0].end_offset <= log_stats.high_watermark and is_deletable(left[0]):
            if left[0].is_last and not left[0].size_bytes:
                break
            del left[0]

    remove_while(lambda segment: not segment.is_last and segment.end_offset <= log_stats.log_start_offset)
    if "delete" in config.cleanup_policy:
        surplus = sum(segment.size_bytes for segment in left) - config.retention_bytes

        def too_much(segment: SegmentStats) -> bool:
            nonlocal surplus
            if surplus < segment.size_bytes:
                return False
            surplus -= segment.size_bytes
            return True

        if config.retention_bytes >= 0 and surplus >= 0:
            remove_while(too_much)
        if config.retention_ms >= 0:
            remove_while(lambda segment: now_ms - segment.largest_timestamp > config.retention_ms)
    return [segment.base_offset for segment in segments[: len(segments) - len(left)]]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 20)), min_size=1, max_size=6),
    st.just(0) | st.integers(0, 60),
    st.just(1000) | st.integers(0, 60),
    st.integers(-1, 25),
    st.integers(-1, 20),
    st.integers(0, 30),
    st.sampled_from([("delete",), ("compact",), BOTH]),
)
def test_deletable_segments_equal_those_of_kafka(
    sizes_and_timestamps: list[tuple[int, int]],
    start: int,
    high: int,
    retention_bytes: int,
    retention_ms: int,
    now_ms: int,
    policy: tuple[str, ...],
) -> None:
    segments = segments_of(*sizes_and_timestamps)
    log_stats = LogStats(start, high, sum(segment.size_bytes for segment in segments))
    config = LogConfig(retention_bytes=retention_bytes, retention_ms=retention_ms, cleanup_policy=policy)
    actual = find_deletable_segments(iter(segments), log_stats, config, now_ms)
    assert [segment.base_offset for segment in actual] == kafka_deletable(segments, log_stats, config, now_ms)


# The log.


def filled(harness: Any, batches: int = 4, **config: Any) -> Any:
    """Create a log with one committed batch per segment, an hour apart."""
    log = harness.create(segment_bytes=100, **config)
    for number in range(batches):
        harness.append(log, 2, timestamp=number * HOUR, leader_epoch=number)
    log.high_watermark = log.log_end_offset
    return log


def names(harness: Any, ending: str = "") -> list[str]:
    return sorted(name for name in harness.files.list_files("/data/orders-0") if name.endswith(ending))


def test_files_are_renamed_at_once_and_deleted_after_the_delay(harness: Any) -> None:
    log = filled(harness, retention_ms=HOUR, file_delete_delay_ms=500)
    deleted = harness.run(delete_old_segments(log, 2 * HOUR + 1, 1000))
    assert [(segment.base_offset, segment.reason) for segment in deleted] == [(0, DeletionReason.TIME)]
    assert (log.log_start_offset, log.segments[0].base_offset) == (2, 2)
    zeros = "00000000000000000000"
    assert names(harness, ".deleted") == [f"{zeros}.{end}.deleted" for end in ("index", "log", "timeindex")]
    assert harness.run(delete_pending_segments(log, 1499)) == 0
    assert names(harness, ".deleted") != []
    assert harness.run(delete_pending_segments(log, 1500)) == 1
    assert harness.run(delete_pending_segments(log, 1500)) == 0
    assert not [name for name in names(harness) if name.startswith(zeros)]


def test_read_in_progress_survives_retention(harness: Any) -> None:
    log = filled(harness, retention_ms=0, file_delete_delay_ms=0)
    before = harness.records(log)[:2]
    data = log.read(0, 1 << 20).data
    content = data.read()
    harness.run(delete_old_segments(log, DAY, 0))
    harness.run(delete_pending_segments(log, 0))
    assert data.read() == content
    assert [offset for offset, _, _ in before] == [0, 1]


def test_log_continues_at_its_end_when_all_segments_are_deleted(harness: Any) -> None:
    log = filled(harness, retention_ms=0)
    assert len(harness.run(delete_old_segments(log, DAY, 0))) == 4
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (8, 8, 8)
    assert len(log.segments) == 1
    assert harness.run(delete_old_segments(log, 2 * DAY, 0)) == []
    assert harness.append(log, 2, timestamp=DAY) == 8
    assert [offset for offset, _, _ in harness.records(log)] == [8, 9]
    harness.run(log.close())
    assert (harness.open().log_start_offset, harness.open().log_end_offset) == (8, 10)


def test_active_segment_stays_in_use_when_others_are_deleted(harness: Any) -> None:
    log = filled(harness, retention_ms=HOUR)
    last = log.segments[-1]
    harness.run(delete_old_segments(log, 3 * HOUR + 1, 0))
    assert log.segments[-1] is last


def test_epochs_of_deleted_segments_are_removed(harness: Any) -> None:
    log = filled(harness, retention_ms=HOUR)
    harness.run(delete_old_segments(log, 3 * HOUR + 1, 0))
    assert log.epochs.entries == ((2, 4), (3, 6))


def test_records_without_timestamps_age_by_file_modification_time(harness: Any) -> None:
    log = harness.create(retention_ms=1000)
    harness.append(log, timestamp=-1)
    log.high_watermark = log.log_end_offset
    assert harness.run(delete_old_segments(log, harness.now_ms + 1000, 0)) == []
    assert len(harness.run(delete_old_segments(log, harness.now_ms + 1001, 0))) == 1


def test_uncommitted_records_are_not_deleted(harness: Any) -> None:
    log = filled(harness, retention_ms=0)
    log.high_watermark = 3
    assert [segment.base_offset for segment in harness.run(delete_old_segments(log, DAY, 0))] == [0]


def test_lowered_retention_applies_to_the_next_check(harness: Any) -> None:
    log = filled(harness)
    assert harness.run(delete_old_segments(log, 2 * DAY, 0)) == []
    log.configure(LogConfig(segment_bytes=100, retention_ms=1))
    assert len(harness.run(delete_old_segments(log, 2 * DAY, 0))) == 4


def test_segments_before_an_advanced_log_start_offset_are_deleted(harness: Any) -> None:
    log = filled(harness, cleanup_policy=("compact",))
    log.advance_log_start_offset(5)
    assert [segment.reason for segment in harness.run(delete_old_segments(log, DAY, 0))] == [
        DeletionReason.START
    ] * 2
    assert (log.log_start_offset, log.segments[0].base_offset) == (5, 4)


def test_failed_directory_sync_fails_the_log(harness: Any) -> None:
    log = filled(harness, retention_ms=0)
    harness.files.fail_next_sync(5, name_end="orders-0")
    with pytest.raises(Exception, match="cannot sync"):
        harness.run(delete_old_segments(log, DAY, 0))
    assert log.failure is not None
    assert harness.failures


# Crashes.


class PowerCut(BaseException):
    """Simulates a power loss; must not be handled by the code under test."""


NAME_CHANGES = ("rename", "remove", "sync_dir", "open")


def cut_after(files: Any, steps: int) -> None:
    """Raise ``PowerCut`` after ``steps`` name changes."""
    for name in NAME_CHANGES:
        plain = getattr(files, name)

        def counted(*args: Any, _plain: Any = plain, _name: str = name, **how: Any) -> Any:
            nonlocal steps
            if _name != "open" or how.get("create"):
                if steps == 0:
                    raise PowerCut
                steps -= 1
            return _plain(*args, **how)

        setattr(files, name, counted)


@settings(max_examples=300)
@given(
    batches=st.integers(1, 6),
    flushed_after=st.integers(0, 6),
    retention_hours=st.integers(0, 6),
    steps=st.integers(0, 40),
    start_known=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_power_loss_at_any_step_of_retention_leaves_no_gap(
    new_harness: Any,
    new_entropy: Any,
    batches: int,
    flushed_after: int,
    retention_hours: int,
    steps: int,
    start_known: bool,
    seed: int,
) -> None:
    harness = new_harness()
    config = {"segment_bytes": 100, "retention_ms": retention_hours * HOUR, "file_delete_delay_ms": 0}
    log = harness.create(**config)
    flushed = 0
    harness.files.sync_dir("/data")
    for number in range(batches):
        harness.append(log, 2, timestamp=number * HOUR)
        if number + 1 == flushed_after:
            harness.run(log.flush())
            flushed = log.log_end_offset
    log.high_watermark = log.log_end_offset
    sent = harness.records(log)
    cut_after(harness.files, steps)
    try:
        asyncio.run(delete_old_segments(log, 6 * HOUR, 0))
        asyncio.run(delete_pending_segments(log, 0))
    except PowerCut:
        pass
    for name in NAME_CHANGES:
        delattr(harness.files, name)
    checkpointed = {"recovery_point": log.recovery_point}
    if start_known:
        checkpointed["log_start_offset"] = log.log_start_offset
    harness.files.crash(new_entropy(seed))
    again = harness.open(config, had_clean_shutdown=False, **checkpointed)
    assert again.log_end_offset >= flushed
    assert again.log_start_offset <= max(log.log_start_offset, again.log_end_offset)
    actual = harness.records(again)
    assert actual == [record for record in sent if again.log_start_offset <= record[0] < again.log_end_offset]
    again.high_watermark = end = again.log_end_offset
    harness.run(delete_old_segments(again, 6 * HOUR, 0))
    assert again.log_start_offset >= min(log.log_start_offset, end)
    assert harness.append(again, 1, timestamp=9 * HOUR) == end
