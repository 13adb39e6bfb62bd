"""The options of the sink, read once and checked on the driver, before a task has sent anything.

Names, defaults and columns are those of Spark's own Kafka sink; ``guarantee`` and what belongs to it is ours.
Keys arrive in lower case, whatever the user wrote.
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
_LIKENESS_MIN: Final = 0.8
"""From here on an unknown name is taken for a slip of the pen; below, for an option of somebody else's."""
_SINK_DEFAULTS: Final = {"max.block.ms": "120000"}
"""As long as ``delivery.timeout.ms``: a broker that restarts stops neither records sent nor those to come."""
TRANSACTION_TIMEOUT_MS_DEFAULT: Final = 10 * 60 * 1000
"""A task has to end within this; brokers allow 15 minutes unless they are told otherwise."""
_FIXED_BY_SINK: Final = {
    "key.serializer": "keys are sent as they are: cast the column key to string or binary",
    "value.serializer": "values are sent as they are: cast the column value to string or binary",
    "transactional.id": "the sink makes one for each query and partition: use transactionalIdPrefix",
}


class MissingMarkers(enum.StrEnum):
    """Treatment of a batch of which nobody can tell whether it was written."""

    FAIL = "fail"
    WRITE = "write"


class Guarantee(enum.StrEnum):
    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE = "exactly_once"


@dataclass(frozen=True)
class SinkOptions:
    """What the user asked for. It travels to executors, so it holds plain values only."""

    producer_settings: dict[str, str]
    """Kafka's names without ``kafka.``, all known to our producer."""
    topic: str | None = None
    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    transactional_id_prefix: str = "odradek-sink"
    marker_topic: str = "__pipeline_markers"
    sink_id: str | None = None
    missing_markers: MissingMarkers = MissingMarkers.FAIL

    @property
    def admin_settings(self) -> dict[str, str]:
        """What an admin client of the same cluster is made with."""
        return {name: value for name, value in self.producer_settings.items() if name in ADMIN.by_name}


def read_sink_options(given: Mapping[str, str], *, is_streaming: bool) -> SinkOptions:
    """Checked options; raises ConfigError with all that is wrong."""
    options = {key.lower(): value for key, value in given.items()}
    problems = [*_misspelt(options), *_fixed(options)]
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


def _misspelt(options: Mapping[str, str]) -> Iterator[str]:
    for key in sorted(options):
        if key in _OWN_BY_KEY or key.startswith(_CLIENT_PREFIX):
            continue
        if key in PRODUCER.by_name:
            yield f"the sink has no option {key}: say {_CLIENT_PREFIX}{key}, as of all options of the client"
        elif nearest := get_close_matches(key, _OWN_BY_KEY, 1, _LIKENESS_MIN):
            yield f"the sink has no option {key}; did you mean {_OWN_BY_KEY[nearest[0]]}?"


def _fixed(options: Mapping[str, str]) -> Iterator[str]:
    for name, reason in _FIXED_BY_SINK.items():
        if _CLIENT_PREFIX + name in options:
            yield f"kafka.{name} cannot be given: {reason}"


def _guarantee(given: str | None, problems: list[str]) -> Guarantee:
    if given is None:
        return Guarantee.AT_LEAST_ONCE
    try:
        return Guarantee(given.lower().replace("-", "_"))
    except ValueError:
        problems.append(f"guarantee is {' or '.join(Guarantee)}, not {given!r}")
        return Guarantee.AT_LEAST_ONCE


def _missing_markers(given: str | None, problems: list[str]) -> MissingMarkers:
    if given is None:
        return MissingMarkers.FAIL
    try:
        return MissingMarkers(given.lower())
    except ValueError:
        problems.append(f"missingMarkers must be {' or '.join(MissingMarkers)}, got {given!r}")
        return MissingMarkers.FAIL


def _exactly_once_problems(
    options: Mapping[str, str], sink_id: str | None, *, is_streaming: bool
) -> Iterator[str]:
    if options.get("kafka.acks", "all") not in {"all", "-1"}:
        yield "guarantee=exactly_once needs kafka.acks=all: leave kafka.acks out"
    if options.get("kafka.enable.idempotence", "true").lower() != "true":
        yield "guarantee=exactly_once needs kafka.enable.idempotence=true: leave it out"
    if not is_streaming and sink_id is None:
        yield (
            "guarantee=exactly_once of a batch write needs the option sinkId: a name for this very write, "
            "under which it can be run again without writing twice"
        )
    if is_streaming and sink_id is not None:
        yield "sinkId is for batch writes: a streaming query is known by the id in its checkpoint"


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
            _warn_of_unknown(key)
    return settings


def _client_problems(settings: Mapping[str, str]) -> list[str]:
    if not settings.get("bootstrap.servers"):
        return ["kafka.bootstrap.servers is missing: give host:port of one or more brokers"]
    try:
        read_options(PRODUCER, settings, {})
    except ConfigError as wrong:
        return [f"{_CLIENT_PREFIX}*: {problem}" for problem in wrong.problems]
    return []


@lru_cache(maxsize=64)  # writers are made anew for each micro-batch, and one warning is enough
def _warn_of_unknown(key: str) -> None:
    _log.warning("option_ignored", option=key, reason="our producer has no such option")
