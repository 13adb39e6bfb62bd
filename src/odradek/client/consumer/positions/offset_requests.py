"""ListOffsets and OffsetForLeaderEpoch requests, grouped by leader, and their responses. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from odradek.client.consumer.positions.partition_state import FetchPosition, Truncation
from odradek.client.errors import broker_error
from odradek.client.network.metadata import ClusterMetadata
from odradek.client.values import OffsetAndTimestamp
from odradek.model.client_errors import AuthorizationFailed, ClientError, LogTruncation
from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_LEADER, UNKNOWN_OFFSET, TopicPartition
from odradek.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
_CONSUMER_REPLICA_ID: Final = -1
"""``replica_id`` of a consumer."""


class ByLeader(NamedTuple):
    known: dict[int, list[TopicPartition]]
    unknown: list[TopicPartition]


def by_leader(partitions: Iterable[TopicPartition], metadata: ClusterMetadata) -> ByLeader:
    """Group partitions by leader; those without a known leader go to ``unknown``."""
    grouped = ByLeader({}, [])
    for partition in partitions:
        leader, _ = metadata.leader(partition)
        if leader == NO_LEADER or leader not in metadata.nodes:
            grouped.unknown.append(partition)
        else:
            grouped.known.setdefault(leader, []).append(partition)
    return grouped


class OffsetResults(NamedTuple):
    """Parsed response for several partitions."""

    offsets: dict[TopicPartition, Any]
    to_retry: list[TopicPartition]
    """Partitions to request again, after a metadata update."""
    error: ClientError | None
    """A non-retriable error."""


def list_offsets_request(
    timestamps: Mapping[TopicPartition, int], metadata: ClusterMetadata, read_committed: bool
) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for partition, timestamp in timestamps.items():
        topics.setdefault(partition.topic, []).append(
            ListOffsetsPartition(
                partition_index=partition.partition,
                current_leader_epoch=metadata.leader(partition)[1],
                timestamp=timestamp,
            )
        )
    return ListOffsetsRequest(
        replica_id=_CONSUMER_REPLICA_ID,
        isolation_level=int(read_committed),
        topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )


def parse_list_offsets(response: ListOffsetsResponse) -> OffsetResults:
    """Return offsets by partition; None where no record has the requested timestamp or a later one."""
    results = OffsetResults({}, [], None)
    for topic in response.topics:
        for data in topic.partitions:
            partition = TopicPartition(topic.name, data.partition_index)
            code = ErrorCode(data.error_code)
            if code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
                results.offsets[partition] = None
            elif code is ErrorCode.NONE:
                results.offsets[partition] = (
                    None
                    if data.offset == UNKNOWN_OFFSET
                    else OffsetAndTimestamp(data.offset, data.timestamp, data.leader_epoch)
                )
            else:
                results = _handle_error(results, partition, code, f"ListOffsets for {partition}")
    return results


def leader_epoch_request(
    positions: Mapping[TopicPartition, FetchPosition],
) -> OffsetForLeaderEpochRequest:
    topics: dict[str, list[OffsetForLeaderPartition]] = {}
    for partition, position in positions.items():
        topics.setdefault(partition.topic, []).append(
            OffsetForLeaderPartition(
                partition=partition.partition,
                current_leader_epoch=position.leader_epoch,
                leader_epoch=position.offset_epoch,
            )
        )
    return OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER_REPLICA_ID,
        topics=[
            OffsetForLeaderTopic(topic=name, partitions=partitions) for name, partitions in topics.items()
        ],
    )


def parse_leader_epochs(response: OffsetForLeaderEpochResponse) -> OffsetResults:
    """Return, by partition, the largest epoch up to the requested one, and its end offset."""
    results = OffsetResults({}, [], None)
    for topic in response.topics:
        for data in topic.partitions:
            partition = TopicPartition(topic.topic, data.partition)
            code = ErrorCode(data.error_code)
            if code is ErrorCode.NONE:
                results.offsets[partition] = (data.leader_epoch, data.end_offset)
            else:
                results = _handle_error(results, partition, code, f"OffsetForLeaderEpoch for {partition}")
    return results


def _handle_error(
    results: OffsetResults, partition: TopicPartition, code: ErrorCode, operation: str
) -> OffsetResults:
    """Retry every error with newer metadata, except authorization errors."""
    error = broker_error(code, operation)
    if isinstance(error, AuthorizationFailed):
        return results._replace(error=results.error or error)
    results.to_retry.append(partition)
    return results


def truncation_error(truncations: Mapping[TopicPartition, Truncation]) -> LogTruncation:
    """Return the error for logs truncated below positions without a reset policy."""
    details = "; ".join(
        f"{partition} was read to offset {truncation.position.offset}"
        f" (epoch {truncation.position.offset_epoch}), but its log"
        + (
            f" diverges at offset {truncation.end_offset} (epoch {truncation.end_epoch})"
            if truncation.end_offset != UNKNOWN_OFFSET
            else " does not have that epoch"
        )
        for partition, truncation in sorted(truncations.items())
    )
    divergent_offsets = {
        partition: truncation.end_offset
        for partition, truncation in truncations.items()
        if truncation.end_offset != UNKNOWN_OFFSET
    }
    return LogTruncation(f"log truncation detected (auto.offset.reset=none): {details}", divergent_offsets)
