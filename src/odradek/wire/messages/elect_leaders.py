"""ElectLeaders, key 43: trigger leader elections. Versions 0 to 2."""

from __future__ import annotations

from odradek.wire.schema import array, int8, int16, int32, message, string, structure


@structure
class TopicPartitions:
    topic: str = string()
    partitions: list[int] = array(int32)


@message(versions=range(0, 3), flexible=2)
class ElectLeadersRequest:
    """Partitions, or null for all. v0 elects preferred leaders; v1 adds the election type; v2 is flexible."""

    election_type: int = int8(since=1)
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable_since=0)
    timeout_ms: int = int32(default=60000)


@structure
class PartitionResult:
    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)


@structure
class ReplicaElectionResult:
    topic: str = string()
    partition_result: list[PartitionResult] = array(PartitionResult)


@message(versions=range(0, 3), flexible=2)
class ElectLeadersResponse:
    """v1 adds a top-level error; v2 is flexible."""

    throttle_time_ms: int = int32()
    error_code: int = int16(since=1, ignorable=True)
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)
