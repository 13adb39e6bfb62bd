"""A broker's configuration in layers: default < static < cluster-wide < per-broker < topic override.

``DynamicBrokerConfig`` holds a broker's layers as raw values, and the typed values of all of them together.
The static layer is fixed at start; the two dynamic ones are replaced as a whole when the store changes.
Invalid overrides in them are skipped, because another version may have written them.

A topic setting without an override has the broker's value, according to ``SYNONYMS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from odradek.config import availability, broker, constraints, derived, topic
from odradek.config.broker.throttles import THROTTLES_BY_NAME
from odradek.config.definition import (
    AnySetting,
    InvalidValue,
    Settings,
    UpdateMode,
    parse_settings,
    split_listener_name,
)
from odradek.config.lookup import DYNAMIC_BY_NAME, find_broker_setting
from odradek.model.errors import ConfigError

# Distinct sets of topic overrides whose settings are cached. Most topics share a few sets.
_CACHED_MAX: Final = 1024

# At run time these can only be changed with a listener prefix.
PER_LISTENER_ONLY: Final = frozenset(
    {
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.key.password",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.certificates",
    }
)

# As in Kafka without ``password.encoder.secret``.
PASSWORDS_NOT_STORED: Final = (
    "passwords and keys cannot be changed dynamically, because the cluster's state is not encrypted; set them "
    "in the configuration file, and for certificates use files, which are read again when they change"
)

# These can be changed cluster-wide even with a listener prefix.
CLUSTER_LEVEL_ON_LISTENERS: Final = frozenset(
    {"max.connections", "max.connection.creation.rate", "num.network.threads"}
)


class DynamicBrokerConfig:
    """A broker's current settings. A change replaces ``broker`` and increments ``version``."""

    __slots__ = (
        "_topics",
        "broker",
        "broker_overrides",
        "cluster_overrides",
        "observers",
        "static",
        "throttles",
        "version",
    )

    def __init__(self, static: Mapping[str, str]) -> None:
        """Create from the raw values of the static sources; raises ConfigError if they are invalid."""
        self.static = _with_both_ids(static)
        self.cluster_overrides: Mapping[str, str] = {}
        self.broker_overrides: Mapping[str, str] = {}
        self.version = 0
        self.observers: list[Callable[[Settings], None]] = []
        """Called with ``broker`` after each change."""
        self._topics: dict[tuple[tuple[str, str], ...], Settings] = {}
        self.broker = parse_settings(broker.BY_NAME, self.static)
        self.throttles = parse_settings(THROTTLES_BY_NAME, {})

    def set_broker_id(self, broker_id: int) -> None:
        """Set the generated broker id."""
        self.static = {**self.static, "broker.id": str(broker_id), "node.id": str(broker_id)}
        self._rebuild()

    def set_cluster_overrides(self, overrides: Mapping[str, str]) -> list[str]:
        """Replace the cluster-wide overrides. Returns a line for each override that was skipped."""
        self.cluster_overrides, problems = _valid_overrides(overrides, per_broker=False)
        return problems + self._rebuild()

    def set_broker_overrides(self, overrides: Mapping[str, str]) -> list[str]:
        """Replace this broker's overrides. Returns a line for each override that was skipped."""
        self.broker_overrides, problems = _valid_overrides(overrides, per_broker=True)
        return problems + self._rebuild()

    def effective(self, cluster: Mapping[str, str], per_broker: Mapping[str, str]) -> dict[str, str]:
        """Return the effective raw values with these dynamic layers over the static one."""
        return merge_layers(self.static, cluster, per_broker)

    def topic_settings(self, overrides: Mapping[str, str]) -> Settings:
        """Return a topic's settings. Invalid overrides are skipped; see ``topic_problems``."""
        key = tuple(sorted(overrides.items()))
        settings = self._topics.get(key)
        if settings is None:
            if len(self._topics) >= _CACHED_MAX:
                self._topics.clear()
            settings = self._topics[key] = _topic_settings(self.broker, overrides)
        return settings

    def _rebuild(self) -> list[str]:
        """Recompute the settings; if they are inconsistent, keep the current ones and return the reasons."""
        raw_values = self.effective(self.cluster_overrides, self.broker_overrides)
        try:
            settings = parse_settings(broker.BY_NAME, raw_values)
        except ConfigError as error:
            return list(error.problems)
        if problems := constraints.live_problems(settings, raw_values):
            return problems
        self.broker = settings
        self.throttles = parse_settings(THROTTLES_BY_NAME, raw_values)
        self._topics.clear()
        self.version += 1
        for observer in self.observers:
            observer(settings)
        return []


def merge_layers(*layers: Mapping[str, str]) -> dict[str, str]:
    """Merge layers, later over earlier. A name also overrides its synonyms in earlier layers."""
    merged: dict[str, str] = {}
    for layer in layers:
        for group in derived.SYNONYM_GROUPS:
            if any(name in layer for name in group):
                for name in group:
                    merged.pop(name, None)
        merged.update(layer)
    return merged


def topic_problems(overrides: Mapping[str, str]) -> list[str]:
    """Return one line for each invalid override of a topic."""
    problems = []
    for name, text in overrides.items():
        setting = topic.BY_NAME.get(name)
        if setting is None:
            problems.append(f"unknown topic config {name}")
            continue
        try:
            setting.parse_value(text)
        except InvalidValue as error:
            problems.append(str(error))
    return problems


def dynamic_update_error(name: str, *, per_broker: bool) -> str | None:
    """Return why a known setting cannot be updated dynamically, or None if it can."""
    setting = find_broker_setting(name)
    if setting is not None and setting.sensitive:
        return PASSWORDS_NOT_STORED
    plain = DYNAMIC_BY_NAME.get(name)
    if plain is None:
        split = split_listener_name(name)
        cluster_level = split is not None and split[1] in CLUSTER_LEVEL_ON_LISTENERS
        return None if per_broker or cluster_level else _PER_BROKER_ONLY
    if plain.dynamic is UpdateMode.READ_ONLY:
        return "configs cannot be changed dynamically"
    if name in PER_LISTENER_ONLY:
        return "configs can be changed dynamically only with a listener prefix"
    return None if per_broker or plain.dynamic is UpdateMode.CLUSTER_WIDE else _PER_BROKER_ONLY


_PER_BROKER_ONLY: Final = "configs can be changed only for one broker, not cluster-wide"


def _valid_overrides(overrides: Mapping[str, str], *, per_broker: bool) -> tuple[dict[str, str], list[str]]:
    valid: dict[str, str] = {}
    problems: list[str] = []
    for name, text in overrides.items():
        setting = find_broker_setting(name)
        if setting is None:
            problems.append(f"unknown broker config {name}")
            continue
        if (reason := dynamic_update_error(name, per_broker=per_broker)) is not None:
            problems.append(f"{reason}: {name}")
            continue
        try:
            setting.parse_value(text)
        except InvalidValue as error:
            problems.append(str(error))
            continue
        if unavailable := availability.unavailable_setting_problems({name: text}):
            problems += unavailable
            continue
        valid[name] = text
    return valid, problems


def _with_both_ids(static: Mapping[str, str]) -> dict[str, str]:
    """Copy ``broker.id`` to ``node.id`` or vice versa: they are the same setting."""
    raw_values = dict(static)
    for name, synonym in (("broker.id", "node.id"), ("node.id", "broker.id")):
        if name in raw_values:
            raw_values.setdefault(synonym, raw_values[name])
    return raw_values


def _topic_settings(settings: Settings, overrides: Mapping[str, str]) -> Settings:
    values = {setting: _inherited(settings, setting) for setting in topic.TOPIC}
    for name, text in overrides.items():
        setting = topic.BY_NAME.get(name)
        if setting is None:
            continue
        try:
            values[setting] = setting.parse_value(text)
        except InvalidValue:
            continue
    return Settings(values)


def _inherited(settings: Settings, setting: AnySetting) -> Any:
    """Return the value of a topic setting without an override."""
    if (derive := _DERIVED.get(setting)) is not None:
        return derive(settings)
    synonyms = topic.SYNONYMS.get(setting)
    return setting.default if synonyms is None else settings[synonyms[0].setting]


_DERIVED: Final = {
    topic.RETENTION_MS: derived.retention_ms,
    topic.SEGMENT_MS: derived.roll_ms,
    topic.SEGMENT_JITTER_MS: derived.roll_jitter_ms,
    topic.FLUSH_MS: derived.flush_ms,
    topic.MESSAGE_TIMESTAMP_BEFORE_MAX_MS: derived.timestamp_before_max_ms,
    topic.MESSAGE_TIMESTAMP_AFTER_MAX_MS: derived.timestamp_after_max_ms,
}
