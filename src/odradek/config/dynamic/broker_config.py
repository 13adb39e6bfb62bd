"""Settings in layers: default < static < cluster-wide < this broker's < the topic's own.

``DynamicBrokerConfig`` holds a broker's layers as texts and gives typed values of all of them together. The
static layer
is fixed at start; the two dynamic ones are replaced whole when the store says so, and what in them cannot be
used is passed over, as it may have been written by another version.

A topic without an override follows the broker: its settings are computed from the broker's by ``SYNONYMS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from odradek.config import availability, broker, constraints, derived, topic
from odradek.config.broker.throttles import THROTTLES_BY_NAME
from odradek.config.definition import InvalidValue, Setting, Settings, UpdateMode, read, split_listener_name
from odradek.config.lookup import DYNAMIC_BY_NAME, find_broker_setting
from odradek.model.errors import ConfigError

# Distinct sets of overrides whose settings are kept computed. Topics mostly share a few; a cluster that has
# more different ones computes some of them anew.
_CACHED_MAX: Final = 1024

# These may differ only by listener while a broker runs, so their plain names cannot be changed then.
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

# With a listener prefix these are still set for the whole cluster.
CLUSTER_LEVEL_ON_LISTENERS: Final = frozenset(
    {"max.connections", "max.connection.creation.rate", "num.network.threads"}
)


class DynamicBrokerConfig:
    """One broker's settings, live. ``broker`` is replaced when a layer changes; ``version`` then grows."""

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
        """``static`` are the texts given in file, variables and arguments; raises ConfigError if unusable."""
        self.static = _with_both_ids(static)
        self.cluster_overrides: Mapping[str, str] = {}
        self.broker_overrides: Mapping[str, str] = {}
        self.version = 0
        self.observers: list[Callable[[Settings], None]] = []
        """Called with the values of ``broker`` when they have changed."""
        self._topics: dict[tuple[tuple[str, str], ...], Settings] = {}
        self.broker = read(broker.BY_NAME, self.static)
        self.throttles = read(THROTTLES_BY_NAME, {})

    def set_broker_id(self, broker_id: int) -> None:
        """Enter the id that this broker was given by the store."""
        self.static = {**self.static, "broker.id": str(broker_id), "node.id": str(broker_id)}
        self._rebuild()

    def set_cluster_overrides(self, overrides: Mapping[str, str]) -> list[str]:
        """Replace the cluster-wide dynamic layer. Gives a line for each override that was passed over."""
        self.cluster_overrides, problems = _usable(overrides, per_broker=False)
        return problems + self._rebuild()

    def set_broker_overrides(self, overrides: Mapping[str, str]) -> list[str]:
        """Replace this broker's own dynamic layer. Gives a line for each override that was passed over."""
        self.broker_overrides, problems = _usable(overrides, per_broker=True)
        return problems + self._rebuild()

    def effective(self, cluster: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
        """Texts that count with these dynamic layers over the static one."""
        return lay(self.static, cluster, own)

    def topic_settings(self, overrides: Mapping[str, str]) -> Settings:
        """A topic's settings. Overrides that cannot be used are passed over; see ``topic_problems``."""
        key = tuple(sorted(overrides.items()))
        found = self._topics.get(key)
        if found is None:
            if len(self._topics) >= _CACHED_MAX:
                self._topics.clear()
            found = self._topics[key] = _topic_settings(self.broker, overrides)
        return found

    def _rebuild(self) -> list[str]:
        """Compute anew; if the layers do not fit together, keep the values there were and say why."""
        texts = self.effective(self.cluster_overrides, self.broker_overrides)
        try:
            settings = read(broker.BY_NAME, texts)
        except ConfigError as wrong:
            return list(wrong.problems)
        if found := constraints.live_problems(settings, texts):
            return found
        self.broker = settings
        self.throttles = read(THROTTLES_BY_NAME, texts)
        self._topics.clear()
        self.version += 1
        for observer in self.observers:
            observer(settings)
        return []


def lay(*layers: Mapping[str, str]) -> dict[str, str]:
    """Later layers over earlier ones. A name puts out its synonyms of the layers below."""
    texts: dict[str, str] = {}
    for layer in layers:
        for group in derived.SYNONYM_GROUPS:
            if any(name in layer for name in group):
                for name in group:
                    texts.pop(name, None)
        texts.update(layer)
    return texts


def topic_problems(overrides: Mapping[str, str]) -> list[str]:
    """What in a topic's stored overrides cannot be used, one line each."""
    found = []
    for name, text in overrides.items():
        setting = topic.BY_NAME.get(name)
        if setting is None:
            found.append(f"Unknown topic config name: {name}")
            continue
        try:
            setting.read(text)
        except InvalidValue as wrong:
            found.append(str(wrong))
    return found


def dynamic_update_error(name: str, *, per_broker: bool) -> str | None:
    """Why a known name cannot stand in a dynamic layer, or None if it can."""
    plain = DYNAMIC_BY_NAME.get(name)
    if plain is None:
        split = split_listener_name(name)
        cluster_level = split is not None and split[1] in CLUSTER_LEVEL_ON_LISTENERS
        return None if per_broker or cluster_level else _NOT_FOR_ALL
    if plain.dynamic is UpdateMode.READ_ONLY:
        return "Cannot update these configs dynamically"
    if name in PER_LISTENER_ONLY:
        return "These security configs can be dynamically updated only per-listener using the listener prefix"
    return None if per_broker or plain.dynamic is UpdateMode.CLUSTER_WIDE else _NOT_FOR_ALL


_NOT_FOR_ALL: Final = "Cannot update these configs at default cluster level, broker id must be specified"


def _usable(overrides: Mapping[str, str], *, per_broker: bool) -> tuple[dict[str, str], list[str]]:
    kept: dict[str, str] = {}
    problems: list[str] = []
    for name, text in overrides.items():
        setting = find_broker_setting(name)
        if setting is None:
            problems.append(f"Unknown broker config name: {name}")
            continue
        if (reason := dynamic_update_error(name, per_broker=per_broker)) is not None:
            problems.append(f"{reason}: {name}")
            continue
        try:
            setting.read(text)
        except InvalidValue as wrong:
            problems.append(str(wrong))
            continue
        if refused := availability.unavailable_setting_problems({name: text}):
            problems += refused
            continue
        kept[name] = text
    return kept, problems


def _with_both_ids(static: Mapping[str, str]) -> dict[str, str]:
    """``broker.id`` and ``node.id`` are one thing; whichever is given is entered under both names."""
    texts = dict(static)
    for one, other in (("broker.id", "node.id"), ("node.id", "broker.id")):
        if one in texts:
            texts.setdefault(other, texts[one])
    return texts


def _topic_settings(settings: Settings, overrides: Mapping[str, str]) -> Settings:
    values = {setting: _inherited(settings, setting) for setting in topic.TOPIC}
    for name, text in overrides.items():
        setting = topic.BY_NAME.get(name)
        if setting is None:
            continue
        try:
            values[setting] = setting.read(text)
        except InvalidValue:
            continue
    return Settings(values)


def _inherited(settings: Settings, setting: Setting[Any]) -> Any:
    """What a topic without an override has."""
    if (rule := _DERIVED.get(setting)) is not None:
        return rule(settings)
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
