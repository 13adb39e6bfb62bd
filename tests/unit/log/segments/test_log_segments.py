from __future__ import annotations

from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from odradek.log.segments.log_segment import LogSegment, TimestampOffset
from odradek.log.segments.log_segments import LogSegments


class TimedSegment:
    """As much of a segment as a search by time asks for; counts how often it is asked."""

    def __init__(self, base_offset: int, newest_ms: int) -> None:
        self.base_offset = base_offset
        self.time = newest_ms
        self.asked = 0

    def newest_ms(self) -> int:
        self.asked += 1
        return self.time

    def find_time(self, timestamp: int, from_offset: int) -> TimestampOffset | None:
        found = self.time >= timestamp and self.base_offset >= from_offset
        return TimestampOffset(self.time, self.base_offset) if found else None


def _list_of(segments: list[TimedSegment]) -> LogSegments:
    return LogSegments([cast(LogSegment, segment) for segment in segments])


def _go_through(segments: LogSegments, timestamp: int, from_offset: int) -> TimestampOffset | None:
    found = (segment.find_time(timestamp, from_offset) for segment in segments)
    return next((one for one in found if one is not None), None)


times = st.integers(0, 30)
changes = st.one_of(
    st.tuples(st.just("add"), times),
    st.tuples(st.just("drop_first"), st.integers(0, 3)),
    st.tuples(st.just("drop_after"), st.integers(0, 200)),
    st.tuples(st.just("find"), times),
)


@given(st.lists(times, min_size=1, max_size=12), st.lists(changes, max_size=20), st.integers(0, 100))
def test_a_search_by_time_finds_what_going_through_all_segments_finds(
    at_first: list[int], then: list[tuple[str, int]], from_offset: int
) -> None:
    segments = _list_of([TimedSegment(number * 10, time) for number, time in enumerate(at_first)])
    for what, argument in then:
        if what == "add":
            segments.add(cast(LogSegment, TimedSegment(segments[-1].base_offset + 10, argument)))
        elif what == "drop_first":
            segments.drop_first(argument)
        elif what == "drop_after":
            segments.drop_after(argument)
        assert segments.find_time(argument, from_offset) == _go_through(segments, argument, from_offset)


def test_a_second_search_by_time_asks_few_of_many_segments() -> None:
    timed = [TimedSegment(number * 10, 1000 + number) for number in range(1000)]
    segments = _list_of(timed)
    segments.find_time(1990, 0)
    before = sum(segment.asked for segment in timed)
    assert segments.find_time(1500, 0) == TimestampOffset(1500, 5000)
    assert sum(segment.asked for segment in timed) - before == 1


def test_segments_can_be_replaced_while_they_are_all_here_and_none_is_the_last() -> None:
    one, two, three = (TimedSegment(base_offset, [base_offset]) for base_offset in (0, 10, 20))
    segments = _list_of([one, two, three])
    assert segments.holds([cast(LogSegment, one), cast(LogSegment, two)])
    assert not segments.holds([cast(LogSegment, two), cast(LogSegment, three)])
    assert not segments.holds([cast(LogSegment, TimedSegment(0, [0]))])
    assert not segments.holds([cast(LogSegment, one), cast(LogSegment, TimedSegment(10, [10]))])


def test_a_search_by_time_after_the_oldest_segments_went_begins_with_those_that_are_left() -> None:
    segments = _list_of([TimedSegment(number * 10, number) for number in range(5)])
    assert segments.find_time(4, 0) == TimestampOffset(4, 40)
    segments.drop_first(2)
    for number in (2, 3, 4):
        assert segments.find_time(number, 0) == TimestampOffset(number, number * 10)
