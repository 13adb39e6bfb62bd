"""Where a group shall go on reading: pure decisions of ``groups reset-offsets``.

Offsets outside of a log are moved to its nearer end, as Kafka's tool does.
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
    """A goal that cannot be understood; the words say how it is written."""


class OffsetBounds(NamedTuple):
    """Where a partition begins and ends."""

    first: int
    end: int

    def nearest(self, offset: int) -> int:
        return min(max(offset, self.first), self.end)


class OffsetChange(NamedTuple):
    """One partition's offset before and after; -1 where there was none."""

    partition: TopicPartition
    before: int
    after: int


def plan_offset_changes(
    wanted: Mapping[TopicPartition, int],
    bounds: Mapping[TopicPartition, OffsetBounds],
    committed: Mapping[TopicPartition, int],
) -> list[OffsetChange]:
    """What is to change, in order of partitions."""
    return [
        OffsetChange(one, committed.get(one, -1), bounds[one].nearest(wanted[one])) for one in sorted(wanted)
    ]


def shifted(
    committed: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition], by: int
) -> dict[TopicPartition, int]:
    """Committed offsets moved by a number; partitions without one cannot be."""
    listed = list(partitions)
    without = [str(one) for one in listed if one not in committed]
    if without:
        raise InvalidResetTarget(
            f"nothing is committed for {', '.join(without)}: there is nothing to shift from"
        )
    return {one: committed[one] + by for one in listed}


def parse_datetime_ms(text: str) -> int:
    """Milliseconds of 2026-01-31T12:00:00.000, with or without a zone; without one it is UTC."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise InvalidResetTarget(f"{text!r} is no moment: write it as 2026-01-31T12:00:00") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return int(moment.timestamp() * 1000)


def parse_duration_ms(text: str) -> int:
    """Milliseconds of P1DT2H30M and the like."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()) or text.endswith("T"):
        raise InvalidResetTarget(
            f"{text!r} is no duration: write it as P1DT2H30M (one day, two hours, 30 minutes)"
        )
    parts = {name: float(value) for name, value in found.groupdict().items() if value}
    return int(datetime.timedelta(**parts).total_seconds() * 1000)


def read_file(text: str) -> dict[TopicPartition, int]:
    """Offsets of a file: lines of topic,partition,offset as Kafka's tool writes them, or our own JSON."""
    if text.lstrip().startswith("["):
        return {TopicPartition(one["topic"], one["partition"]): one["new_offset"] for one in json.loads(text)}
    found = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        if not row:
            continue
        try:
            topic, partition, offset = row
            found[TopicPartition(topic.strip(), int(partition))] = int(offset)
        except ValueError:
            raise InvalidResetTarget(f"line {number}: write it as topic,partition,offset") from None
    return found


def read_topics(given: Iterable[str]) -> dict[str, list[int] | None]:
    """``letters`` or ``letters:0,2``: partitions by topic, None for all of them."""
    found: dict[str, list[int] | None] = {}
    for text in given:
        topic, colon, numbers = text.partition(":")
        try:
            found[topic] = [int(one) for one in numbers.split(",")] if colon else None
        except ValueError:
            raise InvalidResetTarget(f"{text!r}: write it as TOPIC or TOPIC:0,2") from None
    return found
