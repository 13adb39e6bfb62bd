"""AlterClientQuotas, key 49: set or remove quotas of users, client ids and addresses. Versions 0 and 1."""

from __future__ import annotations

from odradek.wire.schema import array, boolean, float64, int16, int32, message, string, structure


@structure
class AlterClientQuotasRequestEntityData:
    entity_type: str = string()
    entity_name: str | None = string(nullable_since=0)


@structure
class OpData:
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


@structure
class AlterClientQuotasRequestEntryData:
    entity: list[AlterClientQuotasRequestEntityData] = array(AlterClientQuotasRequestEntityData)
    ops: list[OpData] = array(OpData)


@message(versions=range(0, 2), flexible=1)
class AlterClientQuotasRequest:
    """v1 is flexible."""

    entries: list[AlterClientQuotasRequestEntryData] = array(AlterClientQuotasRequestEntryData)
    validate_only: bool = boolean()


@structure
class AlterClientQuotasResponseEntityData:
    entity_type: str = string()
    entity_name: str | None = string(nullable_since=0)


@structure
class AlterClientQuotasResponseEntryData:
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    entity: list[AlterClientQuotasResponseEntityData] = array(AlterClientQuotasResponseEntityData)


@message(versions=range(0, 2), flexible=1)
class AlterClientQuotasResponse:
    """v1 is flexible."""

    throttle_time_ms: int = int32()
    entries: list[AlterClientQuotasResponseEntryData] = array(AlterClientQuotasResponseEntryData)
