"""ElectLeaders, versions 0 to 2: have the preferred replica lead, or any live one.

There is one broker. It leads whatever it can, so that an election is either not needed or cannot help.
Asked for all partitions, those that need no election are left out.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from odradek.broker.requests.dispatcher import Call
from odradek.cluster.metadata_cache import MetadataCache, PartitionMetadata
from odradek.model.errors import BrokerError, ErrorCode
from odradek.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)

PREFERRED: Final = 0
UNCLEAN: Final = 1


def elect_leaders(request: ElectLeadersRequest, call: Call) -> ElectLeadersResponse:
    kind, image = request.election_type, call.broker.image
    if kind not in (PREFERRED, UNCLEAN):
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"election type must be 0 or 1, got {kind}")
    is_for_all = request.topic_partitions is None
    results = []
    for topic in _all_partitions(image) if request.topic_partitions is None else request.topic_partitions:
        judged = [
            (number, judge_election(kind, image.partition(topic.topic, number), image.alive_brokers))
            for number in topic.partitions
        ]
        entries = [
            PartitionResult(number, refusal.code, refusal.message)
            for number, refusal in judged
            if not is_for_all or refusal.code is not ErrorCode.ELECTION_NOT_NEEDED
        ]
        if entries:
            results.append(ReplicaElectionResult(topic.topic, entries))
    return ElectLeadersResponse(replica_election_results=results)


def judge_election(kind: int, partition: PartitionMetadata | None, live: Collection[int]) -> BrokerError:
    """Return why no election takes place."""
    if partition is None:
        return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    if kind == PREFERRED:
        if partition.leader == partition.replicas[0]:
            return BrokerError(ErrorCode.ELECTION_NOT_NEEDED)
        return BrokerError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            f"The preferred leader {partition.replicas[0]} is not available.",
        )
    if partition.leader in live:
        return BrokerError(ErrorCode.ELECTION_NOT_NEEDED)
    return BrokerError(
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        f"None of the replicas {', '.join(map(str, partition.replicas))} is available.",
    )


def _all_partitions(image: MetadataCache) -> list[TopicPartitions]:
    return [TopicPartitions(topic.name, list(topic.partitions)) for topic in image.topics.values()]


def refuse(request: ElectLeadersRequest, code: ErrorCode, message: str | None) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic.topic, [PartitionResult(number, code, message) for number in topic.partitions]
            )
            for topic in request.topic_partitions or ()
        ],
    )
