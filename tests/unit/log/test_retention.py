"""Which segments go, and how a log lets go of them."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.log.log_config import LogConfig
from odradek.log.retention import DeletionReason, LogStats, SegmentStats, find_deletable_segments

HOUR = 3_600_000
DAY = 24 * HOUR
BOTH = ("compact", "delete")


def segments_of(*segments: tuple[int, int]) -> list[SegmentStats]:
    """Of ten offsets each; given are size and newest timestamp."""
    last = len(segments) - 1
    return [
        SegmentStats(number * 10, number * 10 + 10 if size else number * 10, size, newest, number == last)
        for number, (size, newest) in enumerate(segments)
    ]


def due(
    segments: list[SegmentStats], now_ms: int = 0, *, start: int = 0, high: int = 10**9, **config: Any
) -> list[tuple[int, DeletionReason]]:
    of = LogStats(start, high, sum(one.size_bytes for one in segments))
    config = {"retention_ms": -1, **config}
    return [
        (one.base_offset, one.reason)
        for one in find_deletable_segments(segments, of, LogConfig(**config), now_ms)
    ]


# By time.


def test_a_segment_goes_when_its_newest_record_is_older_than_allowed() -> None:
    segments = segments_of((100, 1000), (100, 2000), (100, 3000))
    assert due(segments, 6000, retention_ms=5000) == []
    assert due(segments, 6001, retention_ms=5000) == [(0, DeletionReason.TIME)]
    assert due(segments, 7001, retention_ms=5000) == [(0, DeletionReason.TIME), (10, DeletionReason.TIME)]


def test_the_last_segment_goes_too_when_it_is_due_but_not_when_it_is_empty() -> None:
    assert len(due(segments_of((100, 1), (100, 2)), 5000, retention_ms=0)) == 2
    assert len(due(segments_of((100, 1), (0, 2)), 5000, retention_ms=0)) == 1
    assert due(segments_of((0, 1)), 5000, retention_ms=0) == []


def test_without_a_bound_nothing_goes() -> None:
    assert due(segments_of((100, 0), (100, 0)), 10**15, retention_ms=-1, retention_bytes=-1) == []


def test_a_clock_set_back_deletes_nothing() -> None:
    segments = segments_of((100, 50 * DAY), (100, 51 * DAY))
    assert due(segments, 2 * DAY, retention_ms=0) == []


def test_a_timestamp_ahead_of_the_clock_keeps_its_segment_and_those_behind_it() -> None:
    segments = segments_of((100, 1 * DAY), (100, 90 * DAY), (100, 2 * DAY), (100, 3 * DAY))
    assert due(segments, 30 * DAY, retention_ms=7 * DAY) == [(0, DeletionReason.TIME)]
    assert len(due(segments, 97 * DAY + 1, retention_ms=7 * DAY)) == 4


# By size.


def test_segments_go_while_enough_is_left_without_them() -> None:
    segments = segments_of((100, 0), (100, 0), (100, 0))
    assert due(segments, retention_bytes=201) == []
    assert due(segments, retention_bytes=200) == [(0, DeletionReason.SIZE)]
    assert due(segments, retention_bytes=101) == [(0, DeletionReason.SIZE)]
    assert len(due(segments, retention_bytes=0)) == 3


def test_what_went_by_time_counts_for_the_size() -> None:
    segments = segments_of((300, 0), (100, 9000), (100, 9000))
    assert due(segments, 9000, retention_ms=5000, retention_bytes=250) == [(0, DeletionReason.TIME)]


# By the start of the log.


def test_segments_before_the_start_go_under_every_policy() -> None:
    segments = segments_of((100, 0), (100, 0), (100, 0))
    for policy in [("delete",), ("compact",), BOTH]:
        assert due(segments, start=9, cleanup_policy=policy) == []
        assert due(segments, start=10, cleanup_policy=policy) == [(0, DeletionReason.START)]
        assert len(due(segments, start=30, cleanup_policy=policy)) == 2


def test_time_and_size_count_only_where_the_policy_says_delete() -> None:
    segments = segments_of((100, 0), (100, 0))
    bounds: dict[str, Any] = {"retention_ms": 0, "retention_bytes": 0}
    assert due(segments, 5000, cleanup_policy=("compact",), **bounds) == []
    assert len(due(segments, 5000, cleanup_policy=BOTH, **bounds)) == 2


def test_nothing_that_is_not_committed_goes() -> None:
    segments = segments_of((100, 0), (100, 0), (100, 0))
    for high, count in [(0, 0), (9, 0), (10, 1), (29, 2), (30, 3)]:
        assert len(due(segments, 5000, high=high, retention_ms=0)) == count


# The law: one pass does what Kafka does in three.


def three_passes(segments: list[SegmentStats], of: LogStats, config: LogConfig, now_ms: int) -> list[int]:
    left = list(segments)

    def take(is_due: Callable[[SegmentStats], bool]) -> None:
        while left and left[0].end_offset <= of.high_watermark and is_due(left[0]):
            if left[0].is_last and not left[0].size_bytes:
                break
            del left[0]

    take(lambda one: not one.is_last and one.end_offset <= of.log_start_offset)
    if "delete" in config.cleanup_policy:
        surplus = sum(one.size_bytes for one in left) - config.retention_bytes

        def too_much(one: SegmentStats) -> bool:
            nonlocal surplus
            if surplus < one.size_bytes:
                return False
            surplus -= one.size_bytes
            return True

        if config.retention_bytes >= 0 and surplus >= 0:
            take(too_much)
        if config.retention_ms >= 0:
            take(lambda one: now_ms - one.newest_ms > config.retention_ms)
    return [one.base_offset for one in segments[: len(segments) - len(left)]]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 20)), min_size=1, max_size=6),
    st.just(0) | st.integers(0, 60),
    st.just(1000) | st.integers(0, 60),
    st.integers(-1, 25),
    st.integers(-1, 20),
    st.integers(0, 30),
    st.sampled_from([("delete",), ("compact",), BOTH]),
)
def test_what_goes_is_what_kafka_would_delete(
    given_segments: list[tuple[int, int]],
    start: int,
    high: int,
    retention_bytes: int,
    retention_ms: int,
    now_ms: int,
    policy: tuple[str, ...],
) -> None:
    segments = segments_of(*given_segments)
    of = LogStats(start, high, sum(one.size_bytes for one in segments))
    config = LogConfig(retention_bytes=retention_bytes, retention_ms=retention_ms, cleanup_policy=policy)
    found = find_deletable_segments(iter(segments), of, config, now_ms)
    assert [one.base_offset for one in found] == three_passes(segments, of, config, now_ms)


# The log.


def filled(bench: Any, batches: int = 4, **config: Any) -> Any:
    """A log with a batch a segment, an hour apart, all committed."""
    log = bench.create(segment_bytes=100, **config)
    for number in range(batches):
        bench.append(log, 2, timestamp=number * HOUR, leader_epoch=number)
    log.high_watermark = log.log_end_offset
    return log


def names(bench: Any, ending: str = "") -> list[str]:
    return sorted(name for name in bench.files.list_files("/data/orders-0") if name.endswith(ending))


def test_files_are_renamed_at_once_and_removed_after_the_delay(bench: Any) -> None:
    log = filled(bench, retention_ms=HOUR, file_delete_delay_ms=500)
    gone = bench.run(log.delete_old_segments(2 * HOUR + 1, 1000))
    assert [(one.base_offset, one.reason) for one in gone] == [(0, DeletionReason.TIME)]
    assert (log.log_start_offset, log.segments[0].base_offset) == (2, 2)
    zeros = "00000000000000000000"
    assert names(bench, ".deleted") == [f"{zeros}.{end}.deleted" for end in ("index", "log", "timeindex")]
    assert bench.run(log.delete_pending_segments(1499)) == 0
    assert names(bench, ".deleted") != []
    assert bench.run(log.delete_pending_segments(1500)) == 1
    assert bench.run(log.delete_pending_segments(1500)) == 0
    assert not [name for name in names(bench) if name.startswith(zeros)]


def test_whoever_reads_a_segment_that_goes_reads_on(bench: Any) -> None:
    log = filled(bench, retention_ms=0, file_delete_delay_ms=0)
    before = bench.records(log)[:2]
    data = log.read(0, 1 << 20).data
    content = data.read()
    bench.run(log.delete_old_segments(DAY, 0))
    bench.run(log.delete_pending_segments(0))
    assert data.read() == content
    assert [one[0] for one in before] == [0, 1]


def test_when_all_is_due_the_log_goes_on_at_its_end(bench: Any) -> None:
    log = filled(bench, retention_ms=0)
    assert len(bench.run(log.delete_old_segments(DAY, 0))) == 4
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (8, 8, 8)
    assert len(log.segments) == 1
    assert bench.run(log.delete_old_segments(2 * DAY, 0)) == []
    assert bench.append(log, 2, timestamp=DAY) == 8
    assert [one[0] for one in bench.records(log)] == [8, 9]
    bench.run(log.close())
    assert (bench.open().log_start_offset, bench.open().log_end_offset) == (8, 10)


def test_the_last_segment_goes_on_when_others_go(bench: Any) -> None:
    log = filled(bench, retention_ms=HOUR)
    last = log.segments[-1]
    bench.run(log.delete_old_segments(3 * HOUR + 1, 0))
    assert log.segments[-1] is last


def test_epochs_of_what_is_gone_go_too(bench: Any) -> None:
    log = filled(bench, retention_ms=HOUR)
    bench.run(log.delete_old_segments(3 * HOUR + 1, 0))
    assert log.epochs.entries == ((2, 4), (3, 6))


def test_records_without_timestamps_age_by_their_files(bench: Any) -> None:
    log = bench.create(retention_ms=1000)
    bench.append(log, timestamp=-1)
    log.high_watermark = log.log_end_offset
    assert bench.run(log.delete_old_segments(bench.now_ms + 1000, 0)) == []
    assert len(bench.run(log.delete_old_segments(bench.now_ms + 1001, 0))) == 1


def test_what_is_not_committed_stays(bench: Any) -> None:
    log = filled(bench, retention_ms=0)
    log.high_watermark = 3
    assert [one.base_offset for one in bench.run(log.delete_old_segments(DAY, 0))] == [0]


def test_a_lowered_bound_holds_at_the_next_look(bench: Any) -> None:
    log = filled(bench)
    assert bench.run(log.delete_old_segments(2 * DAY, 0)) == []
    log.configure(LogConfig(segment_bytes=100, retention_ms=1))
    assert len(bench.run(log.delete_old_segments(2 * DAY, 0))) == 4


def test_segments_before_a_moved_start_go(bench: Any) -> None:
    log = filled(bench, cleanup_policy=("compact",))
    log.advance_log_start_offset(5)
    assert [one.reason for one in bench.run(log.delete_old_segments(DAY, 0))] == [DeletionReason.START] * 2
    assert (log.log_start_offset, log.segments[0].base_offset) == (5, 4)


def test_a_failed_sync_of_the_names_fails_the_log(bench: Any) -> None:
    log = filled(bench, retention_ms=0)
    bench.files.fail_next_sync(5, name_end="orders-0")
    with pytest.raises(Exception, match="cannot sync"):
        bench.run(log.delete_old_segments(DAY, 0))
    assert log.failure is not None
    assert bench.failures


# Crashes.


class PowerCut(BaseException):
    """Nobody gets to handle it."""


NAME_CHANGES = ("rename", "remove", "sync_dir", "open")


def cut_after(files: Any, steps: int) -> None:
    """Lose power at one of the changes of names to come, or at none if there are fewer."""
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
def test_power_lost_at_any_step_leaves_the_end_of_the_log_and_no_hole(
    new_bench: Any,
    new_chance: Any,
    batches: int,
    flushed_after: int,
    retention_hours: int,
    steps: int,
    start_known: bool,
    seed: int,
) -> None:
    bench = new_bench()
    config = {"segment_bytes": 100, "retention_ms": retention_hours * HOUR, "file_delete_delay_ms": 0}
    log = bench.create(**config)
    flushed = 0
    bench.files.sync_dir("/data")
    for number in range(batches):
        bench.append(log, 2, timestamp=number * HOUR)
        if number + 1 == flushed_after:
            bench.run(log.flush())
            flushed = log.log_end_offset
    log.high_watermark = log.log_end_offset
    sent = bench.records(log)
    cut_after(bench.files, steps)
    try:
        asyncio.run(log.delete_old_segments(6 * HOUR, 0))
        asyncio.run(log.delete_pending_segments(0))
    except PowerCut:
        pass
    for name in NAME_CHANGES:
        delattr(bench.files, name)
    known = {"recovery_point": log.recovery_point}
    if start_known:
        known["log_start_offset"] = log.log_start_offset
    bench.files.crash(new_chance(seed))
    again = bench.open(config, had_clean_shutdown=False, **known)
    assert again.log_end_offset >= flushed
    assert again.log_start_offset <= max(log.log_start_offset, again.log_end_offset)
    found = bench.records(again)
    assert found == [one for one in sent if again.log_start_offset <= one[0] < again.log_end_offset]
    again.high_watermark = end = again.log_end_offset
    bench.run(again.delete_old_segments(6 * HOUR, 0))
    assert again.log_start_offset >= min(log.log_start_offset, end)
    assert bench.append(again, 1, timestamp=9 * HOUR) == end
