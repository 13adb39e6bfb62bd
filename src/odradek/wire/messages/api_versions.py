"""ApiVersions, key 18: the API versions a broker supports. Versions 0 to 4.

The response header is always version 0, whatever the body. A request in an unknown version
gets a version 0 body with UNSUPPORTED_VERSION and the versions of this API only; clients then retry.
"""

from __future__ import annotations

from odradek.wire.schema import array, boolean, int16, int32, int64, message, string, structure


@message(versions=range(0, 5), flexible=3)
class ApiVersionsRequest:
    """v3 is flexible and adds the client's software name; v4 accepts feature minimum levels of zero."""

    client_software_name: str = string(since=3, ignorable=True)
    client_software_version: str = string(since=3, ignorable=True)


@structure
class ApiVersion:
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


@structure
class SupportedFeatureKey:
    name: str = string()
    min_version: int = int16()
    max_version: int = int16()


@structure
class FinalizedFeatureKey:
    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()


@message(versions=range(0, 5), flexible=3)
class ApiVersionsResponse:
    """Versions per API, and from v3 on, in tags, the cluster's features.

    v1 adds the throttle time; v3 is flexible; v4 may name features whose lowest level is zero.
    """

    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32(since=1, ignorable=True)
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, since=3, ignorable=True, tag=0)
    finalized_features_epoch: int = int64(since=3, default=-1, ignorable=True, tag=1)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, since=3, ignorable=True, tag=2)
    zk_migration_ready: bool = boolean(since=3, ignorable=True, tag=3)
