"""AlterConfigs and IncrementalAlterConfigs: current overrides and what is asked → new overrides or a refusal.

Nothing here writes: the caller stores what it is given. Refusals carry Kafka 3.9's codes: a broker's setting
that cannot be is INVALID_REQUEST, a topic's is INVALID_CONFIG, a malformed request is INVALID_REQUEST.

One difference: Kafka takes names it does not know for a broker, for the sake of plugins. There are none here,
so an unknown name can only be a mistake and is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from odradek.config import availability, broker, constraints, listeners, topic
from odradek.config.definition import InvalidValue, Setting, Settings, read
from odradek.config.dynamic.broker_config import DynamicBrokerConfig, dynamic_update_error
from odradek.config.lookup import DYNAMIC_BY_NAME, find_broker_setting
from odradek.model.errors import BrokerError, ConfigError, ErrorCode
from odradek.model.protocol_enums import AlterOp, ConfigType


class AlterOperation(NamedTuple):
    """One change that IncrementalAlterConfigs asks for; ``op`` as on the wire."""

    name: str
    op: int
    value: str | None


def alter_topic(
    layers: DynamicBrokerConfig, current: Mapping[str, str], operations: Sequence[AlterOperation]
) -> dict[str, str]:
    """A topic's overrides after the operations."""
    overrides = apply_operations(current, operations, topic.BY_NAME)
    check_topic(layers, overrides)
    return overrides


def replace_topic(layers: DynamicBrokerConfig, entries: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    """A topic's overrides as AlterConfigs gives them: whole."""
    overrides = _without_nulls(entries)
    check_topic(layers, overrides)
    return overrides


def create_topic(layers: DynamicBrokerConfig, entries: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """The overrides a new topic is created with."""
    pairs = list(entries)
    nulls = [name for name, value in pairs if value is None]
    if nulls:
        raise BrokerError(
            ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}"
        )
    overrides = {name: value for name, value in pairs if value is not None}
    check_topic(layers, overrides)
    return overrides


def alter_broker(
    layers: DynamicBrokerConfig, operations: Sequence[AlterOperation], *, per_broker: bool
) -> dict[str, str]:
    """One dynamic layer after the operations: this broker's own, or the whole cluster's."""
    current = layers.broker_overrides if per_broker else layers.cluster_overrides
    overrides = apply_operations(current, operations, DYNAMIC_BY_NAME)
    check_broker(layers, overrides, per_broker=per_broker)
    return overrides


def settings_after(
    layers: DynamicBrokerConfig, overrides: Mapping[str, str], *, per_broker: bool
) -> Settings:
    """Return the settings that hold with these overrides, which ``check_broker`` has accepted."""
    own = overrides if per_broker else layers.broker_overrides
    cluster = layers.cluster_overrides if per_broker else overrides
    return read(broker.BY_NAME, layers.effective(cluster, own))


def replace_broker(
    layers: DynamicBrokerConfig, entries: Sequence[tuple[str, str | None]], *, per_broker: bool
) -> dict[str, str]:
    """One dynamic layer as AlterConfigs gives it: whole."""
    overrides = _without_nulls(entries)
    check_broker(layers, overrides, per_broker=per_broker)
    return overrides


def apply_operations(
    current: Mapping[str, str], operations: Sequence[AlterOperation], table: Mapping[str, Setting[Any]]
) -> dict[str, str]:
    """Set, delete, append to and subtract from texts; checks the form of the request and nothing else."""
    check_operations(operations)
    overrides = dict(current)
    for name, op, value in operations:
        if op == AlterOp.SET:
            overrides[name] = value or ""
        elif op == AlterOp.DELETE:
            overrides.pop(name, None)
        elif op in {AlterOp.APPEND, AlterOp.SUBTRACT}:
            overrides[name] = _changed_list(overrides, table, AlterOperation(name, op, value))
        else:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {op}")
    return overrides


def check_operations(operations: Sequence[AlterOperation]) -> None:
    """Refuse a name given twice, and a missing value."""
    _refuse_duplicates(operation.name for operation in operations)
    nulls = [o.name for o in operations if o.value is None and o.op != AlterOp.DELETE]
    if nulls:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")


def check_topic(layers: DynamicBrokerConfig, overrides: Mapping[str, str]) -> None:
    """Refuse overrides that a topic cannot have."""
    for name in overrides:
        if name not in topic.BY_NAME:
            raise BrokerError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
    for name, text in overrides.items():
        try:
            topic.BY_NAME[name].read(text)
        except InvalidValue as wrong:
            raise BrokerError(ErrorCode.INVALID_CONFIG, str(wrong)) from None
    settings = layers.topic_settings(overrides)
    shortest, longest = settings[topic.MIN_COMPACTION_LAG_MS], settings[topic.MAX_COMPACTION_LAG_MS]
    if shortest > longest:
        raise BrokerError(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({shortest}) > "
            f"max.compaction.lag.ms ({longest})",
        )
    for setting in (
        topic.REMOTE_STORAGE_ENABLE,
        topic.REMOTE_LOG_COPY_DISABLE,
        topic.REMOTE_LOG_DELETE_ON_DISABLE,
    ):
        if settings[setting]:
            raise BrokerError(ErrorCode.INVALID_CONFIG, f"{setting.name}: tiered storage is not available")


def check_broker(layers: DynamicBrokerConfig, overrides: Mapping[str, str], *, per_broker: bool) -> None:
    """Refuse a dynamic layer that a broker cannot have: unknown, fixed or misplaced names, and bad values."""
    unknown = [name for name in overrides if find_broker_setting(name) is None]
    if unknown:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"Unknown broker config name: {', '.join(unknown)}")
    reasons = {name: dynamic_update_error(name, per_broker=per_broker) for name in overrides}
    refused = {name: reason for name, reason in reasons.items() if reason is not None}
    if refused:
        first = next(iter(refused.values()))
        names = [name for name, reason in refused.items() if reason == first]
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"{first}: {', '.join(names)}")
    own = overrides if per_broker else layers.broker_overrides
    cluster = layers.cluster_overrides if per_broker else overrides
    texts = layers.effective(cluster, own)
    try:
        settings = read(broker.BY_NAME, texts)
        read(DYNAMIC_BY_NAME, overrides)
    except ConfigError as wrong:
        raise BrokerError(ErrorCode.INVALID_REQUEST, str(wrong)) from None
    found = (
        availability.unavailable_setting_problems(overrides)
        or constraints.live_problems(settings, texts)
        or listeners.change_problems(layers.broker, settings)
        or availability.unavailable_protocol_problems(settings)
        or listeners.new_anonymous_access_problems(layers.broker, settings)
        or constraints.pool_problems(layers.broker, settings)
    )
    if found:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "; ".join(found))


def _without_nulls(entries: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    _refuse_duplicates(name for name, _ in entries)
    nulls = [name for name, value in entries if value is None]
    if nulls:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    return {name: value for name, value in entries if value is not None}


def _refuse_duplicates(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"Error due to duplicate config keys : {name}")
        seen.add(name)


def _changed_list(
    overrides: Mapping[str, str], table: Mapping[str, Setting[Any]], operation: AlterOperation
) -> str:
    """A list with words added that it lacked, or taken away; without an override it begins as the default."""
    setting = table.get(operation.name)
    if setting is None:
        raise BrokerError(ErrorCode.INVALID_CONFIG, f"Unknown config name: {operation.name}")
    word = "append" if operation.op == AlterOp.APPEND else "subtract"
    if setting.type is not ConfigType.LIST:
        raise BrokerError(
            ErrorCode.INVALID_CONFIG, f"Config value {word} is not allowed for config key: {operation.name}"
        )
    text = overrides.get(operation.name)
    old = _split(setting.text(setting.default) if text is None else text)
    asked = _split(operation.value)
    if operation.op == AlterOp.APPEND:
        return ",".join([*old, *(each for each in asked if each not in old)])
    for each in asked:
        if each in old:
            old.remove(each)
    return ",".join(old)


def _split(text: str | None) -> list[str]:
    return [word.strip() for word in text.split(",")] if text else []
