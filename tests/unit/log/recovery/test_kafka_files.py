"""A segment that Apache Kafka 3.9.1 wrote: read here, and its indexes rebuilt to the byte."""

import base64
from typing import Any

from odradek.log.segments.log_segment import TimestampOffset
from odradek.log.segments.segment_format import OFFSETS, TIMES, file_name

LOG = base64.b64decode(
    """
AAAAAAAAAGQAAABCAAAABAJ+xvFTAAAAAAABAAAAAAAAA+gAAAAAAAAD6f//////////////////AAAAAhIAAAACawR2MAAMAAIC
AQEAAAAAAAAAAGYAAABCAAAABAKXdlVWAAAAAAABAAAAAAAAC7gAAAAAAAALuf//////////////////AAAAAhIAAAACawR2MQAM
AAICAQEAAAAAAAAAAGgAAABWAAAABAJnQkAJAAEAAAABAAAAAAAAB9AAAAAAAAAH0f//////////////////AAAAAh+LCAAAAAAA
AP8TYmBgYMpmKTNi4GFgYmJkZAAAqkHndxEAAAAAAAAAAAAAagAAAEIAAAAFAquqky0AAAAAAAEAAAAAAAATiAAAAAAAABOJ////
//////////////8AAAACEgAAAAJrBHYzAAwAAgIBAQAAAAAAAAAAbAAAAEIAAAAFAk06vHwAAAAAAAEAAAAAAAAPoAAAAAAAAA+h
//////////////////8AAAACEgAAAAJrBHY0AAwAAgIBAQAAAAAAAAAAbgAAAEIAAAAFAsieVukAAAAAAAEAAAAAAAAXcAAAAAAA
ABdx//////////////////8AAAACEgAAAAJrBHY1AAwAAgIBAQA=
"""
)
OFFSET_INDEX = bytes.fromhex("000000050000009c000000090000014c")
TIME_INDEX = bytes.fromhex("0000000000000bb90000000300000000000013890000000700000000000017710000000b")
CONFIG = {"index_interval_bytes": 150}
VALUES = [value for number in range(6) for value in (b"v%d" % number, None)]


def _put(bench: Any, *, indexes: bool) -> None:
    bench.files.make_directories(bench.path("."))
    bench.files.write_whole(bench.path(file_name(100, ".log")), LOG)
    if indexes:
        bench.files.write_whole(bench.path(file_name(100, ".index")), OFFSET_INDEX)
        bench.files.write_whole(bench.path(file_name(100, ".timeindex")), TIME_INDEX)


def test_it_is_opened_and_read(bench: Any) -> None:
    _put(bench, indexes=True)
    log = bench.open(CONFIG)
    assert (log.log_start_offset, log.log_end_offset) == (100, 112)
    assert [value for _, _, value in bench.records(log)] == VALUES
    assert log.offset_for_timestamp(2500) == TimestampOffset(3000, 102, 4)
    assert log.offset_for_timestamp(5001) == TimestampOffset(5001, 107, 5)
    assert log.offset_of_max_timestamp() == TimestampOffset(6001, 111, 5)


def test_its_indexes_are_rebuilt_to_the_byte(bench: Any) -> None:
    _put(bench, indexes=False)
    log = bench.open(CONFIG, had_clean_shutdown=False)
    assert bench.recovered.problem is None
    assert log.epochs.entries == ((4, 100), (5, 106))
    assert OFFSETS.count(OFFSET_INDEX) > 1
    assert TIMES.count(TIME_INDEX) > 1
    assert bench.files.read_whole(bench.path(file_name(100, ".index"))) == OFFSET_INDEX
    assert bench.files.read_whole(bench.path(file_name(100, ".timeindex"))) == TIME_INDEX


def test_what_is_appended_here_has_the_indexes_that_it_would_have_there(bench: Any) -> None:
    bench.files.make_directories(bench.path("."))
    log = bench.open(CONFIG, log_start_offset=100)
    log.append_as_follower(bytearray(LOG), 5, bench.now_ms)
    bench.run(log.close())
    assert bench.files.read_whole(bench.path(file_name(100, ".log"))) == LOG
    assert bench.files.read_whole(bench.path(file_name(100, ".index"))) == OFFSET_INDEX
    assert bench.files.read_whole(bench.path(file_name(100, ".timeindex"))) == TIME_INDEX
