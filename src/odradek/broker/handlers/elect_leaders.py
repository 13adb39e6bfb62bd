"""ElectLeaders, versions 0 to 2: preferred and unclean leader election.

There is one broker. It leads every partition it can, so that an election is either not needed or impossible.
For a request of all partitions, those that need no election are omitted.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from odradek.broker.requests.dispatcher import RequestContext
from odradek.cluster.metadata_cache import MetadataCache, PartitionMetadata
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import NO_LEADER
from odradek.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)

PREFERRED: Final = 0
UNCLEAN: Final = 1


def elect_leaders(request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    election_type, metadata_cache = request.election_type, context.broker.metadata_cache
    if election_type not in (PREFERRED, UNCLEAN):
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"election type must be 0 or 1, got {election_type}")
    if not context.broker.membership.is_controller:
        return _not_controller(request)
    is_for_all = request.topic_partitions is None
    live = metadata_cache.alive_brokers
    results = []
    topics = request.topic_partitions
    for topic in _all_partitions(metadata_cache) if topics is None else topics:
        errors = [
            (number, election_error(election_type, metadata_cache.partition(topic.topic, number), live))
            for number in topic.partitions
        ]
        entries = [
            PartitionResult(number, error.code, error.message)
            for number, error in errors
            if not is_for_all or error.code is not ErrorCode.ELECTION_NOT_NEEDED
        ]
        if entries:
            results.append(ReplicaElectionResult(topic.topic, entries))
    return ElectLeadersResponse(replica_election_results=results)


def election_error(
    election_type: int, partition: PartitionMetadata | None, live: Collection[int]
) -> BrokerError:
    """Return the reason why no election takes place."""
    if partition is None:
        return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "partition does not exist")
    if election_type == PREFERRED:
        preferred = partition.replicas[0] if partition.replicas else NO_LEADER
        if partition.leader == preferred != NO_LEADER:
            return BrokerError(ErrorCode.ELECTION_NOT_NEEDED)
        return BrokerError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"preferred leader {preferred} is not available"
        )
    if partition.leader in live:
        return BrokerError(ErrorCode.ELECTION_NOT_NEEDED)
    return BrokerError(
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        f"none of the replicas {', '.join(map(str, partition.replicas))} is available",
    )


def _not_controller(request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Return NOT_CONTROLLER per partition: for a request of all partitions, as in Kafka, for none."""
    response = error_response(request, ErrorCode.NOT_CONTROLLER, None)
    response.error_code = ErrorCode.NONE
    return response


def _all_partitions(metadata_cache: MetadataCache) -> list[TopicPartitions]:
    return [TopicPartitions(topic.name, list(topic.partitions)) for topic in metadata_cache.topics.values()]


def error_response(
    request: ElectLeadersRequest, code: ErrorCode, message: str | None
) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic.topic, [PartitionResult(number, code, message) for number in topic.partitions]
            )
            for topic in request.topic_partitions or ()
        ],
    )
