"""AlterPartition, key 56: a leader proposes a new ISR to the controller. Versions 0 to 3, flexible; between
brokers.
"""

from __future__ import annotations

from odradek.wire.schema import array, int8, int16, int32, int64, message, string, structure, uuid


@structure
class BrokerState:
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


@structure
class AlterPartitionRequestPartitionData:
    """The ISR is given in both forms: the version is negotiated after the request was built."""

    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr: list[int] = array(int32, until=2, ignorable=True)
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, since=3, ignorable=True)
    leader_recovery_state: int = int8(since=1)
    partition_epoch: int = int32()


@structure
class AlterPartitionRequestTopicData:
    topic_name: str = string(until=1, ignorable=True)
    topic_id: bytes = uuid(since=2, ignorable=True)
    partitions: list[AlterPartitionRequestPartitionData] = array(AlterPartitionRequestPartitionData)


@message(versions=range(0, 4), flexible=0)
class AlterPartitionRequest:
    """v1 adds the recovery state; v2 names topics by id; v3 gives each ISR member with its broker epoch."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[AlterPartitionRequestTopicData] = array(AlterPartitionRequestTopicData)


@structure
class AlterPartitionResponsePartitionData:
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    leader_recovery_state: int = int8(since=1, ignorable=True)
    partition_epoch: int = int32()


@structure
class AlterPartitionResponseTopicData:
    topic_name: str = string(until=1, ignorable=True)
    topic_id: bytes = uuid(since=2, ignorable=True)
    partitions: list[AlterPartitionResponsePartitionData] = array(AlterPartitionResponsePartitionData)


@message(versions=range(0, 4), flexible=0)
class AlterPartitionResponse:
    """The partitions as they now are. v1 adds the recovery state; v2 names topics by id."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[AlterPartitionResponseTopicData] = array(AlterPartitionResponseTopicData)
