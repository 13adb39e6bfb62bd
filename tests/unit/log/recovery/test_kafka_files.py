"""A segment written by Apache Kafka 3.9.1: reads and rebuilt indexes."""

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


def _write_files(harness: Any, *, indexes: bool) -> None:
    harness.files.make_directories(harness.path("."))
    harness.files.write_whole(harness.path(file_name(100, ".log")), LOG)
    if indexes:
        harness.files.write_whole(harness.path(file_name(100, ".index")), OFFSET_INDEX)
        harness.files.write_whole(harness.path(file_name(100, ".timeindex")), TIME_INDEX)


def test_kafka_segment_is_opened_and_read(harness: Any) -> None:
    _write_files(harness, indexes=True)
    log = harness.open(CONFIG)
    assert (log.log_start_offset, log.log_end_offset) == (100, 112)
    assert [value for _, _, value in harness.records(log)] == VALUES
    assert log.segments.find_offset_by_timestamp(2500, log.log_start_offset) == TimestampOffset(3000, 102, 4)
    assert log.segments.find_offset_by_timestamp(5001, log.log_start_offset) == TimestampOffset(5001, 107, 5)
    assert log.segments.find_max_timestamp() == TimestampOffset(6001, 111, 5)


def test_rebuilt_indexes_equal_those_of_kafka(harness: Any) -> None:
    _write_files(harness, indexes=False)
    log = harness.open(CONFIG, had_clean_shutdown=False)
    assert harness.recovered.problem is None
    assert log.epochs.entries == ((4, 100), (5, 106))
    assert OFFSETS.count(OFFSET_INDEX) > 1
    assert TIMES.count(TIME_INDEX) > 1
    assert harness.files.read_whole(harness.path(file_name(100, ".index"))) == OFFSET_INDEX
    assert harness.files.read_whole(harness.path(file_name(100, ".timeindex"))) == TIME_INDEX


def test_appended_batches_get_the_indexes_of_kafka(harness: Any) -> None:
    harness.files.make_directories(harness.path("."))
    log = harness.open(CONFIG, log_start_offset=100)
    log.append_as_follower(bytearray(LOG), 5, harness.now_ms)
    harness.run(log.close())
    assert harness.files.read_whole(harness.path(file_name(100, ".log"))) == LOG
    assert harness.files.read_whole(harness.path(file_name(100, ".index"))) == OFFSET_INDEX
    assert harness.files.read_whole(harness.path(file_name(100, ".timeindex"))) == TIME_INDEX
