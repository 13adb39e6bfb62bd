"""AlterConfigs, key 33: replace all settings of resources. Versions 0 to 2."""

from __future__ import annotations

from odradek.wire.schema import array, boolean, int8, int16, int32, message, string, structure


@structure
class AlterableConfig:
    name: str = string()
    value: str | None = string(nullable_since=0)


@structure
class AlterConfigsResource:
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@message(versions=range(0, 3), flexible=2)
class AlterConfigsRequest:
    """Configs that are not listed are reset to their defaults. v2 is flexible."""

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@structure
class AlterConfigsResourceResponse:
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    resource_type: int = int8()
    resource_name: str = string()


@message(versions=range(0, 3), flexible=2)
class AlterConfigsResponse:
    """v2 is flexible."""

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
