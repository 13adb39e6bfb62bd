"""DescribeConfigs, key 32: configs of topics and brokers, with their sources. Versions 0 to 4."""

from __future__ import annotations

from odradek.wire.schema import array, boolean, int8, int16, int32, message, string, structure


@structure
class DescribeConfigsResource:
    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array(string, nullable_since=0)


@message(versions=range(0, 5), flexible=4)
class DescribeConfigsRequest:
    """Resources, each with config names or null for all. v1 adds include_synonyms, v3
    include_documentation; v4 is flexible.
    """

    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean(since=1)
    include_documentation: bool = boolean(since=3)


@structure
class DescribeConfigsSynonym:
    name: str = string()
    value: str | None = string(nullable_since=0)
    source: int = int8()


@structure
class DescribeConfigsResourceResult:
    name: str = string()
    value: str | None = string(nullable_since=0)
    read_only: bool = boolean()
    is_default: bool = boolean(until=0)
    config_source: int = int8(since=1, default=-1, ignorable=True)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, since=1, ignorable=True)
    config_type: int = int8(since=3, ignorable=True)
    documentation: str | None = string(since=3, nullable_since=0, ignorable=True)


@structure
class DescribeConfigsResult:
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


@message(versions=range(0, 5), flexible=4)
class DescribeConfigsResponse:
    """v0 only has is_default; v1 adds the source and synonyms; v3 adds type and
    documentation; v4 is flexible.
    """

    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)
