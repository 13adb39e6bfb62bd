"""DescribeClientQuotas, key 48: the quotas that match a filter. Versions 0 and 1."""

from __future__ import annotations

from odradek.wire.schema import array, boolean, float64, int8, int16, int32, message, string, structure


@structure
class ComponentData:
    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(nullable_since=0)


@message(versions=range(0, 2), flexible=1)
class DescribeClientQuotasRequest:
    """Match type per component: 0 exact, 1 default entity, 2 any. v1 is flexible."""

    components: list[ComponentData] = array(ComponentData)
    strict: bool = boolean()


@structure
class EntityData:
    entity_type: str = string()
    entity_name: str | None = string(nullable_since=0)


@structure
class ValueData:
    key: str = string()
    value: float = float64()


@structure
class EntryData:
    entity: list[EntityData] = array(EntityData)
    values: list[ValueData] = array(ValueData)


@message(versions=range(0, 2), flexible=1)
class DescribeClientQuotasResponse:
    """v1 is flexible."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    entries: list[EntryData] | None = array(EntryData, nullable_since=0)
