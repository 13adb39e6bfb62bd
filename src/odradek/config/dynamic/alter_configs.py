"""AlterConfigs and IncrementalAlterConfigs: the overrides that result from a request, or an error.

Nothing here writes: the caller stores the overrides. Error codes are those of Kafka 3.9: INVALID_REQUEST for
a broker's invalid setting, INVALID_CONFIG for a topic's, INVALID_REQUEST for a malformed request.

One difference: Kafka accepts unknown names for a broker because plugins may use them. Odradek has no plugins,
so an unknown name is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from odradek.config import availability, broker, constraints, listeners, topic
from odradek.config.definition import AnySetting, InvalidValue, Settings, parse_settings
from odradek.config.dynamic.broker_config import DynamicBrokerConfig, dynamic_update_error
from odradek.config.lookup import DYNAMIC_BY_NAME, find_broker_setting
from odradek.model.errors import BrokerError, ConfigError, ErrorCode
from odradek.model.protocol_enums import AlterOp, ConfigType


class AlterOperation(NamedTuple):
    """One change of IncrementalAlterConfigs; ``op`` as on the wire."""

    name: str
    op: int
    value: str | None


def alter_topic(
    config: DynamicBrokerConfig, current: Mapping[str, str], operations: Sequence[AlterOperation]
) -> dict[str, str]:
    """Return a topic's overrides after the operations."""
    overrides = apply_operations(current, operations, topic.BY_NAME)
    check_topic(config, overrides)
    return overrides


def replace_topic(config: DynamicBrokerConfig, entries: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    """Return a topic's overrides replaced by AlterConfigs."""
    overrides = _without_nulls(entries)
    check_topic(config, overrides)
    return overrides


def create_topic(config: DynamicBrokerConfig, entries: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Return the overrides of a new topic."""
    configs = list(entries)
    nulls = [name for name, value in configs if value is None]
    if nulls:
        raise BrokerError(
            ErrorCode.INVALID_CONFIG, f"topic configs must not be null, got null for {', '.join(nulls)}"
        )
    overrides = {name: value for name, value in configs if value is not None}
    check_topic(config, overrides)
    return overrides


def alter_broker(
    config: DynamicBrokerConfig,
    current: Mapping[str, str],
    operations: Sequence[AlterOperation],
    *,
    per_broker: bool,
) -> dict[str, str]:
    """Return this broker's overrides, or the cluster's, after the operations on the current ones."""
    overrides = apply_operations(current, operations, DYNAMIC_BY_NAME)
    check_broker(config, overrides, per_broker=per_broker)
    return overrides


def settings_after(
    config: DynamicBrokerConfig, overrides: Mapping[str, str], *, per_broker: bool
) -> Settings:
    """Return the settings with these overrides, which ``check_broker`` has accepted."""
    per_broker_overrides = overrides if per_broker else config.broker_overrides
    cluster = config.cluster_overrides if per_broker else overrides
    return parse_settings(broker.BY_NAME, config.effective(cluster, per_broker_overrides))


def replace_broker(
    config: DynamicBrokerConfig, entries: Sequence[tuple[str, str | None]], *, per_broker: bool
) -> dict[str, str]:
    """Return this broker's overrides, or the cluster's, replaced by AlterConfigs."""
    overrides = _without_nulls(entries)
    check_broker(config, overrides, per_broker=per_broker)
    return overrides


def apply_operations(
    current: Mapping[str, str], operations: Sequence[AlterOperation], table: Mapping[str, AnySetting]
) -> dict[str, str]:
    """Set, delete, append to and subtract from raw values. Only the form of the request is checked."""
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
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"operation must be in 0..3, got {op}")
    return overrides


def check_operations(operations: Sequence[AlterOperation]) -> None:
    """Reject duplicate names and null values."""
    _reject_duplicates(operation.name for operation in operations)
    nulls = [
        operation.name
        for operation in operations
        if operation.value is None and operation.op != AlterOp.DELETE
    ]
    if nulls:
        raise BrokerError(
            ErrorCode.INVALID_REQUEST, f"configs must not be null, got null for {', '.join(nulls)}"
        )


def check_topic(config: DynamicBrokerConfig, overrides: Mapping[str, str]) -> None:
    """Reject invalid overrides of a topic."""
    for name in overrides:
        if name not in topic.BY_NAME:
            raise BrokerError(ErrorCode.INVALID_CONFIG, f"unknown topic config {name}")
    for name, text in overrides.items():
        try:
            topic.BY_NAME[name].parse_value(text)
        except InvalidValue as error:
            raise BrokerError(ErrorCode.INVALID_CONFIG, str(error)) from None
    settings = config.topic_settings(overrides)
    min_lag_ms, max_lag_ms = settings[topic.MIN_COMPACTION_LAG_MS], settings[topic.MAX_COMPACTION_LAG_MS]
    if min_lag_ms > max_lag_ms:
        raise BrokerError(
            ErrorCode.INVALID_CONFIG,
            f"min.compaction.lag.ms must be at most max.compaction.lag.ms ({max_lag_ms}), got {min_lag_ms}",
        )
    for setting in (
        topic.REMOTE_STORAGE_ENABLE,
        topic.REMOTE_LOG_COPY_DISABLE,
        topic.REMOTE_LOG_DELETE_ON_DISABLE,
    ):
        if settings[setting]:
            raise BrokerError(ErrorCode.INVALID_CONFIG, f"{setting.name}: tiered storage is not available")


def check_broker(config: DynamicBrokerConfig, overrides: Mapping[str, str], *, per_broker: bool) -> None:
    """Reject invalid overrides of a broker: unknown or read-only names, wrong scopes and invalid values."""
    unknown = [name for name in overrides if find_broker_setting(name) is None]
    if unknown:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"unknown broker config {', '.join(unknown)}")
    reasons = {name: dynamic_update_error(name, per_broker=per_broker) for name in overrides}
    rejected = {name: reason for name, reason in reasons.items() if reason is not None}
    if rejected:
        first = next(iter(rejected.values()))
        names = [name for name, reason in rejected.items() if reason == first]
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"{first}: {', '.join(names)}")
    per_broker_overrides = overrides if per_broker else config.broker_overrides
    cluster = config.cluster_overrides if per_broker else overrides
    raw_values = config.effective(cluster, per_broker_overrides)
    try:
        settings = parse_settings(broker.BY_NAME, raw_values)
        parse_settings(DYNAMIC_BY_NAME, overrides)
    except ConfigError as error:
        raise BrokerError(ErrorCode.INVALID_REQUEST, str(error)) from None
    problems = (
        availability.unavailable_setting_problems(overrides)
        or constraints.live_problems(settings, raw_values)
        or listeners.change_problems(config.broker, settings)
        or listeners.new_anonymous_access_problems(config.broker, settings)
        or constraints.pool_problems(config.broker, settings)
    )
    if problems:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "; ".join(problems))


def _without_nulls(entries: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    _reject_duplicates(name for name, _ in entries)
    nulls = [name for name, value in entries if value is None]
    if nulls:
        raise BrokerError(
            ErrorCode.INVALID_REQUEST, f"configs must not be null, got null for {', '.join(nulls)}"
        )
    return {name: value for name, value in entries if value is not None}


def _reject_duplicates(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"each config must appear once, got {name} twice")
        seen.add(name)


def _changed_list(
    overrides: Mapping[str, str], table: Mapping[str, AnySetting], operation: AlterOperation
) -> str:
    """Append missing items to a list, or remove items; without an override start with the default."""
    setting = table.get(operation.name)
    if setting is None:
        raise BrokerError(ErrorCode.INVALID_CONFIG, f"unknown config {operation.name}")
    operation_name = "append" if operation.op == AlterOp.APPEND else "subtract"
    if setting.type is not ConfigType.LIST:
        raise BrokerError(
            ErrorCode.INVALID_CONFIG,
            f"{operation_name} requires a config of type list, got {operation.name}",
        )
    text = overrides.get(operation.name)
    items = _split(setting.format_value(setting.default) if text is None else text)
    operands = _split(operation.value)
    if operation.op == AlterOp.APPEND:
        return ",".join([*items, *(item for item in operands if item not in items)])
    for item in operands:
        if item in items:
            items.remove(item)
    return ",".join(items)


def _split(text: str | None) -> list[str]:
    return [item.strip() for item in text.split(",")] if text else []
