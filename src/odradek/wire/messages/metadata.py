"""Metadata, key 3: brokers, topics, partitions and their leaders. Versions 0 to 12."""

from __future__ import annotations

from odradek.wire.schema import array, boolean, int16, int32, message, string, structure, uuid


@structure
class MetadataRequestTopic:
    topic_id: bytes = uuid(since=10, ignorable=True)
    name: str | None = string(nullable_since=10)


@message(versions=range(0, 13), flexible=9)
class MetadataRequest:
    """Topics to describe. In v0 an empty list means all; from v1 on null means all and empty means none.

    v4 adds allow_auto_topic_creation; v8 the authorized operations flags; v9 is flexible;
    v10 adds topic ids and nullable names, used from v12 on; v11 moves the cluster's operations to
    DescribeCluster.
    """

    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable_since=1)
    allow_auto_topic_creation: bool = boolean(since=4, default=True)
    include_cluster_authorized_operations: bool = boolean(since=8, until=10)
    include_topic_authorized_operations: bool = boolean(since=8)


@structure
class MetadataResponseBroker:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(since=1, nullable_since=1, default=None, ignorable=True)


@structure
class MetadataResponsePartition:
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(since=7, default=-1, ignorable=True)
    replica_nodes: list[int] = array(int32)
    isr_nodes: list[int] = array(int32)
    offline_replicas: list[int] = array(int32, since=5, ignorable=True)


@structure
class MetadataResponseTopic:
    error_code: int = int16()
    name: str | None = string(nullable_since=12)
    topic_id: bytes = uuid(since=10, ignorable=True)
    is_internal: bool = boolean(since=1, ignorable=True)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32(since=8, default=-2147483648)


@message(versions=range(0, 13), flexible=9)
class MetadataResponse:
    """The cluster as this broker sees it.

    v1 adds racks, the controller and the internal flag; v2 the cluster id; v3 the throttle time; v5
    offline replicas; v7 leader epochs; v8 authorized operations; v9 is flexible; v10 adds topic ids;
    v11 drops the cluster's operations; v12 allows null names for topics requested by id.
    """

    throttle_time_ms: int = int32(since=3, ignorable=True)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string(since=2, nullable_since=2, default=None, ignorable=True)
    controller_id: int = int32(since=1, default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32(since=8, until=10, default=-2147483648)
