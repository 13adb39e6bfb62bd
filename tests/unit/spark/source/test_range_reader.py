"""A range ends for certain: read, timed out with all it takes to find why, or lost and said so."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.sql.types import StructType

from odradek.client.blocking.range_consumer import RangeConsumer
from odradek.model.client_errors import (
    AuthorizationFailed,
    ClientError,
    OffsetOutOfRange,
    TimedOut,
    UnknownTopic,
)
from odradek.model.ids import TopicPartition
from odradek.records import codec
from odradek.records.batch import BatchBuilder
from odradek.spark.options.source_options import SourceOptions
from odradek.spark.source import range_reader
from odradek.spark.source.arrow_batches import ArrowBatchBuilder
from odradek.spark.source.data_loss import DataLoss
from odradek.spark.source.range_reader import CUT_LOOKS, RangeReader, reading_settings, record_batches
from odradek.spark.source.ranges import Range
from odradek.spark.source.schema import COLUMNS, source_schema

CASTLE = TopicPartition("castle", 3)
OFFSETS = StructType().add("offset", COLUMNS["offset"])


class Log:
    """A partition and its consumer: what lies at offsets, what is refused, and a clock that waits at once."""

    def __init__(self, *offsets: int, bounds: tuple[int, int] | ClientError) -> None:
        self.offsets = list(offsets)
        self.bounds = bounds
        self.bounds_later: list[tuple[int, int]] = []
        self.now_ms = 0
        self.look_count = 0
        self.range_position = self.stop = 0

    # What a RangeConsumer has.

    def begin_range(self, partition: TopicPartition, start_offset: int, stop_offset: int) -> None:
        assert partition == CASTLE
        self.range_position, self.stop = start_offset, stop_offset

    @property
    def is_done(self) -> bool:
        return self.range_position >= self.stop

    def fill(self, columns: codec.ColumnBuilder, rows_max: int, timeout_s: float) -> int:
        first, after_last = self.bounds if isinstance(self.bounds, tuple) else (0, 0)
        if isinstance(self.bounds, tuple) and not first <= self.range_position <= after_last:
            self.now_ms += 100
            raise OffsetOutOfRange("outside the log")
        here = [each for each in self.offsets if each >= max(self.range_position, first)]
        if not here or isinstance(self.bounds, ClientError):
            self.now_ms += int(timeout_s * 1000)
            return 0
        builder = BatchBuilder(here[0])
        builder.append(1, None, b"")
        reader = codec.RecordReader(builder.build(), *CASTLE, self.range_position)
        count = reader.take_columns(rows_max, columns, self.stop)
        self.range_position = reader.next_offset
        return count

    def log_bounds(self, timeout_s: float) -> tuple[int, int]:
        self.look_count += 1
        if self.bounds_later:
            self.bounds = self.bounds_later.pop(0)
        if isinstance(self.bounds, ClientError):
            raise self.bounds
        return self.bounds

    # What a test does.

    def read(self, start: int, end: int, **options: Any) -> list[int]:
        made = SourceOptions({"bootstrap.servers": "b:9092"}, **{"poll_timeout_ms": 60_000, **options})
        consumer = cast(RangeConsumer, self)
        reading = RangeReader(made, Range(*CASTLE, start, end), consumer, lambda: self.now_ms)
        batches = reading.batches(ArrowBatchBuilder(OFFSETS, *CASTLE))
        return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def test_a_range_with_gaps_is_read_up_to_its_end_and_no_further() -> None:
    log = Log(0, 1, 5, 6, 9, 20, bounds=(0, 21))
    assert log.read(1, 9) == [1, 5, 6]
    assert log.range_position == 9
    assert log.read(10, 20) == []
    assert log.look_count == 0


def test_silence_is_an_error_that_says_where_and_how_long() -> None:
    log = Log(0, 1, bounds=(0, 10))
    with pytest.raises(TimedOut) as raised:
        log.read(0, 10)
    assert log.now_ms == 60_000
    for word in ("castle-3", "offset 2", "castle-3 [0, 10)", "60000 ms", "kafkaConsumer.pollTimeoutMs"):
        assert word in str(raised.value)


def test_a_broker_that_cannot_be_asked_is_waited_for() -> None:
    with pytest.raises(TimedOut, match="no record of castle-3"):
        Log(bounds=TimedOut("nobody answers")).read(0, 10)


def test_what_no_waiting_mends_is_raised_at_once() -> None:
    log = Log(bounds=AuthorizationFailed("no"))
    with pytest.raises(AuthorizationFailed):
        log.read(0, 10)
    assert log.look_count == 1


def test_an_expired_start_is_named_with_what_to_do() -> None:
    with pytest.raises(DataLoss) as raised:
        Log(50, 51, bounds=(50, 60)).read(10, 60)
    for word in ("castle-3", "offsets 10 to 49 are gone", "failOnDataLoss=false"):
        assert word in str(raised.value)


def test_an_expired_start_is_passed_over_if_that_is_allowed() -> None:
    log = Log(50, 51, 59, bounds=(50, 60))
    assert log.read(10, 60, fail_on_data_loss=False) == [50, 51, 59]
    assert log.read(10, 40, fail_on_data_loss=False) == []


def test_a_log_that_ends_before_the_range_is_believed_after_some_looks() -> None:
    log = Log(0, 1, 2, bounds=(0, 3))
    with pytest.raises(DataLoss, match="offsets up to 10 are asked for, but the log ends at 3"):
        log.read(0, 10)
    assert log.look_count == CUT_LOOKS
    assert log.read(0, 10, fail_on_data_loss=False) == [0, 1, 2]
    assert log.read(7, 10, fail_on_data_loss=False) == []


def test_an_end_that_is_seen_too_early_loses_nothing() -> None:
    log = Log(0, 1, 2, 9, bounds=(0, 3))
    log.offsets = [0, 1, 2]
    log.bounds_later = [(0, 3), (0, 10)]

    def grown(timeout_s: float) -> tuple[int, int]:
        found = Log.log_bounds(log, timeout_s)
        if found[1] == 10:
            log.offsets = [0, 1, 2, 9]
        return found

    log.log_bounds = grown  # type: ignore[method-assign]
    assert log.read(0, 10) == [0, 1, 2, 9]


@pytest.mark.parametrize("is_strict", [True, False])
def test_a_deleted_topic_is_named_or_left_out(is_strict: bool) -> None:
    log = Log(bounds=UnknownTopic("castle is unknown", retriable=True))
    if is_strict:
        with pytest.raises(DataLoss, match="castle-3: the partition no longer exists"):
            log.read(0, 10)
    else:
        assert log.read(0, 10, fail_on_data_loss=False) == []


def test_an_empty_range_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_reader, "consumer_of", None)
    options = SourceOptions({"bootstrap.servers": "b:9092"})
    assert list(record_batches(options, Range("castle", 0, 5, 5), source_schema(False))) == []


def test_a_consumer_that_failed_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    log, forgotten = Log(bounds=AuthorizationFailed("no")), []
    monkeypatch.setattr(range_reader, "consumer_of", lambda settings: log)
    monkeypatch.setattr(range_reader, "forget", forgotten.append)
    options = SourceOptions({"bootstrap.servers": "b:9092"}, poll_timeout_ms=1)
    with pytest.raises(AuthorizationFailed):
        list(record_batches(options, Range(*CASTLE, 0, 5), OFFSETS))
    assert forgotten == [log]


def test_the_users_settings_go_before_ours_save_where_reading_depends_on_them() -> None:
    given = {
        "max.partition.fetch.bytes": "5",
        "isolation.level": "read_committed",
        "auto.offset.reset": "latest",
    }
    made = reading_settings(given)
    assert made["max.partition.fetch.bytes"] == "5"
    assert made["isolation.level"] == "read_committed"
    assert made["auto.offset.reset"] == "none"
    assert int(reading_settings({})["max.partition.fetch.bytes"]) > 1024 * 1024
