"""DescribeCluster, key 60: cluster id, controller and brokers. Versions 0 and 1, flexible."""

from __future__ import annotations

from odradek.wire.schema import array, boolean, int8, int16, int32, message, string, structure


@message(versions=range(0, 2), flexible=0)
class DescribeClusterRequest:
    """v1 adds the endpoint type: brokers (1) or controllers (2)."""

    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8(since=1, default=1)


@structure
class DescribeClusterBroker:
    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable_since=0, default=None)


@message(versions=range(0, 2), flexible=0)
class DescribeClusterResponse:
    """v1 adds the endpoint type."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)
    endpoint_type: int = int8(since=1, default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-2147483648)
