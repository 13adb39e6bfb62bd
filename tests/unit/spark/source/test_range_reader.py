"""Reading of offset ranges: completion, timeouts and data loss."""

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
from odradek.records.batch import BatchBuilder
from odradek.records.client.consumer import ColumnBuilder, RecordReader
from odradek.spark.options.source_options import SourceOptions
from odradek.spark.source import range_reader
from odradek.spark.source.arrow_batches import ArrowBatchBuilder
from odradek.spark.source.data_loss import DataLoss
from odradek.spark.source.range_reader import (
    TRUNCATION_CHECKS,
    RangeReader,
    consumer_settings,
    record_batches,
)
from odradek.spark.source.ranges import OffsetRange
from odradek.spark.source.schema import COLUMNS, source_schema

CASTLE = TopicPartition("castle", 3)
OFFSETS = StructType().add("offset", COLUMNS["offset"])


class Log:
    """A partition and its consumer: records, log bounds or an error, and a clock."""

    def __init__(self, *offsets: int, bounds: tuple[int, int] | ClientError) -> None:
        self.offsets = list(offsets)
        self.bounds = bounds
        self.bounds_later: list[tuple[int, int]] = []
        self.now_ms = 0
        self.check_count = 0
        self.range_position = self.stop = 0

    # Interface of RangeConsumer.

    def begin_range(self, partition: TopicPartition, start_offset: int, stop_offset: int) -> None:
        assert partition == CASTLE
        self.range_position, self.stop = start_offset, stop_offset

    @property
    def is_done(self) -> bool:
        return self.range_position >= self.stop

    def fill(self, columns: ColumnBuilder, rows_max: int, timeout_s: float) -> int:
        log_start, log_end = self.bounds if isinstance(self.bounds, tuple) else (0, 0)
        if isinstance(self.bounds, tuple) and not log_start <= self.range_position <= log_end:
            self.now_ms += 100
            raise OffsetOutOfRange("outside the log")
        offsets = [offset for offset in self.offsets if offset >= max(self.range_position, log_start)]
        if not offsets or isinstance(self.bounds, ClientError):
            self.now_ms += int(timeout_s * 1000)
            return 0
        builder = BatchBuilder(offsets[0])
        builder.append(1, None, b"")
        reader = RecordReader(builder.build(), *CASTLE, self.range_position)
        count = reader.take_columns(rows_max, columns, self.stop)
        self.range_position = reader.next_offset
        return count

    def log_bounds(self, timeout_s: float) -> tuple[int, int]:
        self.check_count += 1
        if self.bounds_later:
            self.bounds = self.bounds_later.pop(0)
        if isinstance(self.bounds, ClientError):
            raise self.bounds
        return self.bounds

    # Helpers.

    def read(self, start: int, end: int, **options: Any) -> list[int]:
        source_options = SourceOptions(
            {"bootstrap.servers": "b:9092"}, **{"poll_timeout_ms": 60_000, **options}
        )
        consumer = cast(RangeConsumer, self)
        range_ = OffsetRange(*CASTLE, start, end)
        reader = RangeReader(source_options, range_, consumer, lambda: self.now_ms)
        batches = reader.batches(ArrowBatchBuilder(OFFSETS, *CASTLE))
        return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def test_range_with_gaps_is_read_to_its_end() -> None:
    log = Log(0, 1, 5, 6, 9, 20, bounds=(0, 21))
    assert log.read(1, 9) == [1, 5, 6]
    assert log.range_position == 9
    assert log.read(10, 20) == []
    assert log.check_count == 0


def test_poll_timeout_reports_offset_and_duration() -> None:
    log = Log(0, 1, bounds=(0, 10))
    with pytest.raises(TimedOut) as raised:
        log.read(0, 10)
    assert log.now_ms == 60_000
    for part in ("castle-3", "offset 2", "castle-3 [0, 10)", "60000 ms", "kafkaConsumer.pollTimeoutMs"):
        assert part in str(raised.value)


def test_unreachable_broker_is_waited_for() -> None:
    with pytest.raises(TimedOut, match="no record of castle-3"):
        Log(bounds=TimedOut("nobody answers")).read(0, 10)


def test_non_retriable_error_is_raised_at_once() -> None:
    log = Log(bounds=AuthorizationFailed("no"))
    with pytest.raises(AuthorizationFailed):
        log.read(0, 10)
    assert log.check_count == 1


def test_expired_start_raises_data_loss() -> None:
    with pytest.raises(DataLoss) as raised:
        Log(50, 51, bounds=(50, 60)).read(10, 60)
    for part in ("castle-3", "offsets 10 to 49 are lost", "failOnDataLoss=false"):
        assert part in str(raised.value)


def test_expired_start_is_skipped_if_data_loss_is_accepted() -> None:
    log = Log(50, 51, 59, bounds=(50, 60))
    assert log.read(10, 60, fail_on_data_loss=False) == [50, 51, 59]
    assert log.read(10, 40, fail_on_data_loss=False) == []


def test_truncated_log_counts_after_several_checks() -> None:
    log = Log(0, 1, 2, bounds=(0, 3))
    with pytest.raises(DataLoss, match="offsets up to 10 are requested, but the log ends at 3"):
        log.read(0, 10)
    assert log.check_count == TRUNCATION_CHECKS
    assert log.read(0, 10, fail_on_data_loss=False) == [0, 1, 2]
    assert log.read(7, 10, fail_on_data_loss=False) == []


def test_log_end_seen_too_early_loses_nothing() -> None:
    log = Log(0, 1, 2, 9, bounds=(0, 3))
    log.offsets = [0, 1, 2]
    log.bounds_later = [(0, 3), (0, 10)]

    def growing_log_bounds(timeout_s: float) -> tuple[int, int]:
        bounds = Log.log_bounds(log, timeout_s)
        if bounds[1] == 10:
            log.offsets = [0, 1, 2, 9]
        return bounds

    log.log_bounds = growing_log_bounds  # type: ignore[method-assign]
    assert log.read(0, 10) == [0, 1, 2, 9]


@pytest.mark.parametrize("is_strict", [True, False])
def test_deleted_topic_raises_data_loss_or_is_skipped(is_strict: bool) -> None:
    log = Log(bounds=UnknownTopic("castle is unknown", retriable=True))
    if is_strict:
        with pytest.raises(DataLoss, match="castle-3: the partition no longer exists"):
            log.read(0, 10)
    else:
        assert log.read(0, 10, fail_on_data_loss=False) == []


def test_empty_range_needs_no_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_reader, "get_consumer", None)
    options = SourceOptions({"bootstrap.servers": "b:9092"})
    assert list(record_batches(options, OffsetRange("castle", 0, 5, 5), source_schema(False))) == []


def test_failed_consumer_is_discarded(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(bounds=AuthorizationFailed("no"))
    discarded: list[Any] = []
    monkeypatch.setattr(range_reader, "get_consumer", lambda settings: log)
    monkeypatch.setattr(range_reader, "discard", discarded.append)
    options = SourceOptions({"bootstrap.servers": "b:9092"}, poll_timeout_ms=1)
    with pytest.raises(AuthorizationFailed):
        list(record_batches(options, OffsetRange(*CASTLE, 0, 5), OFFSETS))
    assert discarded == [log]


def test_user_settings_override_defaults_but_not_fixed_settings() -> None:
    user_settings = {
        "max.partition.fetch.bytes": "5",
        "isolation.level": "read_committed",
        "auto.offset.reset": "latest",
    }
    settings = consumer_settings(user_settings)
    assert settings["max.partition.fetch.bytes"] == "5"
    assert settings["isolation.level"] == "read_committed"
    assert settings["auto.offset.reset"] == "none"
    assert int(consumer_settings({})["max.partition.fetch.bytes"]) > 1024 * 1024
