"""Searches that run on a thread first: what they find, and how few segments they look into."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.log.conftest import Bench

from odradek.log.log import Log
from odradek.log.segments import page_in
from odradek.log.segments.page_in import SegmentCopy


def _fill(bench: Any, times: list[int]) -> Log:
    """A log of one segment for each time, and the last with it."""
    log: Log = bench.create()
    for number, time in enumerate(times):
        if number:
            log.roll(bench.now_ms)
        bench.append(log, timestamp=time)
    return log


def _find(log: Log, timestamp: int) -> Any:
    return asyncio.run(page_in.find_time(log.segments, timestamp, log.log_start_offset))


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.lists(st.integers(0, 32), max_size=4))
def test_a_thread_finds_the_time_that_the_loop_would_find(times: list[int], wanted: list[int]) -> None:
    log = _fill(Bench(), times)
    for timestamp in wanted:
        assert _find(log, timestamp) == log.offset_for_timestamp(timestamp)


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The base offsets of all segments that were copied for a thread."""
    seen: list[int] = []
    make = SegmentCopy.__init__

    def note(self: SegmentCopy, original: Any, place: Any) -> None:
        seen.append(original.base_offset)
        make(self, original, place)

    monkeypatch.setattr(SegmentCopy, "__init__", note)
    return seen


def test_a_search_by_time_looks_into_the_segments_that_reach_it_only(bench: Any, copied: list[int]) -> None:
    log = _fill(bench, [1000 + number for number in range(50)])
    assert _find(log, 1030).offset == 30
    assert copied == [30, 31]


def test_times_that_nobody_knows_are_read_once(bench: Any, copied: list[int]) -> None:
    log = _fill(bench, [1000 + number for number in range(50)])
    asyncio.run(log.close())
    log = bench.open(recovery_point=50)
    assert _find(log, 1048).offset == 48
    assert len(copied) == 49 + 2
    copied.clear()
    assert _find(log, 1020).offset == 20
    assert copied == [20, 21]
