"""StopReplica, key 5: stop, and optionally delete, replicas. Versions 0 to 4; between brokers."""

from __future__ import annotations

from odradek.wire.schema import array, boolean, int16, int32, int64, message, string, structure


@structure
class StopReplicaPartitionV0:
    topic_name: str = string()
    partition_index: int = int32()


@structure
class StopReplicaTopicV1:
    name: str = string()
    partition_indexes: list[int] = array(int32)


@structure
class StopReplicaPartitionState:
    partition_index: int = int32()
    leader_epoch: int = int32(default=-1)
    delete_partition: bool = boolean()


@structure
class StopReplicaTopicState:
    topic_name: str = string()
    partition_states: list[StopReplicaPartitionState] = array(StopReplicaPartitionState)


@message(versions=range(0, 5), flexible=2)
class StopReplicaRequest:
    """Three layouts: single partitions (v0), topics with one delete flag for all (v1, v2), and partition
    states with leader epoch and flag (v3 and later). v1 adds the broker epoch; v2 is flexible; v4 adds
    is_kraft_controller.
    """

    controller_id: int = int32()
    is_kraft_controller: bool = boolean(since=4)
    controller_epoch: int = int32()
    broker_epoch: int = int64(since=1, default=-1, ignorable=True)
    delete_partitions: bool = boolean(until=2)
    ungrouped_partitions: list[StopReplicaPartitionV0] = array(StopReplicaPartitionV0, until=0)
    topics: list[StopReplicaTopicV1] = array(StopReplicaTopicV1, since=1, until=2)
    topic_states: list[StopReplicaTopicState] = array(StopReplicaTopicState, since=3)


@structure
class StopReplicaPartitionError:
    topic_name: str = string()
    partition_index: int = int32()
    error_code: int = int16()


@message(versions=range(0, 5), flexible=2)
class StopReplicaResponse:
    """v2 is flexible; v3 may return FENCED_LEADER_EPOCH."""

    error_code: int = int16()
    partition_errors: list[StopReplicaPartitionError] = array(StopReplicaPartitionError)
