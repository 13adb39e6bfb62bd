"""What DescribeConfigs tells: for each setting its value, where it came from, and what lies beneath.

The list of synonyms is ordered as values count: this broker's dynamic layer, the cluster's, the static one,
the default; within a layer the finer unit first. As in Kafka it begins with the described name itself: what
stands before that is left out, so that a setting that has a value only under another unit's name has none.
Values of secrets are never given, nor are those of names that no table knows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from odradek.config import broker, derived, topic
from odradek.config.broker.throttles import THROTTLES_BY_NAME
from odradek.config.definition import Setting, UpdateMode, split_listener_name
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.config.lookup import find_broker_setting
from odradek.model.protocol_enums import ConfigSource, ConfigType


class DescribedSynonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class DescribedSetting(NamedTuple):
    """One setting as described; ``value`` is None if it has none or must not be told."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    synonyms: tuple[DescribedSynonym, ...]
    type: ConfigType
    documentation: str | None

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT_CONFIG


def describe_broker(
    layers: DynamicBrokerConfig, names: Collection[str] | None = None
) -> list[DescribedSetting]:
    """All settings of this broker, or those of the given names that exist."""
    texts = layers.effective(layers.cluster_overrides, layers.broker_overrides)
    facts = []
    for setting in broker.BROKER:
        if not setting.unlisted and _wanted(setting.name, names):
            value = setting.text(layers.broker[setting])
            facts.append(_broker_fact(layers, setting.name, setting, value))
    for name, text in texts.items():
        if name not in broker.BY_NAME and _wanted(name, names):
            facts.append(_broker_fact(layers, name, find_broker_setting(name), text))
    return facts


def describe_cluster(
    layers: DynamicBrokerConfig, names: Collection[str] | None = None
) -> list[DescribedSetting]:
    """What has been set for all brokers at run time, and nothing else."""
    facts = []
    for name, text in layers.cluster_overrides.items():
        if _wanted(name, names):
            fact = _broker_fact(layers, name, find_broker_setting(name), text)
            source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
            kept = tuple(synonym for synonym in fact.synonyms if synonym.source is source)
            facts.append(fact._replace(source=source, synonyms=kept))
    return facts


def describe_topic(
    layers: DynamicBrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[DescribedSetting]:
    """All settings of a topic with these overrides, or those of the given names that exist."""
    settings = layers.topic_settings(overrides)
    facts = []
    for setting in topic.TOPIC:
        if not _wanted(setting.name, names):
            continue
        value = setting.text(settings[setting])
        synonyms = _topic_synonyms(layers, setting)
        if setting.name in overrides:
            own = DescribedSynonym(setting.name, value, ConfigSource.TOPIC_CONFIG)
            synonyms = (own, *synonyms)
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
        facts.append(
            DescribedSetting(
                setting.name, value, source, False, False, synonyms, setting.type, setting.documentation
            )
        )
    return facts


def describe_loggers(
    levels: Mapping[str, str], names: Collection[str] | None = None
) -> list[DescribedSetting]:
    """All loggers with their levels, or those of the given names that exist."""
    source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    return [
        DescribedSetting(name, level, source, False, False, (), ConfigType.UNKNOWN, None)
        for name, level in levels.items()
        if _wanted(name, names)
    ]


def _wanted(name: str, names: Collection[str] | None) -> bool:
    return names is None or name in names


def _topic_synonyms(layers: DynamicBrokerConfig, setting: Setting[Any]) -> tuple[DescribedSynonym, ...]:
    synonyms = topic.SYNONYMS.get(setting)
    return () if synonyms is None else _synonyms(layers, synonyms[0].setting.name, sensitive=False)


def _broker_fact(
    layers: DynamicBrokerConfig, name: str, setting: Setting[Any] | None, value: str | None
) -> DescribedSetting:
    sensitive = setting is None or setting.sensitive
    synonyms = _synonyms(layers, name, sensitive=sensitive)
    dynamic = setting is not None and setting.name == name and setting.dynamic is not UpdateMode.READ_ONLY
    return DescribedSetting(
        name,
        None if sensitive else value,
        synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        not dynamic,
        sensitive,
        synonyms,
        ConfigType.UNKNOWN if setting is None else setting.type,
        None if setting is None else setting.documentation,
    )


def _synonyms(layers: DynamicBrokerConfig, name: str, *, sensitive: bool) -> tuple[DescribedSynonym, ...]:
    found = list(_all_synonyms(layers, _names(name)))
    while found and found[0].name != name:
        found.pop(0)
    return tuple(fact._replace(value=None) for fact in found) if sensitive else tuple(found)


def _all_synonyms(layers: DynamicBrokerConfig, names: Iterable[str]) -> Iterator[DescribedSynonym]:
    for layer, source in (
        (layers.broker_overrides, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (layers.cluster_overrides, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (layers.static, ConfigSource.STATIC_BROKER_CONFIG),
    ):
        for name in names:
            if name in layer:
                yield DescribedSynonym(name, layer[name], source)
    for name in names:
        setting = broker.BY_NAME.get(name) or THROTTLES_BY_NAME.get(name)
        text = None if setting is None else setting.text(setting.default)
        if text is not None:
            yield DescribedSynonym(name, text, ConfigSource.DEFAULT_CONFIG)


def _names(name: str) -> tuple[str, ...]:
    """The names under which a value of this one may be given, the one that counts first."""
    group = _GROUPS.get(name)
    if group is not None:
        return group
    if split_listener_name(name) is not None and (setting := find_broker_setting(name)) is not None:
        return (name, setting.name)
    return (name,)


_GROUPS: Final = {
    **{name: group for group in derived.SYNONYM_GROUPS for name in group},
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
}
