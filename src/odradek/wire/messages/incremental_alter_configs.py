"""IncrementalAlterConfigs, key 44: set, delete, append to or subtract from configs. Versions 0 and 1."""

from __future__ import annotations

from odradek.wire.schema import array, boolean, int8, int16, int32, message, string, structure


@structure
class AlterableConfig:
    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable_since=0)


@structure
class AlterConfigsResource:
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@message(versions=range(0, 2), flexible=1)
class IncrementalAlterConfigsRequest:
    """v1 is flexible."""

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@structure
class AlterConfigsResourceResponse:
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    resource_type: int = int8()
    resource_name: str = string()


@message(versions=range(0, 2), flexible=1)
class IncrementalAlterConfigsResponse:
    """v1 is flexible."""

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
