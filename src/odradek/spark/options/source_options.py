"""The options of the source, read once and checked before anything is asked of a cluster.

Names and defaults are those of Spark's own Kafka source; names are read in any case, as Spark hands them over
in lower case. All that is wrong is raised at once, as one ``ConfigError``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from odradek.model.errors import ConfigError
from odradek.spark.options.admission import Pace
from odradek.spark.options.client_settings import admin_settings, kafka_options
from odradek.spark.options.names import NAMES, unknown_names
from odradek.spark.options.offsets import (
    AtCommit,
    AtTime,
    Edge,
    Position,
    position_of_offsets,
    position_of_times,
    texts_of,
)
from odradek.spark.options.topic_selection import TopicSelection, topic_choice
from odradek.spark.options.values import duration_ms, timestamp_ms, truth, whole

T = TypeVar("T")

_POLL_TIMEOUT_MS: Final = "120000"
_RETRY_COUNT: Final = "3"
_RETRY_INTERVAL_MS: Final = "1000"
_TRIGGER_DELAY: Final = "15m"
_TRIGGERING: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_ENDING: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")


class Use(enum.Enum):
    """What options are read for; some are refused in one use and not in another."""

    SCHEMA = "a schema"
    BATCH = "a batch query"
    STREAM = "a streaming query"


@dataclass(frozen=True)
class SourceOptions:
    """What the user asked for, in types. It travels to executors, so it holds plain values only."""

    client_settings: dict[str, str]
    """Kafka's names without ``kafka.``, all known to our consumer."""
    include_headers: bool = False
    fail_on_data_loss: bool = True
    poll_timeout_ms: int = 120_000
    topics: TopicSelection = field(default_factory=TopicSelection)
    start: Position = field(default_factory=lambda: Position(Edge.LATEST))
    end: Position = field(default_factory=lambda: Position(Edge.LATEST))
    no_later_record_is_error: bool = True
    """Whether a starting time after the last record is an error; else reading starts at the end."""
    pace: Pace = field(default_factory=Pace)
    range_count_min: int | None = None
    range_offsets_max: int | None = None
    group_id: str | None = None
    commits_group: bool = False
    expected_topic_ids: dict[str, str] = field(default_factory=dict)
    """Topics that the offsets in the checkpoint were said of, where somebody has kept their ids."""
    retry_count_max: int = 3
    retry_interval_ms: int = 1000
    layout_age_max_ms: int = 0
    without_effect: tuple[str, ...] = ()
    """Sentences about options that were given and do nothing here: worth a warning, no more."""

    @property
    def admin_settings(self) -> dict[str, str]:
        """Those client settings that an admin client has too."""
        return admin_settings(self.client_settings)

    @property
    def isolation_level(self) -> str:
        return self.client_settings.get("isolation.level", "read_uncommitted")


def read_source_options(given: Mapping[str, str], use: Use) -> SourceOptions:
    """Checked options; raises ConfigError with everything that is wrong.

    >>> read_source_options({"kafka.bootstrap.servers": "b:9092", "subscribe": "castle"}, Use.STREAM).start
    Position(default=<Edge.LATEST: 'latest'>, given={})
    """
    reading = _Reading({name.lower(): value for name, value in given.items()}, use)
    options = reading.options()
    if reading.problems:
        raise ConfigError(reading.problems)
    return options


class _Reading:
    """Options being read, and what is wrong with them so far."""

    def __init__(self, given: Mapping[str, str], use: Use) -> None:
        self._given = given
        self._use = use
        self.problems: list[str] = unknown_names(given)

    def options(self) -> SourceOptions:
        kafka = kafka_options(self._given, self.problems)
        group_id = kafka.group_id
        return SourceOptions(
            client_settings=kafka.settings,
            include_headers=self._value("includeHeaders", truth, "false"),
            fail_on_data_loss=self._value("failOnDataLoss", truth, "true"),
            poll_timeout_ms=self._whole("kafkaConsumer.pollTimeoutMs", _POLL_TIMEOUT_MS, 1),
            topics=self._attempt(lambda: topic_choice(self._given), TopicSelection()),
            start=self._start(group_id),
            end=self._end(),
            no_later_record_is_error=self._strategy(),
            pace=self._pace(),
            range_count_min=self._optional("minPartitions"),
            range_offsets_max=self._optional("maxRecordsPerPartition"),
            group_id=group_id,
            commits_group=self._commits_group(group_id),
            expected_topic_ids=self._topic_ids(),
            retry_count_max=self._whole("fetchOffset.numRetries", _RETRY_COUNT, 1),
            retry_interval_ms=self._whole("fetchOffset.retryIntervalMs", _RETRY_INTERVAL_MS, 0),
            layout_age_max_ms=self._whole("partition.metadata.cache.ttl.ms", "0", 0),
            without_effect=self._without_effect(kafka.unknown),
        )

    # Positions: a time for all goes before times by partition, and these before offsets, as in Spark.

    def _start(self, group_id: str | None) -> Position:
        default = Edge.EARLIEST if self._use is Use.BATCH else Edge.LATEST
        position = self._position("starting", default)
        if position.needs_group and group_id is None:
            self.problems.append("startingOffsets=group needs kafka.group.id: whose offsets are meant?")
        if self._use is Use.BATCH and Edge.LATEST in position.spots():
            self.problems.append("startingOffsets cannot be latest in a batch query: it would read nothing")
        return position

    def _end(self) -> Position:
        if self._use is Use.STREAM:
            self.problems += [
                f"{option} has no place in a streaming query, which does not end"
                for option in _ENDING
                if option.lower() in self._given
            ]
            return Position(Edge.LATEST)
        position = self._position("ending", Edge.LATEST)
        if Edge.EARLIEST in position.spots():
            self.problems.append("endingOffsets cannot be earliest: the query would read nothing")
        return position

    def _position(self, side: str, default: Edge) -> Position:
        by_time, offsets = f"{side}OffsetsByTimestamp", f"{side}Offsets"
        if (time := self._text(f"{side}Timestamp")) is not None:
            at = self._attempt(lambda: AtTime(timestamp_ms(time)), AtTime(0), f"{side}Timestamp")
            return Position(at)
        if (times := self._text(by_time)) is not None:
            return self._attempt(
                lambda: position_of_times(by_time, times, default, timestamp_ms), Position(default)
            )
        if (text := self._text(offsets)) is not None:
            return self._attempt(lambda: self._of_offsets(offsets, text, default), Position(default))
        return Position(default)

    def _of_offsets(self, option: str, text: str, default: Edge) -> Position:
        word = text.strip().lower()
        if word in {edge.value for edge in Edge}:
            return Position(Edge(word))
        if word == "group" and option == "startingOffsets":
            return Position(AtCommit(self._fallback()))
        if word.startswith("{"):
            return position_of_offsets(option, text, default)
        words = "earliest, latest or group" if option == "startingOffsets" else "latest"
        raise ConfigError(
            [f'{option} must be {words}, or offsets such as {{"topic": {{"0": 12}}}}, not {text!r}']
        )

    def _fallback(self) -> Edge:
        return self._choice("groupOffsetsFallback", {edge.value: edge for edge in Edge}, "earliest")

    def _strategy(self) -> bool:
        return self._choice("startingOffsetsByTimestampStrategy", {"error": True, "latest": False}, "error")

    # The rest.

    def _pace(self) -> Pace:
        most, least = self._optional("maxOffsetsPerTrigger"), self._optional("minOffsetsPerTrigger")
        if most is not None and least is not None and least > most:
            self.problems.append(
                f"minOffsetsPerTrigger ({least}) must not be above maxOffsetsPerTrigger ({most})"
            )
        return Pace(most, least, self._value("maxTriggerDelay", duration_ms, _TRIGGER_DELAY))

    def _commits_group(self, group_id: str | None) -> bool:
        commits = self._value("commitGroup", truth, "false" if group_id is None else "true")
        if commits and group_id is None:
            self.problems.append("commitGroup needs kafka.group.id: for which group are offsets committed?")
        return commits

    def _topic_ids(self) -> dict[str, str]:
        text = self._text("expectedTopicIds") or "{}"
        return self._attempt(lambda: texts_of("expectedTopicIds", text), {})

    def _without_effect(self, unknown: tuple[str, ...]) -> tuple[str, ...]:
        strange = [f"{name} is not known to the client and has no effect" for name in unknown]
        idle = [
            f"{option} has no effect in a batch query"
            for option in _TRIGGERING
            if self._use is Use.BATCH and option.lower() in self._given
        ]
        return (*strange, *idle)

    # One value.

    def _text(self, option: str) -> str | None:
        return self._given.get(option.lower())

    def _value(self, option: str, read: Callable[[str], T], default: str) -> T:
        text = self._text(option)
        return self._attempt(lambda: read(default if text is None else text), read(default), option)

    def _whole(self, option: str, default: str, at_least: int) -> int:
        return self._value(option, lambda text: whole(text, at_least), default)

    def _optional(self, option: str) -> int | None:
        text = self._text(option)
        return None if text is None else self._attempt(lambda: whole(text, 1), None, option)

    def _choice(self, option: str, choices: Mapping[str, T], default: str) -> T:
        text = (self._text(option) or default).strip().lower()
        if text not in choices:
            self.problems.append(f"{option} must be {' or '.join(choices)}, not {text!r}")
        return choices.get(text, choices[default])

    def _attempt(self, read: Callable[[], T], otherwise: T, option: str | None = None) -> T:
        """What is read; if it is wrong, that is noted and something else takes its place."""
        try:
            return read()
        except ConfigError as wrong:
            self.problems += [problem for problem in wrong.problems if problem not in self.problems]
        except ValueError as wrong:
            self.problems.append(f"{NAMES[option.lower()]} {wrong}" if option else str(wrong))
        return otherwise
