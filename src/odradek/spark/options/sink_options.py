"""Options of the topic sink, parsed and validated on the driver, before a task sends a record.

Names, defaults and columns are those of Spark's own Kafka sink; ``guarantee`` and its options are Odradek's.
Spark passes names in lower case.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Final

from odradek.client.options.parsing import read_options
from odradek.config.client import ADMIN, PRODUCER
from odradek.model.errors import ConfigError
from odradek.telemetry import events

_log: Final = events.logger("spark")

_CLIENT_PREFIX: Final = "kafka."
_OWN_NAMES: Final = ("topic", "guarantee", "transactionalIdPrefix", "markerTopic", "sinkId", "missingMarkers")
_OWN_BY_KEY: Final = {name.lower(): name for name in _OWN_NAMES}
_SIMILARITY_MIN: Final = 0.8
"""Similarity from which an unknown name counts as a misspelling; below, it may be another library's."""
_SINK_DEFAULTS: Final = {"max.block.ms": "120000"}
"""Equal to ``delivery.timeout.ms``: a broker restart fails neither sent records nor new ones."""
TRANSACTION_TIMEOUT_MS_DEFAULT: Final = 10 * 60 * 1000
"""A task must end within this time; brokers allow 15 minutes by default (transaction.max.timeout.ms)."""
_FIXED_BY_SINK: Final = {
    "key.serializer": "keys are sent unchanged; cast the column key to string or binary",
    "value.serializer": "values are sent unchanged; cast the column value to string or binary",
    "transactional.id": "the sink derives one per query and partition; use transactionalIdPrefix",
}


class MissingMarkers(enum.StrEnum):
    """Treatment of a batch for which it is unknown whether it was written."""

    FAIL = "fail"
    WRITE = "write"


class Guarantee(enum.StrEnum):
    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE = "exactly_once"


@dataclass(frozen=True)
class SinkOptions:
    """Typed options of the sink. Pickled to executors, so it holds plain values only."""

    producer_settings: dict[str, str]
    """Producer settings: the ``kafka.*`` options without their prefix."""
    topic: str | None = None
    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    transactional_id_prefix: str = "odradek-sink"
    marker_topic: str = "__pipeline_markers"
    sink_id: str | None = None
    missing_markers: MissingMarkers = MissingMarkers.FAIL

    @property
    def admin_settings(self) -> dict[str, str]:
        """The producer settings that an admin client supports."""
        return {name: value for name, value in self.producer_settings.items() if name in ADMIN.by_name}


def read_sink_options(raw_options: Mapping[str, str], *, is_streaming: bool) -> SinkOptions:
    """Return the validated options; raise ConfigError with all problems."""
    options = {key.lower(): value for key, value in raw_options.items()}
    problems = [*_unknown_options(options), *_fixed_settings(options)]
    guarantee = _guarantee(options.get("guarantee"), problems)
    missing_markers = _missing_markers(options.get("missingmarkers"), problems)
    sink_id = options.get("sinkid") or None
    if guarantee is Guarantee.EXACTLY_ONCE:
        problems += _exactly_once_problems(options, sink_id, is_streaming=is_streaming)
    settings = _producer_settings(options, guarantee)
    problems += _client_problems(settings)
    if problems:
        raise ConfigError(problems)
    return SinkOptions(
        producer_settings=settings,
        topic=options.get("topic") or None,
        guarantee=guarantee,
        transactional_id_prefix=options.get("transactionalidprefix") or SinkOptions.transactional_id_prefix,
        marker_topic=options.get("markertopic") or SinkOptions.marker_topic,
        sink_id=sink_id,
        missing_markers=missing_markers,
    )


def _unknown_options(options: Mapping[str, str]) -> Iterator[str]:
    for key in sorted(options):
        if key in _OWN_BY_KEY or key.startswith(_CLIENT_PREFIX):
            continue
        if key in PRODUCER.by_name:
            yield f"the sink has no option {key}: client options have a prefix, as in {_CLIENT_PREFIX}{key}"
        elif nearest := get_close_matches(key, _OWN_BY_KEY, 1, _SIMILARITY_MIN):
            yield f"the sink has no option {key}; did you mean {_OWN_BY_KEY[nearest[0]]}?"


def _fixed_settings(options: Mapping[str, str]) -> Iterator[str]:
    for name, reason in _FIXED_BY_SINK.items():
        if _CLIENT_PREFIX + name in options:
            yield f"kafka.{name} cannot be set: {reason}"


def _guarantee(text: str | None, problems: list[str]) -> Guarantee:
    if text is None:
        return Guarantee.AT_LEAST_ONCE
    try:
        return Guarantee(text.lower().replace("-", "_"))
    except ValueError:
        problems.append(f"guarantee must be {' or '.join(Guarantee)}, got {text!r}")
        return Guarantee.AT_LEAST_ONCE


def _missing_markers(text: str | None, problems: list[str]) -> MissingMarkers:
    if text is None:
        return MissingMarkers.FAIL
    try:
        return MissingMarkers(text.lower())
    except ValueError:
        problems.append(f"missingMarkers must be {' or '.join(MissingMarkers)}, got {text!r}")
        return MissingMarkers.FAIL


def _exactly_once_problems(
    options: Mapping[str, str], sink_id: str | None, *, is_streaming: bool
) -> Iterator[str]:
    if options.get("kafka.acks", "all") not in {"all", "-1"}:
        yield "guarantee=exactly_once requires kafka.acks=all: remove kafka.acks"
    if options.get("kafka.enable.idempotence", "true").lower() != "true":
        yield "guarantee=exactly_once requires kafka.enable.idempotence=true: remove it"
    if not is_streaming and sink_id is None:
        yield (
            "guarantee=exactly_once requires the option sinkId in a batch write: an id of this write, "
            "so that running it again does not write it twice"
        )
    if is_streaming and sink_id is not None:
        yield "sinkId is for batch writes only; a streaming query has the id in its checkpoint"


def _producer_settings(options: Mapping[str, str], guarantee: Guarantee) -> dict[str, str]:
    settings = dict(_SINK_DEFAULTS)
    if guarantee is Guarantee.EXACTLY_ONCE:
        settings["transaction.timeout.ms"] = str(TRANSACTION_TIMEOUT_MS_DEFAULT)
    for key, value in sorted(options.items()):
        name = key.removeprefix(_CLIENT_PREFIX)
        if name == key or name in _FIXED_BY_SINK:
            continue
        if name in PRODUCER.by_name:
            settings[name] = value
        else:
            _warn_unknown(key)
    return settings


def _client_problems(settings: Mapping[str, str]) -> list[str]:
    if not settings.get("bootstrap.servers"):
        return ["kafka.bootstrap.servers is required: set it to host:port of one or more brokers"]
    try:
        read_options(PRODUCER, settings, {})
    except ConfigError as error:
        return [f"{_CLIENT_PREFIX}*: {problem}" for problem in error.problems]
    return []


@lru_cache(maxsize=64)  # a writer is created for each micro-batch, and one warning is enough
def _warn_unknown(key: str) -> None:
    _log.warning("option_ignored", option=key, reason="the producer has no such option")
