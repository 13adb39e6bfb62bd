"""Lookups on a thread: results, and the number of segments they read."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.log.conftest import LogHarness

from odradek.log.log import Log
from odradek.log.segments import page_in
from odradek.log.segments.segment_copy import SegmentCopy


def _fill(harness: Any, segment_timestamps: list[int]) -> Log:
    """Create a log with one segment per timestamp."""
    log: Log = harness.create()
    for number, timestamp in enumerate(segment_timestamps):
        if number:
            log.roll(harness.now_ms)
        harness.append(log, timestamp=timestamp)
    return log


def _find(log: Log, timestamp: int) -> Any:
    return asyncio.run(page_in.find_offset_by_timestamp(log.segments, timestamp, log.log_start_offset))


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.lists(st.integers(0, 32), max_size=4))
def test_timestamp_lookup_on_a_thread_equals_the_direct_one(
    segment_timestamps: list[int], timestamps: list[int]
) -> None:
    log = _fill(LogHarness(), segment_timestamps)
    for timestamp in timestamps:
        assert _find(log, timestamp) == log.segments.find_offset_by_timestamp(timestamp, log.log_start_offset)


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the base offsets of all segments that are copied for a thread."""
    base_offsets: list[int] = []
    original_init = SegmentCopy.__init__

    def record(self: SegmentCopy, original: Any, context: Any) -> None:
        base_offsets.append(original.base_offset)
        original_init(self, original, context)

    monkeypatch.setattr(SegmentCopy, "__init__", record)
    return base_offsets


@pytest.mark.sources
def test_timestamp_lookup_reads_only_candidate_segments(harness: Any, copied: list[int]) -> None:
    log = _fill(harness, [1000 + number for number in range(50)])
    assert _find(log, 1030).offset == 30
    assert copied == [30, 31]


@pytest.mark.sources
def test_timestamps_are_loaded_once(harness: Any, copied: list[int]) -> None:
    log = _fill(harness, [1000 + number for number in range(50)])
    asyncio.run(log.close())
    log = harness.open(recovery_point=50)
    assert _find(log, 1048).offset == 48
    assert len(copied) == 49 + 2
    copied.clear()
    assert _find(log, 1020).offset == 20
    assert copied == [20, 21]
