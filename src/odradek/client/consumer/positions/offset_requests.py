"""Questions about offsets, grouped by the brokers that know, and what their answers mean. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from odradek.client.consumer.positions.partition_state import FetchPosition, Truncation
from odradek.client.errors import broker_error
from odradek.client.network.metadata import ClusterMetadata
from odradek.client.values import OffsetAndTimestamp
from odradek.model.client_errors import AuthorizationFailed, ClientError, OffsetOutOfRange
from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_LEADER, UNKNOWN_OFFSET, TopicPartition
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
_CONSUMER: Final = -1
"""What a consumer says where a follower says its broker id."""


class ByLeader(NamedTuple):
    known: dict[int, list[TopicPartition]]
    unknown: list[TopicPartition]


def by_leader(partitions: Iterable[TopicPartition], metadata: ClusterMetadata) -> ByLeader:
    """Who is to be asked about which partitions, and those whose leader is not known."""
    grouped = ByLeader({}, [])
    for partition in partitions:
        leader, _ = metadata.leader(partition)
        if leader == NO_LEADER or leader not in metadata.nodes:
            grouped.unknown.append(partition)
        else:
            grouped.known.setdefault(leader, []).append(partition)
    return grouped


class Answers(NamedTuple):
    """What came of a question about many partitions."""

    found: dict[TopicPartition, Any]
    again: list[TopicPartition]
    """Partitions to ask about again, once metadata is newer."""
    refused: ClientError | None


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
        replica_id=_CONSUMER,
        isolation_level=int(read_committed),
        topics=[ListOffsetsTopic(name=name, partitions=each) for name, each in topics.items()],
    )


def read_list_offsets(response: Any) -> Answers:
    """Offsets by partition; None where no record is as late as was asked for."""
    answers = Answers({}, [], None)
    for topic in response.topics:
        for told in topic.partitions:
            partition = TopicPartition(topic.name, told.partition_index)
            code = ErrorCode(told.error_code)
            if code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
                answers.found[partition] = None
            elif code is ErrorCode.NONE:
                answers.found[partition] = (
                    None
                    if told.offset == UNKNOWN_OFFSET
                    else OffsetAndTimestamp(told.offset, told.timestamp, told.leader_epoch)
                )
            else:
                answers = _met(answers, partition, code, f"offsets of {partition}")
    return answers


def epochs_request(
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
        replica_id=_CONSUMER,
        topics=[OffsetForLeaderTopic(topic=name, partitions=each) for name, each in topics.items()],
    )


def read_epochs(response: Any) -> Answers:
    """By partition, the epoch that the leader knows and where it ends."""
    answers = Answers({}, [], None)
    for topic in response.topics:
        for told in topic.partitions:
            partition = TopicPartition(topic.topic, told.partition)
            code = ErrorCode(told.error_code)
            if code is ErrorCode.NONE:
                answers.found[partition] = (told.leader_epoch, told.end_offset)
            else:
                answers = _met(answers, partition, code, f"epochs of {partition}")
    return answers


def _met(answers: Answers, partition: TopicPartition, code: ErrorCode, what: str) -> Answers:
    """Whatever is not a matter of rights may be otherwise with newer metadata."""
    refused = broker_error(code, what)
    if isinstance(refused, AuthorizationFailed):
        return answers._replace(refused=answers.refused or refused)
    answers.again.append(partition)
    return answers


def truncated(truncations: Mapping[TopicPartition, Truncation]) -> OffsetOutOfRange:
    """The error for logs that were cut below positions, when no policy says where to go on."""
    told = "; ".join(
        f"{partition} was read to offset {each.position.offset} (epoch {each.position.offset_epoch}), its log"
        + (
            f" parts from that at offset {each.end_offset} (epoch {each.end_epoch})"
            if each.end_offset != UNKNOWN_OFFSET
            else " knows nothing of that epoch"
        )
        for partition, each in sorted(truncations.items())
    )
    return OffsetOutOfRange(f"records that were read are gone, and auto.offset.reset is none: {told}")
