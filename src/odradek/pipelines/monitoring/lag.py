"""How far a pipeline is behind: by partition, in offsets and in seconds.

What it has done is what its group has committed, so that every tool that looks at groups tells the same. In
seconds, lag is the age of the oldest record behind that, by the record's own timestamp; it is read from the
topic itself, one small fetch for each partition that is behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from odradek.cli.groups.reset_offsets import fetch_end_offsets
from odradek.model.ids import TopicPartition
from odradek.pipelines.clusters import settings_for, source_admin, source_partitions

if TYPE_CHECKING:
    from odradek.client.blocking.consumer import Consumer
    from odradek.pipelines.spec.reader import Spec
    from odradek.ports.clock import Clock

POLL_S: Final = 0.2
READ_SECONDS_MAX: Final = 3.0
"""What cannot be read in this time has no age; the command does not wait for a broker that is down."""
FETCH_BYTES: Final = 4096
"""A fetch gives one whole batch at least, however large: enough for one timestamp."""


class PartitionLag(NamedTuple):
    """One partition. ``None`` where nothing is committed, or where the record could not be read."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag_rows: int | None
    lag_s: float | None


def lags(
    committed: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    waiting_since_ms: Mapping[TopicPartition, int | None],
    now_ms: int,
) -> list[PartitionLag]:
    """The lag of each partition that has an end or a committed offset."""
    rows = []
    for one in sorted(committed.keys() | ends.keys()):
        offset, end = committed.get(one), ends.get(one)
        left = None if offset is None or end is None else max(0, end - offset)
        rows.append(
            PartitionLag(
                one.topic, one.partition, offset, end, left, _age_s(left, waiting_since_ms, one, now_ms)
            )
        )
    return rows


def _age_s(
    left: int | None, since_ms: Mapping[TopicPartition, int | None], partition: TopicPartition, now_ms: int
) -> float | None:
    if left == 0:
        return 0.0
    if left is None or partition not in since_ms:
        return None
    since = since_ms[partition]
    # Behind the offset are marks of transactions only: nothing waits.
    return 0.0 if since is None else max(0, now_ms - since) / 1000


def total(rows: Iterable[PartitionLag]) -> tuple[int | None, float | None]:
    """Offsets left in all partitions, and how long the oldest record waits; None if no partition tells."""
    listed = list(rows)
    left = [one.lag_rows for one in listed if one.lag_rows is not None]
    ages = [one.lag_s for one in listed if one.lag_s is not None]
    return (sum(left) if left else None), (max(ages) if ages else None)


def as_rows(group: str, rows: Iterable[PartitionLag]) -> list[dict[str, Any]]:
    """For tables and JSON."""
    return [
        {"group": group, **one._asdict(), "lag_s": None if one.lag_s is None else round(one.lag_s, 3)}
        for one in rows
    ]


def read_lag(spec: Spec, clock: Clock) -> list[PartitionLag]:
    """The lag of a pipeline as it is now, asked of its brokers."""
    with source_admin(spec) as admin:
        partitions = source_partitions(admin, spec.source)
        kept = admin.list_group_offsets(spec.observe.group)
        committed = {one: offset.offset for one in partitions if (offset := kept.get(one)) is not None}
        ends = fetch_end_offsets(admin, partitions)
    behind = {one: offset for one, offset in committed.items() if offset < ends.get(one, 0)}
    with OldestRecordReader(spec, clock) as waiting:
        since_ms = waiting.since_ms(behind, ends)
    return lags(committed, ends, since_ms, clock.wall_ms())


class OldestRecordReader:
    """Reads when the first record behind an offset was written. Its consumer is made when it is needed."""

    def __init__(self, spec: Spec, clock: Clock) -> None:
        self._source = spec.source
        self._clock = clock
        self._consumer: Consumer | None = None

    def since_ms(
        self, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | None]:
        """Timestamps by partition; None where no record is left; no entry where time was over first."""
        if not offsets:
            return {}
        consumer = self._reader()
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
        found: dict[TopicPartition, int | None] = {}
        deadline_ms = self._clock.monotonic_ms() + int(READ_SECONDS_MAX * 1000)
        while missing and self._clock.monotonic_ms() < deadline_ms:
            for record in consumer.poll(timeout_s=POLL_S):
                found.setdefault(TopicPartition(record.topic, record.partition), record.timestamp)
            passed = {one for one in missing - found.keys() if consumer.position(one) >= ends.get(one, 0)}
            found.update(dict.fromkeys(passed))
            done = missing & found.keys()
            if done:
                missing -= done
                consumer.pause(*done)
        return found

    def _reader(self) -> Consumer:
        from odradek import Consumer
        from odradek.config.client import CONSUMER

        if self._consumer is None:
            given = settings_for(CONSUMER, self._source.brokers, self._source.options)
            self._consumer = Consumer(
                {
                    **given,
                    "isolation.level": self._source.isolation,
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                    "max.partition.fetch.bytes": FETCH_BYTES,
                    "max.poll.records": 100,
                }
            )
        return self._consumer
