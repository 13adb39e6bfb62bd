"""Selection of the partitions that a query reads: ``assign``, ``subscribe`` or ``subscribePattern``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from odradek.model.errors import ConfigError
from odradek.model.ids import TopicPartition
from odradek.spark.options.offsets import parse_partitions

_OPTIONS: Final = ("assign", "subscribe", "subscribePattern")


@dataclass(frozen=True)
class TopicSelection:
    """Partitions, topics or a pattern: exactly one of the three is set."""

    partitions: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    pattern: str | None = None

    @property
    def named_topics(self) -> tuple[str, ...]:
        """Topics that must exist; none for a pattern."""
        return self.topics or tuple(sorted({partition.topic for partition in self.partitions}))

    def matching(self, topics: Iterable[str]) -> list[str]:
        """Return the topics whose whole name matches the pattern, as in Kafka."""
        matches = re.compile(self.pattern or "").fullmatch
        return sorted(topic for topic in topics if matches(topic))

    def selected(self, partition_counts: Mapping[str, int]) -> list[TopicPartition]:
        """Return the existing partitions to read, given the partition count of each topic."""
        if self.partitions:
            return [
                partition
                for partition in self.partitions
                if partition.partition < partition_counts.get(partition.topic, 0)
            ]
        return [
            TopicPartition(topic, number)
            for topic in sorted(partition_counts)
            for number in range(partition_counts[topic])
        ]

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"subscribePattern {self.pattern!r}"
        return f"subscribe {','.join(self.topics)}" if self.topics else "assign"


def parse_topic_selection(options: Mapping[str, str]) -> TopicSelection:
    """Parse the selection from options with lower-case names; raise ConfigError."""
    present = [option for option in _OPTIONS if option.lower() in options]
    if len(present) != 1:
        got = " and ".join(present) or "none"
        raise ConfigError([f"exactly one of assign, subscribe and subscribePattern must be set, got {got}"])
    text = options[present[0].lower()].strip()
    match present[0]:
        case "assign":
            return TopicSelection(partitions=tuple(parse_partitions("assign", text)))
        case "subscribe":
            return TopicSelection(topics=_topics(text))
    return TopicSelection(pattern=_pattern(text))


def _topics(text: str) -> tuple[str, ...]:
    topics = tuple(sorted({name.strip() for name in text.split(",")} - {""}))
    if not topics:
        raise ConfigError(["subscribe must name at least one topic; separate topics by commas"])
    return topics


def _pattern(text: str) -> str:
    if not text:
        raise ConfigError(["subscribePattern must be a regular expression such as orders-.*, got ''"])
    try:
        re.compile(text)
    except re.error as error:
        raise ConfigError(
            [f"subscribePattern must be a Python regular expression, got {text!r}: {error}"]
        ) from None
    return text
