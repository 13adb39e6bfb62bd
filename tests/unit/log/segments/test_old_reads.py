"""Reads at old offsets: the number of file operations, and no index of another segment's time is used."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from odradek.log.log import Log
from odradek.log.segments import page_in
from odradek.log.segments.log_segment import (
    OPEN_SEGMENTS_MAX,
    OPEN_SEGMENTS_MIN,
    WINDOW_BYTES,
    NotCached,
    OpenSegments,
    WouldBlock,
)
from odradek.log.segments.offset_index import PAGE_BYTES
from odradek.records.codec import decode
from odradek.testing.files import MemoryFile

BATCHES = 2000  # with an index entry for each, more than three pages
DENSE = {"index_interval_bytes": 0}


def _fill(harness: Any, segments: int, batches: int, **config: Any) -> Any:
    """Create a log with some sealed segments of one-record batches, and an empty active one."""
    log: Log = harness.create(**DENSE, **config)
    for _ in range(segments):
        for _ in range(batches):
            harness.append(log)
        log.roll(harness.now_ms)
    return log


@pytest.fixture
def operations(monkeypatch: pytest.MonkeyPatch, harness: Any) -> list[str]:
    """Record reads, probes and opened files."""
    recorded: list[str] = []

    def record(owner: Any, name: str) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        def recording(self: Any, *arguments: Any, **options: Any) -> Any:
            path = arguments[0] if isinstance(arguments[0], str) else self.path
            recorded.append(f"{name} {path[path.rindex('.') :]}")
            return original(self, *arguments, **options)

        monkeypatch.setattr(owner, name, recording)

    for name in ("read_at", "read_cached", "is_cached"):
        record(MemoryFile, name)
    for name in ("open", "open_cached", "read_whole"):
        record(type(harness.files), name)
    return recorded


def _reading(log: Any, offset: int) -> Callable[[bool], Any]:
    return lambda may_block: log.read(offset, 1, may_block=may_block)


def _read(log: Any, offset: int, **options: Any) -> list[int]:
    data = log.read(offset, 1, may_block=False, **options).data
    return [record.offset for record in decode(data if isinstance(data, bytes) else data.read())]


@pytest.mark.sources
def test_old_offset_is_found_with_one_read(harness: Any, operations: list[str]) -> None:
    log = _fill(harness, segments=20, batches=20)
    offsets = range(0, 400, 7)
    for offset in offsets:
        _read(log, offset)
    operations.clear()
    for offset in offsets:
        assert log.read(offset, 1, may_block=False).data.starts_cached(1 << 20)
    # MemoryFile.read_cached probes and reads in turn.
    assert operations == ["read_cached .log", "is_cached .log", "read_at .log"] * len(offsets)


def test_only_what_the_search_has_read_is_not_probed_again(harness: Any) -> None:
    log = _fill(harness, segments=1, batches=BATCHES)
    asyncio.run(page_in.load(log.segments, NotCached(0)))
    for bytes_max, is_recent in ((1, True), (1000, True), (WINDOW_BYTES + 1, False), (1 << 20, False)):
        assert log.read(0, bytes_max, may_block=False).data.is_recent is is_recent


@pytest.mark.sources
def test_first_read_of_a_segment_opens_two_files_and_needs_no_thread(
    harness: Any, operations: list[str]
) -> None:
    log = _fill(harness, segments=2, batches=20)
    operations.clear()
    assert _read(log, 25) == [25]
    assert [each for each in operations if "open_cached" in each] == [
        "open_cached .index",
        "open_cached .log",
    ]
    operations.clear()
    assert _read(log, 26) == [26]
    assert [each for each in operations if "open" in each] == []


@pytest.mark.sources
def test_page_of_a_large_index_is_read_once(harness: Any, operations: list[str]) -> None:
    log = _fill(harness, segments=1, batches=BATCHES)
    assert harness.files.size_of(log.segments[0].path(".index")) > 3 * PAGE_BYTES
    with pytest.raises(NotCached):
        log.read(0, 1, may_block=False)  # a large index is read by a thread
    asyncio.run(page_in.load(log.segments, NotCached(0)))
    operations.clear()
    for offset in range(BATCHES):
        assert _read(log, offset) == [offset]
    assert operations.count("read_cached .index") == 3
    assert not [each for each in operations if "open" in each]


@pytest.mark.parametrize("batches", [20, BATCHES], ids=["small index", "large index"])
@pytest.mark.parametrize("suffix", [".log", ".index"])
def test_evicted_pages_are_read_on_a_thread(harness: Any, batches: int, suffix: str) -> None:
    log = _fill(harness, segments=1, batches=batches)
    for offset in (0, batches // 2, batches - 1):
        log.segments[0].release()
        harness.files.evict_from_cache(log.segments[0].path(suffix))
        with pytest.raises(WouldBlock):
            log.read(offset, 1, may_block=False)
        fetched = asyncio.run(page_in.read(log.segments, _reading(log, offset)))
        assert decode(fetched.data.read())[0].offset == offset
    assert harness.files.blocking_reads == 0


def test_end_of_a_read_is_not_searched_on_the_event_loop(harness: Any) -> None:
    log = _fill(harness, segments=1, batches=BATCHES)
    segment = log.segments[0]
    segment.release()
    harness.files.evict_from_cache(segment.path(".log"))
    harness.files.evict_from_cache(segment.path(".index"))
    end_offset = BATCHES - 10
    fetched = asyncio.run(
        page_in.read(log.segments, lambda may_block: log.read(5, 1 << 20, end_offset, may_block=may_block))
    )
    assert harness.files.blocking_reads == 0
    assert decode(fetched.data.read())[-1].offset == end_offset - 1


# Stale indexes.


def _all_offsets(log: Any) -> list[int]:
    offsets, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        read = asyncio.run(page_in.read(log.segments, _reading(log, offset)))
        offsets += [record.offset for record in decode(read.data.read()) if record.offset >= offset]
        offset = offsets[-1] + 1
    return offsets


@pytest.mark.parametrize("batches", [20, BATCHES], ids=["small index", "large index"])
def test_index_from_before_a_truncation_is_not_used(harness: Any, batches: int) -> None:
    log = _fill(harness, segments=1, batches=batches)
    assert _all_offsets(log)[-1] == batches - 1
    log.truncate_to(5, harness.now_ms)
    for _ in range(batches // 3):
        harness.append(log, 3)
    log.roll(harness.now_ms)
    assert _all_offsets(log) == list(range(log.log_end_offset))


@pytest.mark.parametrize("batches", [20, BATCHES], ids=["small index", "large index"])
def test_index_read_during_a_truncation_is_not_used(harness: Any, batches: int) -> None:
    log = _fill(harness, segments=1, batches=batches)
    harness.files.evict_from_cache(log.segments[0].path(".index"))
    offload_read = harness.files.offload_read

    async def truncate_meanwhile(work: Callable[[], Any]) -> Any:
        harness.files.offload_read = offload_read
        try:
            return await offload_read(work)
        finally:
            log.truncate_to(5, harness.now_ms)
            for _ in range(batches // 3):
                harness.append(log, 3)
            log.roll(harness.now_ms)

    harness.files.offload_read = truncate_meanwhile
    asyncio.run(page_in.load(log.segments, NotCached(batches // 2)))
    assert log.segments[0]._offsets is None
    assert _all_offsets(log) == list(range(log.log_end_offset))


def test_index_read_while_it_was_rebuilt_is_not_used(harness: Any) -> None:
    log = _fill(harness, segments=1, batches=20)
    segment = log.segments[0]
    rebuilt = segment.scan().indexes
    offload_read = harness.files.offload_read

    async def rebuild_meanwhile(work: Callable[[], Any]) -> Any:
        try:
            return await offload_read(work)
        finally:
            segment.set_indexes(rebuilt)

    harness.files.offload_read = rebuild_meanwhile
    asyncio.run(page_in.load(log.segments, NotCached(3)))
    assert segment.offset_index() is rebuilt.offsets


def test_invalid_index_in_the_page_cache_is_rebuilt(harness: Any) -> None:
    log = _fill(harness, segments=1, batches=20)
    path = log.segments[0].path(".index")
    sound = harness.files.read_whole(path)
    harness.files.write_whole(path, sound[:-3])
    assert _all_offsets(log) == list(range(20))
    assert harness.files.read_whole(path) == sound


def test_rebuilt_index_is_kept_only_until_it_is_written(harness: Any) -> None:
    log = _fill(harness, segments=1, batches=BATCHES)
    segment = log.segments[0]
    harness.files.remove(segment.path(".index"))
    assert _all_offsets(log) == list(range(BATCHES))
    assert harness.files.size_of(segment.path(".index")) > 3 * PAGE_BYTES
    assert segment._offsets.kept_bytes < 2 * PAGE_BYTES
    assert segment._times is None


# Bounds.


def test_open_segments_are_bounded_by_the_limit_on_open_files() -> None:
    def limit(open_files_max: int, directories: int = 1) -> int:
        return OpenSegments.for_directory(open_files_max, directories).limit

    assert limit(20_000) == 2_500
    assert limit(20_000, 4) == 625
    assert limit(1024) == 128
    assert limit(100) == OPEN_SEGMENTS_MIN
    assert limit(1 << 20) == OPEN_SEGMENTS_MAX


def test_read_beyond_the_bound_needs_no_thread(harness: Any) -> None:
    harness.opened = OpenSegments(3)
    log = _fill(harness, segments=10, batches=3)
    harness.files.offload_read = None
    for _ in range(2):
        for offset in range(30):
            assert _read(log, offset) == [offset]
            assert len(harness.opened) <= 3
    assert sum(segment._file is not None or segment._offsets is not None for segment in log.segments) <= 4
