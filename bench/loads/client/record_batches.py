"""Magic 2 batches encoded and decoded by the codec of one client, without a broker.

Encoding: records one by one into batches of 16 KB, finished with the CRC. Decoding: a megabyte of such
batches, with CRC check and one object per record with key and value as bytes; ours in lists of 500, as from a
poll, the others one by one. All codecs decode the same bytes, and results are verified before the clock
starts. Keys have 12 bytes; uncompressed, because the codec is compared, not zstd.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from bench.loads.values import values
from bench.loads.worker import Result, Spec, serve
from bench.meter import Meter

BATCH_BYTES = 16 * 1024
FETCH_BYTES = 1024 * 1024
POLL_RECORDS = 500
VALUES = 1_000
FIRST_MS = 1_700_000_000_000

Row = tuple[int, bytes, bytes]
Writer = Callable[[list[Row]], list[Any]]
"""Returns the finished batches."""
Look = Callable[[Iterable[Any]], int]
"""Iterates over records and counts them."""
Reader = Callable[[bytes, Look], int]


def _write_odradek(rows: list[Row]) -> list[Any]:
    from odradek.records.client.producer import ProducerBatch

    sent = []
    batch = ProducerBatch("t", 0, BATCH_BYTES, 0)
    for timestamp, key, value in rows:
        if batch.append(timestamp, key, value, None) is None:
            sent.append(batch.finish(0, -1, -1, -1))
            batch = ProducerBatch("t", 0, BATCH_BYTES, 0)
            batch.append(timestamp, key, value, None)
    sent.append(batch.finish(0, -1, -1, -1))
    return sent


def _read_odradek(fetched: bytes, look: Look) -> int:
    from odradek.records.client.consumer import RecordReader

    reader = RecordReader(fetched, "t", 0, 0)
    count = 0
    while not reader.exhausted:
        count += look(reader.take(POLL_RECORDS))
    return count


def _write_with(make: Callable[[], Any], rows: list[Row]) -> list[Any]:
    sent = []
    builder, count = make(), 0
    for timestamp, key, value in rows:
        if builder.append(count, timestamp, key, value, []) is None:
            sent.append(builder.build())
            builder, count = make(), 0
            builder.append(count, timestamp, key, value, [])
        count += 1
    sent.append(builder.build())
    return sent


def _aiokafka() -> tuple[Writer, Reader]:
    from aiokafka.record._crecords import DefaultRecordBatchBuilder, MemoryRecords

    def make() -> Any:
        return DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, BATCH_BYTES)

    return lambda rows: _write_with(make, rows), lambda fetched, look: _read_batches(
        MemoryRecords(fetched), look
    )


def _kafka_python() -> tuple[Writer, Reader]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka.record.default_records import DefaultRecordBatchBuilder
        from kafka.record.memory_records import MemoryRecords

    def make() -> Any:
        return DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, BATCH_BYTES)

    return lambda rows: _write_with(make, rows), lambda fetched, look: _read_batches(
        MemoryRecords(fetched), look
    )


def _read_batches(records: Any, look: Look) -> int:
    count = 0
    while records.has_next():
        batch = records.next_batch()
        if not batch.validate_crc():
            raise ValueError("CRC does not match")
        count += look(batch)
    return count


def _counted(records: Iterable[Any]) -> int:
    count = 0
    for _ in records:
        count += 1
    return count


def _looker(rows: list[Row]) -> Look:
    """Return a function that compares records with the written ones."""
    expected = enumerate(rows)

    def look(records: Iterable[Any]) -> int:
        count = 0
        for record in records:
            seen = (record.offset, (record.timestamp, record.key, record.value))
            if seen != next(expected):
                raise ValueError(f"unexpected record: {seen}")
            count += 1
        return count

    return look


CODECS: dict[str, Callable[[], tuple[Writer, Reader]]] = {
    "odradek": lambda: (_write_odradek, _read_odradek),
    "aiokafka": _aiokafka,
    "kafka-python": _kafka_python,
}


def run(spec: Spec) -> Result:
    rows = _rows(spec["value_bytes"], spec["seed"])
    write, read = CODECS[spec["codec"]]()
    fetched = _with_offsets(b"".join(_write_odradek(rows)))
    if spec["work"] == "write":
        if read(_with_offsets(b"".join(write(rows))), _looker(rows)) != len(rows):
            raise ValueError("not all records were written")
        return _timed(lambda: (write(rows), len(rows))[1], spec["seconds"])
    if read(fetched, _looker(rows)) != len(rows):
        raise ValueError("not all records were read")
    return _timed(lambda: read(fetched, _counted), spec["seconds"])


def _rows(value_bytes: int, seed: int) -> list[Row]:
    known = values(VALUES, value_bytes, seed)
    count = FETCH_BYTES // (value_bytes + 20)
    return [(FIRST_MS + n // 10, b"key %08d" % n, known[n % VALUES]) for n in range(count)]


def _with_offsets(batches: bytes) -> bytes:
    """Assign offsets as a leader does."""
    from odradek.records import codec

    data = bytearray(batches)
    offset = 0
    for header in codec.read_headers(batches):
        codec.assign_offset(data, header.position, offset, 0)
        offset += header.count
    return bytes(data)


def _timed(once: Callable[[], int], seconds: float) -> Result:
    """Repeat the work for some time, after a warm-up."""
    for _ in range(3):
        once()
    meter = Meter(None)
    meter.start()
    done, rounds = 0, 0
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        done += once()
        rounds += 1
    cost = meter.stop()
    return {"records": done, "rounds": rounds, **cost.as_result()}


if __name__ == "__main__":
    serve(run)
