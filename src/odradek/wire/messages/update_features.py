"""UpdateFeatures, key 57: change the cluster's finalized feature levels. Versions 0 and 1, flexible."""

from __future__ import annotations

from odradek.wire.schema import array, boolean, int8, int16, int32, message, string, structure


@structure
class FeatureUpdateKey:
    feature: str = string()
    max_version_level: int = int16()
    allow_downgrade: bool = boolean(until=0)
    upgrade_type: int = int8(since=1, default=1)


@message(versions=range(0, 2), flexible=0)
class UpdateFeaturesRequest:
    """v1 replaces allow_downgrade by upgrade_type and adds validate_only."""

    timeout_ms: int = int32(default=60000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean(since=1)


@structure
class UpdatableFeatureResult:
    feature: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)


@message(versions=range(0, 2), flexible=0)
class UpdateFeaturesResponse:
    """An error per feature, and a top-level one."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    results: list[UpdatableFeatureResult] = array(UpdatableFeatureResult)
