"""Which partitions a query reads: some named, all of some topics, or all of the topics that fit a pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from odradek.model.errors import ConfigError
from odradek.model.ids import TopicPartition
from odradek.spark.options.offsets import partitions_of

_WAYS: Final = ("assign", "subscribe", "subscribePattern")


@dataclass(frozen=True)
class TopicSelection:
    """Exactly one of the three ways is set."""

    partitions: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    pattern: str | None = None

    @property
    def named_topics(self) -> tuple[str, ...]:
        """Topics that must exist; none for a pattern."""
        return self.topics or tuple(sorted({one.topic for one in self.partitions}))

    def fitting(self, topics: Iterable[str]) -> list[str]:
        """Those of all topics that a pattern means: the whole name must fit, as in Kafka."""
        fits = re.compile(self.pattern or "").fullmatch
        return sorted(topic for topic in topics if fits(topic))

    def chosen(self, counts: Mapping[str, int]) -> list[TopicPartition]:
        """Partitions to read, of topics that have so many; those that do not exist are left out."""
        if self.partitions:
            return [one for one in self.partitions if one.partition < counts.get(one.topic, 0)]
        return [TopicPartition(topic, number) for topic in sorted(counts) for number in range(counts[topic])]

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"subscribePattern {self.pattern!r}"
        return f"subscribe {','.join(self.topics)}" if self.topics else "assign"


def topic_choice(options: Mapping[str, str]) -> TopicSelection:
    """The choice that options make; ``options`` have lower-case names. Raises ConfigError."""
    given = [way for way in _WAYS if way.lower() in options]
    if len(given) != 1:
        found = f"{' and '.join(given)} exclude each other" if given else "no topic is named"
        raise ConfigError([f"{found}: give one of assign, subscribe and subscribePattern"])
    text = options[given[0].lower()].strip()
    match given[0]:
        case "assign":
            return TopicSelection(partitions=tuple(partitions_of("assign", text)))
        case "subscribe":
            return TopicSelection(topics=_topics(text))
    return TopicSelection(pattern=_pattern(text))


def _topics(text: str) -> tuple[str, ...]:
    topics = tuple(sorted({name.strip() for name in text.split(",")} - {""}))
    if not topics:
        raise ConfigError(["subscribe names no topic: give one, or several with commas between them"])
    return topics


def _pattern(text: str) -> str:
    if not text:
        raise ConfigError(["subscribePattern is empty: give a regular expression such as orders-.*"])
    try:
        re.compile(text)
    except re.error as wrong:
        raise ConfigError(
            [f"subscribePattern {text!r} is no regular expression of Python: {wrong}"]
        ) from None
    return text
