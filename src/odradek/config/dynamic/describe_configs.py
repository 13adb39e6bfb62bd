"""DescribeConfigs: the value of each setting, its source, and its synonyms.

Synonyms are in order of precedence: this broker's dynamic configuration, the cluster's, the static one, the
default; within each the finer unit first. As in Kafka, the list starts with the described name: preceding
synonyms are omitted, so a setting that is only set by another unit's name has none. Values of secrets are
never included, nor are those of unknown names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from odradek.config import broker, derived, topic
from odradek.config.definition import AnySetting, UpdateMode, split_listener_name
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.config.lookup import find_broker_setting
from odradek.model.protocol_enums import ConfigSource, ConfigType


class DescribedSynonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class DescribedSetting(NamedTuple):
    """Description of one setting; ``value`` is None if it has none or is a secret."""

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
    config: DynamicBrokerConfig, names: Collection[str] | None = None
) -> list[DescribedSetting]:
    """Describe the settings of this broker: all, or those with these names."""
    raw_values = config.effective(config.cluster_overrides, config.broker_overrides)
    described = []
    for setting in broker.BROKER:
        if not setting.unlisted and _is_requested(setting.name, names):
            value = setting.format_value(config.broker[setting])
            described.append(_describe(config, setting.name, setting, value))
    for name, text in raw_values.items():
        if name not in broker.BY_NAME and _is_requested(name, names):
            described.append(_describe(config, name, find_broker_setting(name), text))
    return described


def describe_cluster(
    config: DynamicBrokerConfig, names: Collection[str] | None = None
) -> list[DescribedSetting]:
    """Describe the settings that were set for all brokers at run time."""
    described = []
    for name, text in config.cluster_overrides.items():
        if _is_requested(name, names):
            setting = _describe(config, name, find_broker_setting(name), text)
            source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
            synonyms = tuple(synonym for synonym in setting.synonyms if synonym.source is source)
            described.append(setting._replace(source=source, synonyms=synonyms))
    return described


def describe_topic(
    config: DynamicBrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[DescribedSetting]:
    """Describe the settings of a topic: all, or those with these names."""
    settings = config.topic_settings(overrides)
    described = []
    for setting in topic.TOPIC:
        if not _is_requested(setting.name, names):
            continue
        value = setting.format_value(settings[setting])
        synonyms = _topic_synonyms(config, setting)
        if setting.name in overrides:
            override = DescribedSynonym(setting.name, value, ConfigSource.TOPIC_CONFIG)
            synonyms = (override, *synonyms)
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
        described.append(
            DescribedSetting(
                setting.name, value, source, False, False, synonyms, setting.type, setting.documentation
            )
        )
    return described


def describe_loggers(
    levels: Mapping[str, str], names: Collection[str] | None = None
) -> list[DescribedSetting]:
    """Describe the loggers and their levels: all, or those with these names."""
    source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    return [
        DescribedSetting(name, level, source, False, False, (), ConfigType.UNKNOWN, None)
        for name, level in levels.items()
        if _is_requested(name, names)
    ]


def _is_requested(name: str, names: Collection[str] | None) -> bool:
    return names is None or name in names


def _topic_synonyms(config: DynamicBrokerConfig, setting: AnySetting) -> tuple[DescribedSynonym, ...]:
    synonyms = topic.SYNONYMS.get(setting)
    return () if synonyms is None else _synonyms(config, synonyms[0].setting.name, sensitive=False)


def _describe(
    config: DynamicBrokerConfig, name: str, setting: AnySetting | None, value: str | None
) -> DescribedSetting:
    sensitive = setting is None or setting.sensitive
    synonyms = _synonyms(config, name, sensitive=sensitive)
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


def _synonyms(config: DynamicBrokerConfig, name: str, *, sensitive: bool) -> tuple[DescribedSynonym, ...]:
    synonyms = list(_all_synonyms(config, _names(name)))
    while synonyms and synonyms[0].name != name:
        synonyms.pop(0)
    if sensitive:
        return tuple(synonym._replace(value=None) for synonym in synonyms)
    return tuple(synonyms)


def _all_synonyms(config: DynamicBrokerConfig, names: Iterable[str]) -> Iterator[DescribedSynonym]:
    for layer, source in (
        (config.broker_overrides, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (config.cluster_overrides, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (config.static, ConfigSource.STATIC_BROKER_CONFIG),
    ):
        for name in names:
            if name in layer:
                yield DescribedSynonym(name, layer[name], source)
    for name in names:
        setting = broker.BY_NAME.get(name)  # throttles have no default to Kafka
        text = None if setting is None else setting.format_value(setting.default)
        if text is not None:
            yield DescribedSynonym(name, text, ConfigSource.DEFAULT_CONFIG)


def _names(name: str) -> tuple[str, ...]:
    """Return the names that can set this setting, in order of precedence."""
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
