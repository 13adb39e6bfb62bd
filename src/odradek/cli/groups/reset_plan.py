"""Parsing and planning for ``groups reset-offsets``. Pure.

Offsets out of range are moved to the nearest valid offset, as in Kafka's tool.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from odradek.model.ids import TopicPartition

_DURATION: Final = re.compile(
    r"P(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


class InvalidResetTarget(ValueError):
    """Raised for an invalid reset target; the message shows the expected format."""


class OffsetBounds(NamedTuple):
    """Log start and end offset of a partition."""

    first: int
    end: int

    def nearest(self, offset: int) -> int:
        return min(max(offset, self.first), self.end)


class OffsetChange(NamedTuple):
    """Committed offset of a partition before and after; -1 where there was none."""

    partition: TopicPartition
    before: int
    after: int


def plan_offset_changes(
    targets: Mapping[TopicPartition, int],
    bounds: Mapping[TopicPartition, OffsetBounds],
    committed: Mapping[TopicPartition, int],
) -> list[OffsetChange]:
    """Return the changes, ordered by partition."""
    return [
        OffsetChange(partition, committed.get(partition, -1), bounds[partition].nearest(targets[partition]))
        for partition in sorted(targets)
    ]


def shift_offsets(
    committed: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition], by: int
) -> dict[TopicPartition, int]:
    """Add a number to committed offsets; raise InvalidResetTarget if one is missing."""
    listed = list(partitions)
    missing = [str(partition) for partition in listed if partition not in committed]
    if missing:
        raise InvalidResetTarget(f"--shift-by requires a committed offset, got none for {', '.join(missing)}")
    return {partition: committed[partition] + by for partition in listed}


def parse_datetime_ms(text: str) -> int:
    """Parse 2026-01-31T12:00:00.000 to milliseconds; UTC without a time zone."""
    try:
        parsed = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise InvalidResetTarget(f"datetime must be like 2026-01-31T12:00:00, got {text!r}") from None
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=datetime.UTC)
    return int(parsed.timestamp() * 1000)


def parse_duration_ms(text: str) -> int:
    """Parse an ISO 8601 duration such as P1DT2H30M to milliseconds."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()) or text.endswith("T"):
        raise InvalidResetTarget(
            f"duration must be like P1DT2H30M (1 day, 2 hours, 30 minutes), got {text!r}"
        )
    parts = {name: float(value) for name, value in match.groupdict().items() if value}
    return int(datetime.timedelta(**parts).total_seconds() * 1000)


def parse_offsets_file(text: str) -> dict[TopicPartition, int]:
    """Parse lines of topic,partition,offset, as Kafka's tool exports them, or the output of --json."""
    if text.lstrip().startswith("["):
        return {TopicPartition(row["topic"], row["partition"]): row["new_offset"] for row in json.loads(text)}
    offsets = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        if not row:
            continue
        try:
            topic, partition, offset = row
            offsets[TopicPartition(topic.strip(), int(partition))] = int(offset)
        except ValueError:
            raise InvalidResetTarget(f"line {number} must be topic,partition,offset, got {row}") from None
    return offsets


def parse_topics(values: Iterable[str]) -> dict[str, list[int] | None]:
    """Parse ``letters`` or ``letters:0,2`` to partitions by topic; None for all partitions."""
    topics: dict[str, list[int] | None] = {}
    for text in values:
        topic, colon, numbers = text.partition(":")
        try:
            topics[topic] = [int(number) for number in numbers.split(",")] if colon else None
        except ValueError:
            raise InvalidResetTarget(f"topic must be TOPIC or TOPIC:0,2, got {text!r}") from None
    return topics
