"""From ``kafka.*`` options to the settings of our clients. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.client.options.parsing import read_options
from odradek.config.client import ADMIN, CONSUMER
from odradek.config.client.definition import ClientConfigDef
from odradek.model.errors import ConfigError

PREFIX: Final = "kafka."

_REFUSED: Final = {
    "auto.offset.reset": "the checkpoint says where a query goes on: use startingOffsets for where it begins",
    "key.deserializer": "keys are bytes: cast them, or decode them with functions of Spark",
    "value.deserializer": "values are bytes: cast them, or decode them with functions of Spark",
    "enable.auto.commit": "the query itself commits what it has finished: use kafka.group.id and commitGroup",
    "interceptor.classes": "an interceptor could change records: use functions of Spark",
}
# The readers belong to no group; the driver commits for the group that is named.
_OF_GROUPS: Final = ("group.id", "group.instance.id")
_FORCED: Final = {
    "auto.offset.reset": "none",
    # A topic that was deleted must not come back because somebody reads it.
    "allow.auto.create.topics": "false",
}


class KafkaOptions(NamedTuple):
    """What ``kafka.*`` options say to clients, and what none of them knows."""

    settings: dict[str, str]
    group_id: str | None
    unknown: tuple[str, ...]


def kafka_options(options: Mapping[str, str], problems: list[str]) -> KafkaOptions:
    """Settings of a consumer; what is wrong with them goes to ``problems``."""
    given = {
        name.lower().removeprefix(PREFIX): value
        for name, value in options.items()
        if name.lower().startswith(PREFIX)
    }
    problems += [f"{PREFIX}{name} cannot be set: {why}" for name, why in _REFUSED.items() if name in given]
    unknown = sorted(name for name in given if name not in CONSUMER.by_name)
    settings = {
        name: given[name] for name in sorted(given) if name in CONSUMER.by_name and name not in _REFUSED
    }
    problems += _wrong(CONSUMER, settings)
    group_id = settings.get("group.id")
    for name in _OF_GROUPS:
        settings.pop(name, None)
    return KafkaOptions(settings | _FORCED, group_id, tuple(PREFIX + name for name in unknown))


def admin_settings(consumer_settings: Mapping[str, str]) -> dict[str, str]:
    """Those settings of a consumer that an admin client has too."""
    return {name: value for name, value in consumer_settings.items() if name in ADMIN.by_name}


def _wrong(table: ClientConfigDef, settings: Mapping[str, str]) -> list[str]:
    if "bootstrap.servers" not in settings:
        return [f"{PREFIX}bootstrap.servers is missing: give host:port of one or more brokers"]
    try:
        read_options(table, settings, {})
    except ConfigError as wrong:
        return [f"{PREFIX}*: {problem}" for problem in wrong.problems]
    return []
