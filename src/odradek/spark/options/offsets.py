"""Offsets by partition in Spark's JSON form, and the limits of the offset range that a query reads.

Offsets are written as by Spark's own Kafka source, ``{"topic": {"0": 12}}``. Spark compares them as text,
so equal offsets must give equal text: topics and partitions are sorted.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from odradek.model.errors import ConfigError
from odradek.model.ids import TopicPartition

Offsets = dict[TopicPartition, int]
"""The next offset to read, by partition."""

OffsetsJson = dict[str, dict[str, int]]
"""Offsets as Spark stores them."""

LATEST_IN_JSON: Final = -1
EARLIEST_IN_JSON: Final = -2
_SHOWN_MAX: Final = 5


class LogBound(enum.Enum):
    """The start or the end of the log."""

    EARLIEST = "earliest"
    LATEST = "latest"


class SpecificOffset(NamedTuple):
    offset: int


class SpecificTimestamp(NamedTuple):
    """The first record at or after a timestamp."""

    timestamp_ms: int


class GroupOffset(NamedTuple):
    """The group's committed offset; ``fallback`` for partitions without one."""

    fallback: LogBound


PartitionLimit = LogBound | SpecificOffset | SpecificTimestamp | GroupOffset


@dataclass(frozen=True)
class OffsetLimit:
    """Start or end of a read: a limit for all partitions, and specific limits for some."""

    default: PartitionLimit
    by_partition: dict[TopicPartition, PartitionLimit] = field(default_factory=dict)

    def of(self, partition: TopicPartition) -> PartitionLimit:
        return self.by_partition.get(partition, self.default)

    def limits(self) -> Iterable[PartitionLimit]:
        return (self.default, *self.by_partition.values())

    @property
    def needs_group(self) -> bool:
        return any(isinstance(limit, GroupOffset) for limit in self.limits())

    def check_known(self, option: str, partitions: Collection[TopicPartition]) -> None:
        """Raise ConfigError for a partition that is not read: a misspelt topic must not go unnoticed."""
        unknown = sorted(set(self.by_partition) - set(partitions))
        if unknown:
            raise ConfigError(
                [f"{option} names {format_partitions(unknown)}, which this query does not read"]
            )


def offsets_to_json(offsets: Mapping[TopicPartition, int]) -> OffsetsJson:
    """Return offsets in the JSON form of Spark's own Kafka source, sorted.

    >>> offsets_to_json({TopicPartition("b", 10): 1, TopicPartition("b", 9): 2, TopicPartition("a", 0): 3})
    {'a': {'0': 3}, 'b': {'9': 2, '10': 1}}
    """
    topics: OffsetsJson = {}
    for partition in sorted(offsets):
        topics.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return topics


def offsets_from_json(offsets_json: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Return offsets from their JSON form."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in offsets_json.items()
        for partition, offset in partitions.items()
    }


def parse_offset_limit(option: str, text: str, default: PartitionLimit) -> OffsetLimit:
    """Parse ``{"topic": {"0": 12}}``; -1 is latest, -2 earliest; other partitions get the default."""
    return OffsetLimit(default, _parse_limits(option, text, _parse_offset))


def parse_timestamp_limit(
    option: str, text: str, default: PartitionLimit, read_ms: Callable[[Any], int]
) -> OffsetLimit:
    """Parse ``{"topic": {"0": timestamp}}``; ``read_ms`` raises ValueError for an invalid timestamp."""
    return OffsetLimit(default, _parse_limits(option, text, lambda value: SpecificTimestamp(read_ms(value))))


def parse_partitions(option: str, text: str) -> list[TopicPartition]:
    """Parse ``{"topic": [0, 1]}``; the partitions are sorted."""
    topics = _json_object(option, text, '{"topic": [0, 1]}')
    partitions: set[TopicPartition] = set()
    for topic, numbers in topics.items():
        if not isinstance(numbers, list) or not all(_is_count(number) for number in numbers):
            raise ConfigError(
                [f"{option}: partitions of {topic} must be a list of integers, got {numbers!r}"]
            )
        partitions.update(TopicPartition(topic, number) for number in numbers)
    if not partitions:
        raise ConfigError([f'{option} must name at least one partition, as in {{"topic": [0, 1]}}'])
    return sorted(partitions)


def parse_topic_strings(option: str, text: str) -> dict[str, str]:
    """Parse ``{"topic": "text"}``."""
    topics = _json_object(option, text, '{"topic": "text"}')
    invalid = [topic for topic, value in topics.items() if not isinstance(value, str)]
    if invalid:
        raise ConfigError([f"{option}: the value of {invalid[0]} must be a string"])
    return topics


def format_partitions(partitions: Iterable[TopicPartition]) -> str:
    """Return a list of partitions for a message; a long list is shortened."""
    names = [str(partition) for partition in partitions]
    more = f" and {len(names) - _SHOWN_MAX} more" if len(names) > _SHOWN_MAX else ""
    return ", ".join(names[:_SHOWN_MAX]) + more


def _parse_limits(
    option: str, text: str, read: Callable[[Any], PartitionLimit]
) -> dict[TopicPartition, PartitionLimit]:
    example = '{"topic": {"0": 12}}'
    limits: dict[TopicPartition, PartitionLimit] = {}
    for topic, partitions in _json_object(option, text, example).items():
        if not isinstance(partitions, dict):
            raise ConfigError([f"{option}: {topic} must map partitions to values, as in {example}"])
        for number, value in partitions.items():
            if not number.isascii() or not number.isdigit():
                raise ConfigError([f"{option}: partition of {topic} must be an integer, got {number!r}"])
            try:
                limits[TopicPartition(topic, int(number))] = read(value)
            except ValueError as error:
                raise ConfigError([f"{option}: {topic}-{number}: {error}"]) from None
    return limits


def _json_object(option: str, text: str, example: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigError([f"{option} must be JSON such as {example}: {error}"]) from None
    if not isinstance(value, dict):
        raise ConfigError([f"{option} must be a JSON object such as {example}, got {text}"])
    return value


def _parse_offset(value: Any) -> PartitionLimit:
    if value == LATEST_IN_JSON and _is_int(value):
        return LogBound.LATEST
    if value == EARLIEST_IN_JSON and _is_int(value):
        return LogBound.EARLIEST
    if not _is_count(value):
        raise ValueError(f"offset must be >= 0, or -1 (latest) or -2 (earliest), got {value!r}")
    return SpecificOffset(value)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_int(value) and value >= 0
