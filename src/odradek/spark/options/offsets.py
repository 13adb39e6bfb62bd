"""Offsets of many partitions, and where reading shall begin or end.

Offsets travel as Spark's own Kafka source writes them, ``{"topic": {"0": 12}}``. Spark compares them as
text, so the same offsets must always give the same text: topics and partitions are sorted.
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

Document = dict[str, dict[str, int]]
"""Offsets as Spark keeps them."""

LATEST_IN_JSON: Final = -1
EARLIEST_IN_JSON: Final = -2
_SHOWN_MAX: Final = 5


class Edge(enum.Enum):
    """An end of the log."""

    EARLIEST = "earliest"
    LATEST = "latest"


class AtOffset(NamedTuple):
    offset: int


class AtTime(NamedTuple):
    """The first record at or after a time."""

    timestamp_ms: int


class AtCommit(NamedTuple):
    """Where the group stands; ``fallback`` for partitions it has committed nothing of."""

    fallback: Edge


Spot = Edge | AtOffset | AtTime | AtCommit


@dataclass(frozen=True)
class Position:
    """Where reading begins or ends: a spot for all partitions, and others for some."""

    default: Spot
    given: dict[TopicPartition, Spot] = field(default_factory=dict)

    def of(self, partition: TopicPartition) -> Spot:
        return self.given.get(partition, self.default)

    def spots(self) -> Iterable[Spot]:
        return (self.default, *self.given.values())

    @property
    def needs_group(self) -> bool:
        return any(isinstance(spot, AtCommit) for spot in self.spots())

    def check_known(self, option: str, partitions: Collection[TopicPartition]) -> None:
        """Raises ConfigError if a partition is named that is not read: a misspelt topic would go unseen."""
        strangers = sorted(set(self.given) - set(partitions))
        if strangers:
            raise ConfigError([f"{option} names {listed(strangers)}, which this query does not read"])


def document(offsets: Mapping[TopicPartition, int]) -> Document:
    """Offsets as Spark's own Kafka source writes them, sorted.

    >>> document({TopicPartition("b", 10): 1, TopicPartition("b", 9): 2, TopicPartition("a", 0): 3})
    {'a': {'0': 3}, 'b': {'9': 2, '10': 1}}
    """
    topics: Document = {}
    for partition in sorted(offsets):
        topics.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return topics


def parse(written: Mapping[str, Mapping[str, int]]) -> Offsets:
    """The reverse of ``document``: what Spark hands back."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in written.items()
        for partition, offset in partitions.items()
    }


def position_of_offsets(option: str, text: str, default: Spot) -> Position:
    """The position that ``{"topic": {"0": 12}}`` gives; -1 is latest, -2 earliest, the rest the default."""
    return Position(default, _given(option, text, _spot_of_offset))


def position_of_times(option: str, text: str, default: Spot, read_ms: Callable[[Any], int]) -> Position:
    """The same for times; ``read_ms`` raises ValueError for what is none."""
    return Position(default, _given(option, text, lambda value: AtTime(read_ms(value))))


def partitions_of(option: str, text: str) -> list[TopicPartition]:
    """Partitions of ``{"topic": [0, 1]}``, sorted."""
    topics = _json_object(option, text, '{"topic": [0, 1]}')
    found: set[TopicPartition] = set()
    for topic, numbers in topics.items():
        if not isinstance(numbers, list) or not all(_is_count(number) for number in numbers):
            raise ConfigError([f"{option}: partitions of {topic} must be a list of numbers, not {numbers!r}"])
        found.update(TopicPartition(topic, number) for number in numbers)
    if not found:
        raise ConfigError([f'{option} names no partition: give for example {{"topic": [0, 1]}}'])
    return sorted(found)


def texts_of(option: str, text: str) -> dict[str, str]:
    """A text per topic, of ``{"topic": "text"}``."""
    topics = _json_object(option, text, '{"topic": "text"}')
    strange = [topic for topic, value in topics.items() if not isinstance(value, str)]
    if strange:
        raise ConfigError([f"{option}: {strange[0]} must have a text"])
    return topics


def listed(partitions: Iterable[TopicPartition]) -> str:
    """Some partitions in words; a long list is cut short."""
    names = [str(partition) for partition in partitions]
    more = f" and {len(names) - _SHOWN_MAX} more" if len(names) > _SHOWN_MAX else ""
    return ", ".join(names[:_SHOWN_MAX]) + more


def _given(option: str, text: str, spot: Callable[[Any], Spot]) -> dict[TopicPartition, Spot]:
    example = '{"topic": {"0": 12}}'
    found: dict[TopicPartition, Spot] = {}
    for topic, partitions in _json_object(option, text, example).items():
        if not isinstance(partitions, dict):
            raise ConfigError([f"{option}: {topic} must have an object of partitions, as in {example}"])
        for number, value in partitions.items():
            if not number.isascii() or not number.isdigit():
                raise ConfigError([f"{option}: {number!r} is no partition of {topic}"])
            try:
                found[TopicPartition(topic, int(number))] = spot(value)
            except ValueError as wrong:
                raise ConfigError([f"{option}: {topic}-{number}: {wrong}"]) from None
    return found


def _json_object(option: str, text: str, example: str) -> dict[str, Any]:
    try:
        read = json.loads(text)
    except ValueError as wrong:
        raise ConfigError([f"{option} is no JSON ({wrong}): give for example {example}"]) from None
    if not isinstance(read, dict):
        raise ConfigError([f"{option} must be a JSON object: give for example {example}"])
    return read


def _spot_of_offset(value: Any) -> Spot:
    if value == LATEST_IN_JSON and _is_whole(value):
        return Edge.LATEST
    if value == EARLIEST_IN_JSON and _is_whole(value):
        return Edge.EARLIEST
    if not _is_count(value):
        raise ValueError(f"{value!r} is no offset (-1 is latest, -2 earliest)")
    return AtOffset(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_whole(value) and value >= 0
