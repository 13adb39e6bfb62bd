"""Lag of a pipeline by partition, in offsets and in seconds.

It is computed from the offsets committed by the pipeline's group, so other Kafka tools show the same. In
seconds, it is the age of the oldest unread record, by its timestamp, read with one small fetch per partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.cli.groups.reset_offsets import fetch_end_offsets
from odradek.model.ids import TopicPartition
from odradek.pipelines.clusters import settings_for, source_admin, source_partitions

if TYPE_CHECKING:
    from odradek.client.blocking.consumer import Consumer
    from odradek.pipelines.spec.reader import Spec
    from odradek.ports.clock import Clock

POLL_S: Final = 0.2
READ_SECONDS_MAX: Final = 3.0
"""Time to read timestamps; a partition that takes longer has no lag in seconds."""
FETCH_BYTES: Final = 4096
"""A fetch returns at least one batch, which is enough for one timestamp."""


class PartitionLag(NamedTuple):
    """Lag of one partition; None without a committed offset, or if the record could not be read."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag_rows: int | None
    lag_s: float | None


def lags(
    committed: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    oldest_ms: Mapping[TopicPartition, int | None],
    now_ms: int,
) -> list[PartitionLag]:
    """Return the lag of each partition with an end offset or a committed offset."""
    rows = []
    for partition in sorted(committed.keys() | ends.keys()):
        offset, end = committed.get(partition), ends.get(partition)
        lag_rows = None if offset is None or end is None else max(0, end - offset)
        lag_s = _age_s(lag_rows, oldest_ms, partition, now_ms)
        rows.append(PartitionLag(partition.topic, partition.partition, offset, end, lag_rows, lag_s))
    return rows


def _age_s(
    lag_rows: int | None,
    oldest_ms: Mapping[TopicPartition, int | None],
    partition: TopicPartition,
    now_ms: int,
) -> float | None:
    if lag_rows == 0:
        return 0.0
    if lag_rows is None or partition not in oldest_ms:
        return None
    timestamp_ms = oldest_ms[partition]
    # None: only transaction markers are left.
    return 0.0 if timestamp_ms is None else max(0, now_ms - timestamp_ms) / 1000


def total(rows: Iterable[PartitionLag]) -> tuple[int | None, float | None]:
    """Return the lag over all partitions, in offsets and seconds; None if unknown in all."""
    partitions = list(rows)
    counts = [partition.lag_rows for partition in partitions if partition.lag_rows is not None]
    ages = [partition.lag_s for partition in partitions if partition.lag_s is not None]
    return (sum(counts) if counts else None), (max(ages) if ages else None)


def as_rows(group: str, rows: Iterable[PartitionLag]) -> list[dict[str, object]]:
    """Return the rows of a table or of JSON output."""
    return [
        {"group": group, **row._asdict(), "lag_s": None if row.lag_s is None else round(row.lag_s, 3)}
        for row in rows
    ]


def read_lag(spec: Spec, clock: Clock) -> list[PartitionLag]:
    """Return the current lag of a pipeline."""
    with source_admin(spec) as admin:
        partitions = source_partitions(admin, spec.source)
        group_offsets = admin.list_group_offsets(spec.observe.group)
        committed = {
            partition: offset.offset
            for partition in partitions
            if (offset := group_offsets.get(partition)) is not None
        }
        ends = fetch_end_offsets(admin, partitions)
    behind = {partition: offset for partition, offset in committed.items() if offset < ends.get(partition, 0)}
    with OldestRecordReader(spec, clock) as reader:
        oldest_ms = reader.timestamps_ms(behind, ends)
    return lags(committed, ends, oldest_ms, clock.wall_ms())


class OldestRecordReader:
    """Reads the timestamp of the first record at or after an offset; creates its consumer on first use."""

    def __init__(self, spec: Spec, clock: Clock) -> None:
        self._source = spec.source
        self._clock = clock
        self._consumer: Consumer | None = None

    def timestamps_ms(
        self, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | None]:
        """Return timestamps by partition; None without a record; no entry after a timeout."""
        if not offsets:
            return {}
        consumer = self._get_consumer()
        consumer.assign(list(offsets))
        # A partition that was assigned before is still paused.
        consumer.resume(*offsets)
        for partition, offset in offsets.items():
            consumer.seek(partition, offset)
        return self._first(consumer, ends, set(offsets))

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close(timeout_s=1)
            self._consumer = None

    def __enter__(self) -> OldestRecordReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _first(
        self, consumer: Consumer, ends: Mapping[TopicPartition, int], missing: set[TopicPartition]
    ) -> dict[TopicPartition, int | None]:
        timestamps: dict[TopicPartition, int | None] = {}
        deadline_ms = self._clock.monotonic_ms() + int(READ_SECONDS_MAX * 1000)
        while missing and self._clock.monotonic_ms() < deadline_ms:
            for record in consumer.poll(timeout_s=POLL_S):
                timestamps.setdefault(TopicPartition(record.topic, record.partition), record.timestamp)
            without_records = {
                partition
                for partition in missing - timestamps.keys()
                if consumer.position(partition) >= ends.get(partition, 0)
            }
            timestamps.update(dict.fromkeys(without_records))
            done = missing & timestamps.keys()
            if done:
                missing -= done
                consumer.pause(*done)
        return timestamps

    def _get_consumer(self) -> Consumer:
        from odradek import Consumer
        from odradek.config.client import CONSUMER

        if self._consumer is None:
            settings = settings_for(CONSUMER, self._source.brokers, self._source.options)
            self._consumer = Consumer(
                {
                    **settings,
                    "isolation.level": self._source.isolation,
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                    "max.partition.fetch.bytes": FETCH_BYTES,
                    "max.poll.records": 100,
                }
            )
        return self._consumer
