from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.log.segments.log_segment import LogSegment, TimestampOffset
from odradek.log.segments.log_segments import LogSegments


class TimedSegment:
    """Stub of a segment for timestamp lookups; counts its reads."""

    def __init__(self, base_offset: int, largest_timestamp: int) -> None:
        self.base_offset = base_offset
        self.time = largest_timestamp
        self.reads = 0

    def largest_timestamp(self) -> int:
        self.reads += 1
        return self.time

    def find_offset_by_timestamp(self, timestamp: int, from_offset: int) -> TimestampOffset | None:
        matches = self.time >= timestamp and self.base_offset >= from_offset
        return TimestampOffset(self.time, self.base_offset) if matches else None


def _list_of(segments: list[TimedSegment]) -> LogSegments:
    return LogSegments([cast(LogSegment, segment) for segment in segments])


def _linear_search(segments: LogSegments, timestamp: int, from_offset: int) -> TimestampOffset | None:
    records = (segment.find_offset_by_timestamp(timestamp, from_offset) for segment in segments)
    return next((record for record in records if record is not None), None)


times = st.integers(0, 30)
changes = st.one_of(
    st.tuples(st.just("add"), times),
    st.tuples(st.just("drop_first"), st.integers(0, 3)),
    st.tuples(st.just("drop_after"), st.integers(0, 200)),
    st.tuples(st.just("find"), times),
)


@pytest.mark.sources
@given(st.lists(times, min_size=1, max_size=12), st.lists(changes, max_size=20), st.integers(0, 100))
def test_timestamp_lookup_equals_a_linear_search(
    initial: list[int], operations: list[tuple[str, int]], from_offset: int
) -> None:
    segments = _list_of([TimedSegment(number * 10, time) for number, time in enumerate(initial)])
    for operation, argument in operations:
        if operation == "add":
            segments.add(cast(LogSegment, TimedSegment(segments[-1].base_offset + 10, argument)))
        elif operation == "drop_first":
            segments.drop_first(argument)
        elif operation == "drop_after":
            segments.drop_after(argument)
        assert segments.find_offset_by_timestamp(argument, from_offset) == _linear_search(
            segments, argument, from_offset
        )


@pytest.mark.sources
def test_second_timestamp_lookup_reads_few_segments() -> None:
    timed = [TimedSegment(number * 10, 1000 + number) for number in range(1000)]
    segments = _list_of(timed)
    segments.find_offset_by_timestamp(1990, 0)
    before = sum(segment.reads for segment in timed)
    assert segments.find_offset_by_timestamp(1500, 0) == TimestampOffset(1500, 5000)
    assert sum(segment.reads for segment in timed) - before == 1


@pytest.mark.sources
def test_contains_run_of_consecutive_sealed_segments() -> None:
    first, second, third = (TimedSegment(base_offset, base_offset) for base_offset in (0, 10, 20))
    segments = _list_of([first, second, third])
    assert segments.contains_run([cast(LogSegment, first), cast(LogSegment, second)])
    assert not segments.contains_run([cast(LogSegment, second), cast(LogSegment, third)])
    assert not segments.contains_run([cast(LogSegment, TimedSegment(0, 0))])
    assert not segments.contains_run([cast(LogSegment, first), cast(LogSegment, TimedSegment(10, 10))])


@pytest.mark.sources
def test_timestamp_lookup_after_the_oldest_segments_are_dropped() -> None:
    segments = _list_of([TimedSegment(number * 10, number) for number in range(5)])
    assert segments.find_offset_by_timestamp(4, 0) == TimestampOffset(4, 40)
    segments.drop_first(2)
    for number in (2, 3, 4):
        assert segments.find_offset_by_timestamp(number, 0) == TimestampOffset(number, number * 10)
