"""LeaderAndIsr, key 4: make replicas leader or follower. Versions 0 to 7; between brokers."""

from __future__ import annotations

from odradek.wire.schema import array, boolean, int8, int16, int32, int64, message, string, structure, uuid


@structure
class LeaderAndIsrPartitionState:
    topic_name: str = string(until=1, ignorable=True)
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    partition_epoch: int = int32()
    replicas: list[int] = array(int32)
    adding_replicas: list[int] = array(int32, since=3, ignorable=True)
    removing_replicas: list[int] = array(int32, since=3, ignorable=True)
    is_new: bool = boolean(since=1, ignorable=True)
    leader_recovery_state: int = int8(since=6)


@structure
class LeaderAndIsrTopicState:
    topic_name: str = string()
    topic_id: bytes = uuid(since=5, ignorable=True)
    partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState)


@structure
class LeaderAndIsrLiveLeader:
    broker_id: int = int32()
    host_name: str = string()
    port: int = int32()


@message(versions=range(0, 8), flexible=4)
class LeaderAndIsrRequest:
    """v0 and v1 have a flat list of partition states, later versions group by topic. v1 adds is_new; v2 adds
    the broker epoch, v3 the replicas being added and removed; v4 is flexible; v5 adds topic ids and the
    request type; v6 the recovery state; v7 is_kraft_controller.
    """

    controller_id: int = int32()
    is_kraft_controller: bool = boolean(since=7)
    controller_epoch: int = int32()
    broker_epoch: int = int64(since=2, default=-1, ignorable=True)
    type: int = int8(since=5)
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState, until=1)
    topic_states: list[LeaderAndIsrTopicState] = array(LeaderAndIsrTopicState, since=2)
    live_leaders: list[LeaderAndIsrLiveLeader] = array(LeaderAndIsrLiveLeader)


@structure
class LeaderAndIsrPartitionError:
    topic_name: str = string(until=4, ignorable=True)
    partition_index: int = int32()
    error_code: int = int16()


@structure
class LeaderAndIsrTopicError:
    topic_id: bytes = uuid()
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError)


@message(versions=range(0, 8), flexible=4)
class LeaderAndIsrResponse:
    """An error per partition; v4 is flexible; from v5 on by topic id."""

    error_code: int = int16()
    partition_errors: list[LeaderAndIsrPartitionError] = array(
        LeaderAndIsrPartitionError, until=4, ignorable=True
    )
    topics: list[LeaderAndIsrTopicError] = array(LeaderAndIsrTopicError, since=5, ignorable=True)
