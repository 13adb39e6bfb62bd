"""CreateTopics, key 19. Versions 0 to 7."""

from __future__ import annotations

from odradek.wire.schema import array, boolean, int8, int16, int32, message, string, structure, uuid


@structure
class CreatableReplicaAssignment:
    partition_index: int = int32()
    broker_ids: list[int] = array(int32)


@structure
class CreatableTopicConfig:
    name: str = string()
    value: str | None = string(nullable_since=0)


@structure
class CreatableTopic:
    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig)


@message(versions=range(0, 8), flexible=5)
class CreateTopicsRequest:
    """Topics with partition and replica counts or an assignment, and their configs.

    v1 adds validate_only; from v4 on, counts of -1 mean the broker's defaults; v5 is flexible; v6 clients
    handle THROTTLING_QUOTA_EXCEEDED.
    """

    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean(since=1)


@structure
class CreatableTopicConfigs:
    name: str = string()
    value: str | None = string(nullable_since=5)
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()


@structure
class CreatableTopicResult:
    name: str = string()
    topic_id: bytes = uuid(since=7, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(since=1, nullable_since=0, ignorable=True)
    topic_config_error_code: int = int16(since=5, ignorable=True, tag=0)
    num_partitions: int = int32(since=5, default=-1, ignorable=True)
    replication_factor: int = int16(since=5, default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = array(
        CreatableTopicConfigs, since=5, nullable_since=5, ignorable=True
    )


@message(versions=range(0, 8), flexible=5)
class CreateTopicsResponse:
    """v1 adds a message per topic, v2 the throttle time; v5 is flexible and returns the created topic with
    its configs; v7 adds the topic id.
    """

    throttle_time_ms: int = int32(since=2, ignorable=True)
    topics: list[CreatableTopicResult] = array(CreatableTopicResult)
