"""Client settings from ``kafka.*`` options. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.client.options.parsing import read_options
from odradek.config.client import ADMIN, CONSUMER
from odradek.config.client.definition import ClientConfigDef
from odradek.model.errors import ConfigError

PREFIX: Final = "kafka."

_NOT_ALLOWED: Final = {
    "auto.offset.reset": "the checkpoint decides where a query resumes; use startingOffsets for its start",
    "key.deserializer": "keys are bytes; cast them, or decode them with Spark functions",
    "value.deserializer": "values are bytes; cast them, or decode them with Spark functions",
    "enable.auto.commit": "the query commits its own progress; use kafka.group.id and commitGroup",
    "interceptor.classes": "an interceptor could change records; use Spark functions",
}
# Readers are not members of the group; the driver commits offsets for it.
_GROUP_SETTINGS: Final = ("group.id", "group.instance.id")
_FORCED: Final = {
    "auto.offset.reset": "none",
    # Reading a deleted topic must not create it again.
    "allow.auto.create.topics": "false",
}


class KafkaOptions(NamedTuple):
    """Consumer settings of ``kafka.*`` options, and the options that the consumer does not know."""

    settings: dict[str, str]
    group_id: str | None
    unknown: tuple[str, ...]


def parse_kafka_options(options: Mapping[str, str], problems: list[str]) -> KafkaOptions:
    """Return the consumer settings; add their problems to ``problems``."""
    raw_settings = {
        name.lower().removeprefix(PREFIX): value
        for name, value in options.items()
        if name.lower().startswith(PREFIX)
    }
    problems += [
        f"{PREFIX}{name} cannot be set: {reason}"
        for name, reason in _NOT_ALLOWED.items()
        if name in raw_settings
    ]
    unknown = sorted(name for name in raw_settings if name not in CONSUMER.by_name)
    settings = {
        name: raw_settings[name]
        for name in sorted(raw_settings)
        if name in CONSUMER.by_name and name not in _NOT_ALLOWED
    }
    problems += _setting_problems(CONSUMER, settings)
    group_id = settings.get("group.id")
    for name in _GROUP_SETTINGS:
        settings.pop(name, None)
    return KafkaOptions(settings | _FORCED, group_id, tuple(PREFIX + name for name in unknown))


def admin_settings(consumer_settings: Mapping[str, str]) -> dict[str, str]:
    """Return the consumer settings that an admin client supports."""
    return {name: value for name, value in consumer_settings.items() if name in ADMIN.by_name}


def _setting_problems(table: ClientConfigDef, settings: Mapping[str, str]) -> list[str]:
    if "bootstrap.servers" not in settings:
        return [f"{PREFIX}bootstrap.servers is required: set it to host:port of one or more brokers"]
    try:
        read_options(table, settings, {})
    except ConfigError as error:
        return [f"{PREFIX}*: {problem}" for problem in error.problems]
    return []
