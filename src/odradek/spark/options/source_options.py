"""Options of the topic source, parsed and validated before any request is sent to a cluster. Pure.

Names and defaults are those of Spark's own Kafka source. Names are case-insensitive, because Spark passes
them in lower case. All problems are raised together, as one ``ConfigError``.
"""

from __future__ import annotations

import datetime
import enum
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, TypeVar

from odradek.config.client import CONSUMER
from odradek.model.errors import ConfigError
from odradek.spark.options.client_settings import PREFIX, admin_settings, parse_kafka_options
from odradek.spark.options.offsets import (
    GroupOffset,
    LogBound,
    OffsetLimit,
    SpecificTimestamp,
    parse_offset_limit,
    parse_timestamp_limit,
    parse_topic_strings,
)
from odradek.spark.options.topic_selection import TopicSelection, parse_topic_selection

T = TypeVar("T")

_POLL_TIMEOUT_MS: Final = "120000"
_RETRY_COUNT: Final = "3"
_RETRY_INTERVAL_MS: Final = "1000"
_TRIGGER_DELAY: Final = "15m"
_TRIGGER_OPTIONS: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_ENDING_OPTIONS: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")

_SPARK_NAMES: Final = (
    *("assign", "subscribe", "subscribePattern"),
    *("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp"),
    *("startingOffsetsByTimestampStrategy",),
    *("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"),
    *("failOnDataLoss", "includeHeaders", "groupIdPrefix"),
    *("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"),
    *("minPartitions", "maxRecordsPerPartition"),
    *("fetchOffset.numRetries", "fetchOffset.retryIntervalMs"),
    *("kafkaConsumer.pollTimeoutMs", "partition.metadata.cache.ttl.ms"),
)
_ODRADEK_NAMES: Final = ("groupOffsetsFallback", "commitGroup", "expectedTopicIds")
OPTION_NAMES: Final = {name.lower(): name for name in (*_SPARK_NAMES, *_ODRADEK_NAMES)}

_HINTS: Final = {
    "topic": "use subscribe",
    "topics": "use subscribe, with topics separated by commas",
    "path": "use subscribe",
    "brokers": "use kafka.bootstrap.servers",
    "schema": "use .schema(…) with columns of the source",
    "checkpointlocation": "it is an option of writeStream",
    "guarantee": "it is an option of the sink",
}

_DURATION: Final = re.compile(r"(\d+)\s*([a-z]*)")
_UNIT_MS: Final = {
    **{"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000},
    **{"second": 1000, "seconds": 1000, "minute": 60_000, "minutes": 60_000},
    **{"hour": 3_600_000, "hours": 3_600_000, "day": 86_400_000, "days": 86_400_000},
}
_INT64_MAX: Final = 2**63 - 1
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class QueryType(enum.Enum):
    """Type of the query that options are read for; it decides which options are allowed."""

    SCHEMA = "a schema"
    BATCH = "a batch query"
    STREAM = "a streaming query"


@dataclass(frozen=True)
class TriggerLimits:
    """Limits of a micro-batch: ``maxOffsetsPerTrigger``, ``minOffsetsPerTrigger``, ``maxTriggerDelay``."""

    offsets_max: int | None = None
    offsets_min: int | None = None
    delay_max_ms: int = 0

    def should_wait(self, lag: int, since_last_ms: int | None) -> bool:
        """Return True if a batch of ``lag`` offsets should wait for more records."""
        if self.offsets_min is None or since_last_ms is None or since_last_ms >= self.delay_max_ms:
            return False
        return lag < self.offsets_min


@dataclass(frozen=True)
class SourceOptions:
    """Typed options of the source. Pickled to executors, so it holds plain values only."""

    client_settings: dict[str, str]
    """Consumer settings: the ``kafka.*`` options without their prefix."""
    include_headers: bool = False
    fail_on_data_loss: bool = True
    poll_timeout_ms: int = 120_000
    topics: TopicSelection = field(default_factory=TopicSelection)
    start: OffsetLimit = field(default_factory=lambda: OffsetLimit(LogBound.LATEST))
    end: OffsetLimit = field(default_factory=lambda: OffsetLimit(LogBound.LATEST))
    no_later_record_is_error: bool = True
    """True if a starting timestamp after the last record is an error; else reading starts at the log end."""
    trigger_limits: TriggerLimits = field(default_factory=TriggerLimits)
    range_count_min: int | None = None
    range_offsets_max: int | None = None
    group_id: str | None = None
    commits_group: bool = False
    expected_topic_ids: dict[str, str] = field(default_factory=dict)
    """Ids of the topics that the checkpoint's offsets belong to, where the caller has stored them."""
    retry_count_max: int = 3
    retry_interval_ms: int = 1000
    metadata_age_max_ms: int = 0
    without_effect: tuple[str, ...] = ()
    """Warnings about options that are set and have no effect."""

    @property
    def admin_settings(self) -> dict[str, str]:
        """The client settings that an admin client supports."""
        return admin_settings(self.client_settings)

    @property
    def isolation_level(self) -> str:
        return self.client_settings.get("isolation.level", "read_uncommitted")


def read_source_options(raw_options: Mapping[str, str], query_type: QueryType) -> SourceOptions:
    """Return the validated options; raise ConfigError with all problems.

    >>> raw_options = {"kafka.bootstrap.servers": "b:9092", "subscribe": "castle"}
    >>> read_source_options(raw_options, QueryType.STREAM).start
    OffsetLimit(default=<LogBound.LATEST: 'latest'>, by_partition={})
    """
    parser = _OptionParser({name.lower(): value for name, value in raw_options.items()}, query_type)
    options = parser.options()
    if parser.problems:
        raise ConfigError(parser.problems)
    return options


class _OptionParser:
    """Parses raw options, and collects their problems."""

    def __init__(self, raw_options: Mapping[str, str], query_type: QueryType) -> None:
        self._raw_options = raw_options
        self._query_type = query_type
        self.problems: list[str] = unknown_option_errors(raw_options)

    def options(self) -> SourceOptions:
        kafka = parse_kafka_options(self._raw_options, self.problems)
        group_id = kafka.group_id
        return SourceOptions(
            client_settings=kafka.settings,
            include_headers=self._value("includeHeaders", parse_bool, "false"),
            fail_on_data_loss=self._value("failOnDataLoss", parse_bool, "true"),
            poll_timeout_ms=self._int("kafkaConsumer.pollTimeoutMs", _POLL_TIMEOUT_MS, 1),
            topics=self._try_parse(lambda: parse_topic_selection(self._raw_options), TopicSelection()),
            start=self._start(group_id),
            end=self._end(),
            no_later_record_is_error=self._strategy(),
            trigger_limits=self._trigger_limits(),
            range_count_min=self._optional_int("minPartitions"),
            range_offsets_max=self._optional_int("maxRecordsPerPartition"),
            group_id=group_id,
            commits_group=self._commits_group(group_id),
            expected_topic_ids=self._topic_ids(),
            retry_count_max=self._int("fetchOffset.numRetries", _RETRY_COUNT, 1),
            retry_interval_ms=self._int("fetchOffset.retryIntervalMs", _RETRY_INTERVAL_MS, 0),
            metadata_age_max_ms=self._int("partition.metadata.cache.ttl.ms", "0", 0),
            without_effect=self._without_effect(kafka.unknown),
        )

    # Precedence as in Spark: one timestamp for all, then timestamps by partition, then offsets.

    def _start(self, group_id: str | None) -> OffsetLimit:
        default = LogBound.EARLIEST if self._query_type is QueryType.BATCH else LogBound.LATEST
        limit = self._offset_limit("starting", default)
        if limit.needs_group and group_id is None:
            self.problems.append("startingOffsets=group requires kafka.group.id")
        if self._query_type is QueryType.BATCH and LogBound.LATEST in limit.limits():
            self.problems.append("startingOffsets must not be latest in a batch query: it would read nothing")
        return limit

    def _end(self) -> OffsetLimit:
        if self._query_type is QueryType.STREAM:
            self.problems += [
                f"{option} is not allowed in a streaming query, which does not end"
                for option in _ENDING_OPTIONS
                if option.lower() in self._raw_options
            ]
            return OffsetLimit(LogBound.LATEST)
        limit = self._offset_limit("ending", LogBound.LATEST)
        if LogBound.EARLIEST in limit.limits():
            self.problems.append("endingOffsets must not be earliest: the query would read nothing")
        return limit

    def _offset_limit(self, side: str, default: LogBound) -> OffsetLimit:
        by_time, offsets = f"{side}OffsetsByTimestamp", f"{side}Offsets"
        if (time := self._text(f"{side}Timestamp")) is not None:
            at = self._try_parse(
                lambda: SpecificTimestamp(parse_timestamp_ms(time)), SpecificTimestamp(0), f"{side}Timestamp"
            )
            return OffsetLimit(at)
        if (times := self._text(by_time)) is not None:
            return self._try_parse(
                lambda: parse_timestamp_limit(by_time, times, default, parse_timestamp_ms),
                OffsetLimit(default),
            )
        if (text := self._text(offsets)) is not None:
            return self._try_parse(lambda: self._offsets_limit(offsets, text, default), OffsetLimit(default))
        return OffsetLimit(default)

    def _offsets_limit(self, option: str, text: str, default: LogBound) -> OffsetLimit:
        value = text.strip().lower()
        if value in {edge.value for edge in LogBound}:
            return OffsetLimit(LogBound(value))
        if value == "group" and option == "startingOffsets":
            return OffsetLimit(GroupOffset(self._fallback()))
        if value.startswith("{"):
            return parse_offset_limit(option, text, default)
        allowed = "earliest, latest or group" if option == "startingOffsets" else "latest"
        raise ConfigError(
            [f'{option} must be {allowed}, or offsets such as {{"topic": {{"0": 12}}}}, got {text!r}']
        )

    def _fallback(self) -> LogBound:
        return self._choice("groupOffsetsFallback", {edge.value: edge for edge in LogBound}, "earliest")

    def _strategy(self) -> bool:
        return self._choice("startingOffsetsByTimestampStrategy", {"error": True, "latest": False}, "error")

    # Other options.

    def _trigger_limits(self) -> TriggerLimits:
        most, least = self._optional_int("maxOffsetsPerTrigger"), self._optional_int("minOffsetsPerTrigger")
        if most is not None and least is not None and least > most:
            self.problems.append(
                f"minOffsetsPerTrigger must be <= maxOffsetsPerTrigger ({most}), got {least}"
            )
        return TriggerLimits(most, least, self._value("maxTriggerDelay", parse_duration_ms, _TRIGGER_DELAY))

    def _commits_group(self, group_id: str | None) -> bool:
        commits = self._value("commitGroup", parse_bool, "false" if group_id is None else "true")
        if commits and group_id is None:
            self.problems.append("commitGroup=true requires kafka.group.id")
        return commits

    def _topic_ids(self) -> dict[str, str]:
        text = self._text("expectedTopicIds") or "{}"
        return self._try_parse(lambda: parse_topic_strings("expectedTopicIds", text), {})

    def _without_effect(self, unknown: tuple[str, ...]) -> tuple[str, ...]:
        unknown_settings = [f"{name} is unknown to the client and has no effect" for name in unknown]
        unused = [
            f"{option} has no effect in a batch query"
            for option in _TRIGGER_OPTIONS
            if self._query_type is QueryType.BATCH and option.lower() in self._raw_options
        ]
        return (*unknown_settings, *unused)

    # Single values.

    def _text(self, option: str) -> str | None:
        return self._raw_options.get(option.lower())

    def _value(self, option: str, read: Callable[[str], T], default: str) -> T:
        text = self._text(option)
        return self._try_parse(lambda: read(default if text is None else text), read(default), option)

    def _int(self, option: str, default: str, at_least: int) -> int:
        return self._value(option, lambda text: parse_int(text, at_least), default)

    def _optional_int(self, option: str) -> int | None:
        text = self._text(option)
        return None if text is None else self._try_parse(lambda: parse_int(text, 1), None, option)

    def _choice(self, option: str, choices: Mapping[str, T], default: str) -> T:
        text = (self._text(option) or default).strip().lower()
        if text not in choices:
            self.problems.append(f"{option} must be {' or '.join(choices)}, got {text!r}")
        return choices.get(text, choices[default])

    def _try_parse(self, read: Callable[[], T], otherwise: T, option: str | None = None) -> T:
        """Return the parsed value; on an error add the problem and return ``otherwise``."""
        try:
            return read()
        except ConfigError as error:
            self.problems += [problem for problem in error.problems if problem not in self.problems]
        except ValueError as error:
            self.problems.append(f"{OPTION_NAMES[option.lower()]} {error}" if option else str(error))
        return otherwise


# Names.


def unknown_option_errors(names: Iterable[str]) -> list[str]:
    """Return an error message for each unknown option. ``kafka.*`` is checked by ``client_settings``."""
    return [
        _unknown(name)
        for name in sorted(map(str.lower, names))
        if name not in OPTION_NAMES and not name.startswith(PREFIX)
    ]


def _unknown(name: str) -> str:
    if name in _HINTS:
        return f"{name} is not an option of the source: {_HINTS[name]}"
    if name in CONSUMER.by_name:
        return f"{name} is not an option of the source: client options have a prefix, as in {PREFIX}{name}"
    nearest = get_close_matches(name, OPTION_NAMES, 1)
    hint = f"; did you mean {OPTION_NAMES[nearest[0]]}?" if nearest else ""
    return f"{name} is not an option of the source{hint}"


# Values. A malformed one raises ValueError.


def parse_bool(text: str) -> bool:
    value = text.strip().lower()
    if value not in {"true", "false"}:
        raise ValueError(f"must be true or false, got {text!r}")
    return value == "true"


def parse_int(text: str, at_least: int) -> int:
    """Parse an integer with a minimum.

    >>> parse_int("12", 1)
    12
    """
    try:
        number = int(text.strip())
    except ValueError:
        raise ValueError(f"must be an integer, got {text!r}") from None
    if not at_least <= number <= _INT64_MAX:
        raise ValueError(f"must be >= {at_least}, got {number}")
    return number


def parse_duration_ms(text: str) -> int:
    """Parse a duration with a unit, as Spark does; a bare number is in milliseconds.

    >>> parse_duration_ms("15m")
    900000
    """
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None or match[2] not in _UNIT_MS:
        raise ValueError(f"must be a duration such as 500ms, 30s, 15m or 2h, got {text!r}")
    return int(match[1]) * _UNIT_MS[match[2]]


def parse_timestamp_ms(value: Any) -> int:
    """Parse milliseconds since the epoch, or an ISO 8601 time; a time without an offset is in UTC.

    >>> parse_timestamp_ms("2024-01-01T00:00:00Z") == parse_timestamp_ms(1704067200000)
    True
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    text = value.strip() if isinstance(value, str) else ""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        parsed = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"must be milliseconds since 1970 or an ISO time such as 2024-01-31T12:00:00Z, got {value!r}"
        ) from None
    aware = parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=datetime.UTC)
    since_ms = (aware - _EPOCH) // datetime.timedelta(milliseconds=1)
    if since_ms < 0:
        # ListOffsets uses negative timestamps for the ends of the log.
        raise ValueError(f"must not be before 1970, got {value!r}")
    return since_ms
